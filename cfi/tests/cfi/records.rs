//! Records and CIEs: DWARF 5, section 6.4.1; Linux Standard Base 5.0, section 10.6.1.

use cfipack_cfi::{Cie, Error, PointerEncoding, Section, SectionKind};
use cfipack_format::{Address, Arch, Register, SectionOffset};

use crate::{PLAIN_CIE, SIZE, START, eh_frame, plain};

/// Reads the CIE with this `body` after its id. The FDE has augmentation data of length 0.
fn cie<T>(body: &[u8], check: impl FnOnce(Result<Cie<'_>, Error>) -> T) -> T {
    let fde = [&START.to_le_bytes()[..], &SIZE.to_le_bytes(), &[0]].concat();
    let bytes = eh_frame(body, &fde);
    let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
    check(cfipack_cfi::Functions::new(&section).next().unwrap().map(|function| function.cie))
}

/// The column is a byte in version 1, and a ULEB128 number from version 3 on.
#[test]
fn the_column_of_the_return_address() {
    for (version, column) in [(1, 0x90), (3, 0x90)] {
        cie(&[version, 0, 1, 0x78, 0x90, 0x01, 0x0c, 7, 8], |cie| {
            let cie = cie.unwrap();
            let instructions = if version == 1 { &[0x01, 0x0c, 7, 8][..] } else { &[0x0c, 7, 8] };
            assert_eq!((cie.return_address, cie.instructions), (Register(column), instructions));
        });
    }
}

/// The encoding `DW_EH_PE_omit` has no pointer bytes after it.
#[test]
fn a_personality_that_is_omitted() {
    cie(b"\x01zPR\0\x01\x78\x10\x02\xff\x00\x0c\x07\x08", |cie| {
        let cie = cie.unwrap();
        assert_eq!((cie.personality, cie.instructions), (None, &[0x0c, 7, 8][..]));
    });
    cie(b"\x01zPR\0\x01\x78\x10\x06\x03\x44\x33\x22\x11\x00\x0c\x07\x08", |cie| {
        let personality = cie.unwrap().personality.expect("a personality");
        assert_eq!(
            (personality.encoding, personality.address),
            (PointerEncoding(3), Some(Address(0x1122_3344)))
        );
        // Before the field: length and id, version, augmentation, two factors, column, length, encoding.
        assert_eq!(personality.field, SectionOffset(8 + 1 + 4 + 3 + 2));
    });
}

#[test]
fn sizes_of_version_4() {
    let offset = SectionOffset(0);
    let address = |size| Some(Error::AddressSize { offset, size });
    let segment = |size| Some(Error::SegmentSize { offset, size });
    for (sizes, expected) in
        [([8, 0], None), ([4, 0], address(4)), ([8, 4], segment(4)), ([8, 1], segment(1))]
    {
        cie(&[&[4, 0][..], &sizes, &PLAIN_CIE[2..]].concat(), |cie| {
            assert_eq!(cie.err(), expected, "{sizes:?}");
        });
    }
}

fn found(bytes: &[u8]) -> Vec<Result<u64, Error>> {
    let section = Section::new(SectionKind::EhFrame, bytes, Address(0), Arch::Amd64);
    cfipack_cfi::Functions::new(&section).map(|function| function.map(|function| function.key.0)).collect()
}

/// Up to three bytes after the last record are padding. Four bytes are a length, even if the length is 0.
#[test]
fn bytes_behind_the_last_record() {
    let bytes = plain(&[], &[]);
    let with = |after: &[u8]| found(&[&bytes, after].concat());
    assert_eq!(with(&[1, 0, 0]), [Ok(START)]);
    assert_eq!(with(&[0; 4]), [Ok(START)]);
    let error = Error::Length { offset: SectionOffset(bytes.len()), length: 1 };
    assert_eq!(with(&[1, 0, 0, 0]), [Ok(START), Err(error)]);
}

/// DWARF 5, section 7.4, reserves lengths from 0xfffffff0 to 0xfffffffe. The section has 4 GiB, but untouched
/// zeros take no memory.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn lengths_that_are_reserved() {
    let mut bytes = vec![0; 1 << 32 | 16];
    for (length, is_reserved) in [(0xffff_ffef_u32, false), (0xffff_fff0, true), (0xffff_fffe, true)] {
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let error = Error::Length { offset: SectionOffset(0), length: length.into() };
        let first = cfipack_cfi::Functions::new(&section).next().map(|function| function.map(|_| ()));
        assert_eq!(first, is_reserved.then_some(Err(error)), "{length:#x}");
    }
}
