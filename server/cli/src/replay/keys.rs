//! Every key seen, numbered in the order of their first requests.

use hashbrown::HashTable;

/// The keys and the number of requests of each.
#[derive(Default)]
pub(crate) struct ReplayKeys {
    table: HashTable<u32>,
    records: Vec<KeyRecord>,
}

/// A key and its number of requests.
struct KeyRecord {
    hash: u64,
    requests: u64,
    name: KeyBytes,
}

/// The bytes of a key. Most are short; stored beside the hash they cost no second cache miss.
enum KeyBytes {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

const SHORT: usize = 22;

impl KeyBytes {
    fn new(bytes: &[u8]) -> Self {
        let mut short = [0; SHORT];
        match (short.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(bytes);
                Self::Short(length, short)
            }
            _ => Self::Long(bytes.into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl ReplayKeys {
    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Counts a request of this key, and returns the key's number.
    #[inline]
    pub(crate) fn count(&mut self, hash: u64, bytes: &[u8]) -> u32 {
        let records = &self.records;
        let same = |&number: &u32| {
            let own = &records[number as usize];
            own.hash == hash && own.name.bytes() == bytes
        };
        if let Some(&number) = self.table.find(hash, same) {
            self.records[number as usize].requests += 1;
            return number;
        }
        self.add(hash, bytes)
    }

    #[cold]
    fn add(&mut self, hash: u64, bytes: &[u8]) -> u32 {
        // A table of 2^32 keys would not fit the memory of the machines this runs on.
        let number = self.records.len() as u32;
        self.records.push(KeyRecord { hash, requests: 1, name: KeyBytes::new(bytes) });
        let records = &self.records;
        self.table.insert_unique(hash, number, |&other| records[other as usize].hash);
        number
    }

    /// Returns the bytes of a key.
    pub(crate) fn bytes(&self, number: u32) -> &[u8] {
        self.records[number as usize].name.bytes()
    }

    /// Returns the number of requests of a key.
    pub(crate) fn requests(&self, number: u32) -> u64 {
        self.records[number as usize].requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_hash_are_told_apart() {
        let mut keys = ReplayKeys::default();
        let long = [b'x'; 400];
        let names: [&[u8]; 5] = [b"", b"a", b"b", &long[..22], &long];
        for round in 1..=3 {
            for (number, name) in names.iter().enumerate() {
                assert_eq!(keys.count(7, name), number as u32);
                assert_eq!(keys.requests(number as u32), round);
                assert_eq!(keys.bytes(number as u32), *name);
            }
        }
        assert_eq!(keys.len(), 5);
    }
}
