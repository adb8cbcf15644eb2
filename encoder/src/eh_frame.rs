//! Builds `.eh_frame` sections for the unit tests, record by record. A section lies at address 0.

use alloc::vec::Vec;
use core::mem::take;

use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Arch, SectionOffset};

use crate::cfi::SectionKind;
use crate::cfi::write::{Cie, Writer, WrittenCie};

/// A CIE of x86-64 with PC-relative pointers of four bytes: the CFA is rsp + 8, the return address at
/// CFA - 8.
pub(crate) const CIE: [u8; 24] = *b"\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0";

/// Returns [`CIE`] as a written CIE at `offset`, so that an FDE can refer to it.
fn cie_at(offset: u32) -> WrittenCie {
    let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
    let mut cie = writer.cie(&Cie::new(Arch::Amd64, b"\x0c\x07\x08\x90\x01")).unwrap();
    assert_eq!(writer.as_bytes(), CIE);
    cie.offset = SectionOffset(offset.to_usize());
    cie
}

/// Appends an FDE of the CIE at offset `cie`, with these instructions.
pub(crate) fn fde(section: &mut Vec<u8>, cie: u32, start: u32, size: u32, instructions: &[u8]) {
    let mut writer = Writer::after(SectionKind::EhFrame, Arch::Amd64, Address(0), take(section));
    writer.alignment = 1;
    writer.fde(&cie_at(cie), Address(start.into()), size.into(), None, instructions).unwrap();
    *section = writer.into_bytes();
}
