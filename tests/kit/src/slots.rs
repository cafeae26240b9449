//! Which of a cluster's 16,384 slots a key belongs to.

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: CRC16 of the key, or of its hash tag if it has one.
pub fn slot(key: impl AsRef<[u8]>) -> u16 {
    crc16(tag(key.as_ref())) % SLOTS
}

/// A short text that belongs to a slot: `{text}` in a key puts the key there.
pub fn tag_for(slot: u16) -> String {
    let wanted = slot % SLOTS;
    // Ten digits reach every slot many times over; the default is never used.
    let mut tags = (0_u32..10_000_000).map(|number| number.to_string());
    tags.find(|tag| crc16(tag.as_bytes()) % SLOTS == wanted).unwrap_or_default()
}

/// What lies between the first `{` and the next `}`, if it is not empty.
fn tag(key: &[u8]) -> &[u8] {
    let tagged = || {
        let (_, after) = split(key, b'{')?;
        split(after, b'}').map(|(tag, _)| tag).filter(|tag| !tag.is_empty())
    };
    tagged().unwrap_or(key)
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|&byte| byte == at)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
}

/// CRC-16/XMODEM, bit by bit.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        let crc = crc ^ (u16::from(byte) << 8);
        (0..8).fold(crc, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_where_redis_puts_them() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        let cases = [("foo", 12_182), ("{user1000}.following", 3_443), ("{user1000}.followers", 3_443)];
        for (key, expected) in cases {
            assert_eq!(slot(key), expected, "{key}");
        }
    }

    #[test]
    fn only_the_first_full_tag_counts() {
        assert_eq!(slot("a{b}c{d}"), slot("b"));
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
        let whole = ["foo{}{bar}", "foo{bar", "foo}bar{"];
        for key in whole {
            assert_eq!(slot(key), crc16(key.as_bytes()) % SLOTS, "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_tag() {
        for wanted in (0..SLOTS).step_by(97) {
            assert_eq!(slot(format!("anything{{{}}}", tag_for(wanted))), wanted);
        }
    }
}
