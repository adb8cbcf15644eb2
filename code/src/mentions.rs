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
