use alloc::vec::Vec;

use cfipack_format::sframe::{FdeInfo, Header, Version};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Arch, Key};

use crate::cfi::{Section, SectionKind};
use crate::eh_frame::{CIE, fde};
use crate::sframe::{Builder, Options};

/// An `.eh_frame` of two functions with the same rows. Each function has a row for each of its bytes.
fn twice_the_same(rows: u32) -> Vec<u8> {
    let mut bytes = CIE.to_vec();
    // `advance_loc` by 1, `def_cfa_offset`.
    let pushes = [[0x41, 0x0e, 16], [0x41, 0x0e, 8]].into_iter().cycle().take(rows.to_usize() - 1);
    let instructions: Vec<_> = pushes.flatten().collect();
    (1..3).for_each(|number| fde(&mut bytes, 0, 0x10_0000 * number, rows, &instructions));
    bytes
}

/// Readers refuse tables with many more rows than bytes, so blocks of more than 2048 bytes are not shared. A
/// row has three bytes in blocks of up to 256 rows, and four bytes in larger blocks.
#[test]
fn long_blocks_are_not_shared() {
    for (rows, shared) in [(255, true), (256, true), (257, true), (510, true), (511, false), (5_000, false)] {
        let bytes = twice_the_same(rows);
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let mut builder = Builder::new(Arch::Amd64, Options::default()).unwrap();
        builder.push_all(crate::cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
        let table = builder.finish().into_bytes(Address(0), Key::address).unwrap();
        let (fdes, _) = table[Header::SIZE..].as_chunks::<16>();
        assert_eq!(fdes[0][12..] == fdes[1][12..], shared, "{rows} rows");
    }
}

/// In version 2 an FDE has the key that signs return addresses, so rows with different keys are two blocks.
#[test]
fn equal_rows_of_different_keys() {
    let mut bytes = Vec::new();
    for (number, key) in [b'S', b'B'].into_iter().enumerate() {
        let cie = bytes.len() as u32;
        bytes.extend(*b"\x14\0\0\0\0\0\0\0\x01zR");
        bytes.extend([key, 0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0, 0, 0, 0]);
        let at = bytes.len() as u32;
        let words = [16, at + 4 - cie, 0x1000 + 0x100 * number as u32 - (at + 8), 0x100, 0];
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }
    let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Aarch64);
    let options = Options::new().with_version(Version::V2);
    let mut builder = Builder::new(Arch::Aarch64, options).unwrap();
    builder.push_all(crate::cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
    let table = builder.finish().into_bytes(Address(0), Key::address).unwrap();
    let (fdes, _) = table[Header::SIZE..].as_chunks::<20>();
    let infos = [fdes[0][16], fdes[1][16]].map(FdeInfo::from_bits_retain);
    assert_eq!(infos, [FdeInfo::empty(), FdeInfo::PAUTH_KEY_B]);
}
