//! Finds the addresses that code mentions, without decoding it.

use cfipack_format::{Address, Arch, Family};

/// Returns the addresses that code may load into a register: the targets of `lea` relative to `rip` on x86-64, and of
/// `adrp` with `add` on AArch64. The code starts at `start`.
///
/// Every byte of x86 code may begin an instruction here, so a few of the addresses are mentioned by no instruction.
pub fn mentions(arch: Arch, start: Address, bytes: &[u8]) -> impl Iterator<Item = Address> {
    let is_x86 = arch.family() == Family::X86;
    let step = if is_x86 { 1 } else { 4 };
    (0..bytes.len()).step_by(step).filter_map(move |at| {
        let pc = start.offset(at as i64);
        if is_x86 { lea(&bytes[at..], pc) } else { adrp(&bytes[at..], pc) }
    })
}

/// Returns the address that a `lea` at `pc` puts into a register of 64 bits.
fn lea(bytes: &[u8], pc: Address) -> Option<Address> {
    let &[0x48 | 0x4c, 0x8d, operands, a, b, c, d, ..] = bytes else { return None };
    let is_relative = operands & 0xc7 == 0x05;
    is_relative.then(|| pc.offset(7 + i64::from(i32::from_le_bytes([a, b, c, d]))))
}

/// Returns the address that an `adrp` at `pc` and an `add` soon after it put into a register.
fn adrp(bytes: &[u8], pc: Address) -> Option<Address> {
    /// The number of instructions in which the `add` follows.
    const SOON: usize = 4;
    let (words, _) = bytes.as_chunks();
    let mut words = words.iter().take(1 + SOON).map(|word| u32::from_le_bytes(*word));
    let adrp = words.next().filter(|word| word & 0x9f00_0000 == 0x9000_0000)?;
    let register = adrp & 0x1f;
    let add = words.find(|word| word & 0xffc0_0000 == 0x9100_0000 && word >> 5 & 0x1f == register)?;
    let pages = (adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3;
    let pages = i64::from((pages << 11) as i32 >> 11);
    let page = Address(pc.0 & !0xfff).offset(pages << 12);
    Some(page.offset(i64::from(add >> 10 & 0xfff)))
}

#[cfg(test)]
mod tests {
    use cfipack_format::{Address, Arch};

    use super::mentions;

    /// GNU `as` and `ld` 2.40 made the bytes.
    #[test]
    fn addresses_that_code_mentions() {
        let code = [0x50, 0x48, 0x8d, 0x15, 0xf8, 0x0f, 0, 0, 0x4c, 0x8d, 0x25, 0xf1, 0xff, 0xff, 0xff, 0xc3];
        let found: Vec<_> = mentions(Arch::Amd64, Address(0x1000), &code).collect();
        assert_eq!(found, [Address(0x2000), Address(0x1000)]);
        let code = [
            0xd000_0083, // adrp x3, 0x412000
            0xaa02_03e1, // mov x1, x2
            0x910d_1463, // add x3, x3, #0x345
            0xf0ff_ffe4, // adrp x4, 0x3ff000
            0x9119_e085, // add x5, x4, #0x678
        ];
        let code: Vec<u8> = code.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        let found: Vec<_> = mentions(Arch::Aarch64, Address(0x40_0010), &code).collect();
        assert_eq!(found, [Address(0x41_2345), Address(0x3f_f678)]);
    }
}
