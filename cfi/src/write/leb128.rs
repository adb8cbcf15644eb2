//! LEB128 numbers (DWARF 5, section 7.6), in the fewest bytes.

use alloc::vec::Vec;

/// Appends an unsigned number.
pub fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number.
pub fn signed(out: &mut Vec<u8>, mut value: i64) {
    while !(-64..64).contains(&value) {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8 & 0x7f);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_gimli_writes_them() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1 << shift) - 1, (1 << shift) + 1, u64::MAX << shift] {
                let (mut ours, mut theirs) = (Vec::new(), [0; 16]);
                unsigned(&mut ours, value);
                let length = gimli::leb128::write::unsigned(&mut theirs.as_mut_slice(), value).unwrap();
                assert_eq!(ours, theirs[..length], "{value}");
                ours.clear();
                signed(&mut ours, value as i64);
                let length = gimli::leb128::write::signed(&mut theirs.as_mut_slice(), value as i64).unwrap();
                assert_eq!(ours, theirs[..length], "{}", value as i64);
            }
        }
    }
}
