//! The order of saved registers in x86's frameless functions: a count, and a permutation number of 10 bits. The
//! number is a Lehmer code over the six registers.
//!
//! The registers r₁ … rₙ are listed from the lowest address up. Each register is replaced by its rank among the
//! registers that have not occurred yet. The ranks are the digits of the number, and digit i has 7−i values.
//! With six registers, the last digit is always 0 and is omitted.

/// Register numbers 1 to 6 ([`super::callee_saved`]) from the lowest address up, then zeros.
pub type Order = [u8; 6];

/// Returns the permutation of up to six different register numbers from 1 to 6, listed from the lowest address
/// up. Returns `None` if a number is out of range or occurs twice, or if there are more than six.
pub const fn encode_order(registers: &[u8]) -> Option<u16> {
    if registers.len() > 6 {
        return None;
    }
    let mut seen = 0u8;
    let mut permutation = 0;
    let mut i = 0;
    while i < registers.len() {
        let register = registers[i];
        if register < 1 || register > 6 || seen & 1 << register != 0 {
            return None;
        }
        if i < 5 {
            let lower_seen = (seen & ((1 << register) - 1)).count_ones() as u16;
            permutation = permutation * (6 - i as u16) + (register as u16 - 1 - lower_seen);
        }
        seen |= 1 << register;
        i += 1;
    }
    Some(permutation)
}

/// Returns the register numbers for a count and a permutation. Returns `None` for a count above 6, and for a
/// permutation that is too large: the limits are 1, 6, 30, 120, 360, 720 and 720 for 0 to 6 registers.
pub const fn decode_order(count: u8, permutation: u16) -> Option<Order> {
    if count > 6 {
        return None;
    }
    let digits = if count == 6 { 5 } else { count as usize };
    let mut order = [0; 6];
    let mut rest = permutation;
    let mut i = digits;
    while i > 0 {
        i -= 1;
        let values = 6 - i as u16;
        order[i] = (rest % values) as u8;
        rest /= values;
    }
    if rest != 0 {
        return None;
    }
    let mut unused = [1, 2, 3, 4, 5, 6];
    let mut i = 0;
    while i < count as usize {
        let mut rank = order[i] as usize;
        order[i] = unused[rank];
        while rank < 5 {
            unused[rank] = unused[rank + 1];
            rank += 1;
        }
        i += 1;
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;
    use crate::compact_unwind::callee_saved;

    /// 1957 pairs of count and permutation have an order, and all orders are different. No other pair has an
    /// order.
    #[test]
    fn all_pairs() {
        let mut valid = 0;
        for count in 0..=u8::MAX {
            for permutation in 0..=u16::MAX {
                let Some(order) = decode_order(count, permutation) else { continue };
                assert_eq!(encode_order(&order[..count as usize]), Some(permutation));
                valid += 1;
            }
        }
        assert_eq!(valid, 1957);
        assert_eq!(encode_order(&[1, 1]), None);
        assert_eq!(encode_order(&[0]), None);
        assert_eq!(encode_order(&[7]), None);
        assert_eq!(encode_order(&[1, 2, 3, 4, 5, 6, 1]), None);
    }

    #[test]
    fn registers_of_six() {
        assert!(callee_saved(Arch::Amd64).unwrap().contains(&Arch::Amd64.frame_pointer()));
        assert!(callee_saved(Arch::I386).unwrap().contains(&Arch::I386.frame_pointer()));
        assert_eq!(callee_saved(Arch::Aarch64), None);
    }
}
