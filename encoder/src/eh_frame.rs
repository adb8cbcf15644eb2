//! `.eh_frame` for the unit tests, put together record by record. It lies at address 0.

use alloc::vec::Vec;

/// A CIE of x86-64 with PC-relative pointers of four bytes: the CFA is rsp + 8, the return address at
/// CFA - 8.
pub(crate) const CIE: [u8; 24] = *b"\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0";

/// Appends an FDE of the CIE at offset `cie`, with these instructions.
pub(crate) fn fde(section: &mut Vec<u8>, cie: u32, start: u32, size: u32, instructions: &[u8]) {
    let at = section.len() as u32;
    let length = 13 + instructions.len() as u32;
    let words = [length, (at + 4).wrapping_sub(cie), start.wrapping_sub(at + 8), size];
    section.extend(words.into_iter().flat_map(u32::to_le_bytes));
    // No augmentation data.
    section.push(0);
    section.extend(instructions);
}
