//! Where a key's state is kept: its name in the server, and the cluster slot of that name.

/// The number of slots in a cluster.
pub const SLOTS: usize = 16_384;

/// Returns the name under which the server keeps the state of a key: `tg:{KEY}NAME`, with `{`, `}` and `%` in the
/// key escaped, so that all policies of a key share a slot of a cluster.
pub fn state_key(key: &[u8], name: &str) -> Vec<u8> {
    let mut state = Vec::with_capacity(key.len() + name.len() + 8);
    state.extend_from_slice(b"tg:");
    write_hash_tag(&mut state, key);
    state.extend_from_slice(name.as_bytes());
    state
}

/// Returns a key in braces, with `{`, `}` and `%` escaped: the part of a name that decides its slot. An empty key has a
/// tag too, which no other key has.
pub fn hash_tag(key: &[u8]) -> Vec<u8> {
    let mut tag = Vec::with_capacity(key.len() + 2);
    write_hash_tag(&mut tag, key);
    if key.is_empty() { b"{%}".to_vec() } else { tag }
}

fn write_hash_tag(name: &mut Vec<u8>, key: &[u8]) {
    name.push(b'{');
    for byte in key {
        match byte {
            b'{' => name.extend_from_slice(b"%7B"),
            b'}' => name.extend_from_slice(b"%7D"),
            b'%' => name.extend_from_slice(b"%25"),
            byte => name.push(*byte),
        }
    }
    name.push(b'}');
}

/// Returns the slot of a key: the CRC16 (XMODEM) of the text between its first braces, or of the whole key if there
/// is no such text, modulo the number of slots.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % SLOTS as u16
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The expected slots are from CLUSTER KEYSLOT of Redis 7.0.15.
        for (key, expected) in
            [("123456789", 12739), ("foo", 12182), ("{foo}bar", 12182), ("{}foo", 9500), ("a{b", 13340)]
        {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn a_key_keeps_its_slot_under_every_policy() {
        for key in ["user:1", "{", "}", "a{b}c", "100%"] {
            assert_eq!(slot(&state_key(key.as_bytes(), "")), slot(&state_key(key.as_bytes(), "login")), "{key}");
        }
        assert_eq!(state_key(b"a{b}%", "n"), b"tg:{a%7Bb%7D%25}n");
    }
}
