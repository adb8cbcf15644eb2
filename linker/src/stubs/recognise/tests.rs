use alloc::vec::Vec;

use super::recognise;
use crate::encoder::sframe::{Builder, Layout, Options};
use crate::format::sframe::Version;
use crate::format::{Address, Arch, Key};
use crate::stubs::{Code, Shape, StubKind, Stubs};

/// The header that bfd, mold and wild write, as objdump disassembles it.
const LAZY_HEADER: [u8; 16] =
    [0xff, 0x35, 0xca, 0x2f, 0, 0, 0xff, 0x25, 0xcc, 0x2f, 0, 0, 0x0f, 0x1f, 0x40, 0];
const LAZY: [u8; 16] = [0xff, 0x25, 0xca, 0x2f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff];
const IBT: [u8; 16] = [0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0, 0, 0, 0xe9, 0xe2, 0xff, 0xff, 0xff, 0x66, 0x90];
const PLT_GOT: [u8; 8] = [0xff, 0x25, 0xe2, 0x3f, 0x0a, 0, 0x66, 0x90];
const WILD: [u8; 16] = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x1d, 0x15, 0, 0, 0x0f, 0x1f, 0x44, 0, 0];
const TLS_DESC: [u8; 16] =
    [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x35, 0x96, 0x2f, 0, 0, 0xff, 0x25, 0x80, 0x2f, 0, 0];

fn amd64(parts: &[&[u8]]) -> Option<(Shape<'static>, u32)> {
    recognise(Arch::Amd64, &parts.concat()).map(|found| (found.shape, found.entries))
}

#[test]
fn stubs_are_told_by_their_code() {
    let lazy = StubKind::Amd64LazyPlt.shape();
    let jump = StubKind::Amd64Jump.shape();
    assert_eq!(amd64(&[&LAZY_HEADER, &LAZY, &LAZY]), Some((lazy, 2)));
    assert_eq!(amd64(&[&LAZY]), Some((lazy.with_header(Code::NONE), 1)));
    assert_eq!(amd64(&[&LAZY_HEADER, &IBT]), Some((StubKind::Amd64IbtPlt.shape(), 1)));
    assert_eq!(amd64(&[&LAZY_HEADER]), Some((Shape::new().with_header(lazy.header()), 0)));
    let with_trailer = lazy.with_trailer(StubKind::Amd64IbtTlsDesc.entry());
    assert_eq!(amd64(&[&LAZY_HEADER, &LAZY, &TLS_DESC]), Some((with_trailer, 1)));
    assert_eq!(amd64(&[&PLT_GOT, &PLT_GOT, &PLT_GOT]), Some((jump.with_entry_size(8), 3)));
    assert_eq!(amd64(&[&WILD, &WILD]), Some((jump, 2)));
}

fn words(arch: Arch, words: &[u32]) -> Option<(Shape<'static>, u32)> {
    let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    recognise(arch, &bytes).map(|found| (found.shape, found.entries))
}

/// Thunks that ld 2.47, lld 23 and mold 3 wrote, as objdump prints them. Any mixture has a single row.
#[test]
fn stubs_of_several_forms_that_only_jump_have_one_row() {
    const AARCH64: Arch = Arch::Aarch64;
    let jump = StubKind::Aarch64Jump.shape();
    let whole = |size| Some((Shape::new().with_header(Code::new(size, jump.entry().rows())), 0));
    // mold's .plt.got: adrp; ldr; br x17; brk. wild's ends in a nop.
    let plt_got = |padding| [0x9000_0090, 0xf942_da11, 0xd61f_0220, padding];
    assert_eq!(words(AARCH64, &[plt_got(0xd420_7d00); 2].concat()), Some((jump, 2)));
    assert_eq!(words(AARCH64, &plt_got(0xd503_201f)), Some((jump, 1)));
    // ld: b over; nop; bti c; b; adrp; add; br; udf; adrp; nop; br; udf.
    let over = [0x1400_000e, 0xd503_201f, 0xd503_245f, 0x17ff_fff9];
    let far = [0x900f_ff90, 0x9100_1210, 0xd61f_0200, 0, 0x900f_ff90, 0xd503_201f, 0xd61f_0200, 0];
    assert_eq!(words(AARCH64, &[&over[..], &far].concat()), whole(48));
    assert_eq!(words(AARCH64, &far[..4]), Some((jump, 1)));
    // ld: ldr x16; adr x17; add; br; distance.
    let distant = [0x5800_0090, 0x1000_0011, 0x8b11_0210, 0xd61f_0200, 0x1ffe_ffe8, 3];
    assert_eq!(words(AARCH64, &distant), Some((jump.with_entry_size(24), 1)));
    // lld: ldr x16; br; address. bti c; b. b. movz, movk, movk, movk; br.
    let absolute = [0x5800_0050, 0xd61f_0200, 0x2000_0008, 0];
    let execute_only = [0xd280_0110, 0xf2a4_0010, 0xf2c0_0010, 0xf2e0_0010, 0xd61f_0200];
    let mixed = [&absolute[..], &[0xd503_245f, 0x1400_0003, 0x1640_4006], &execute_only].concat();
    assert_eq!(words(AARCH64, &mixed), whole(48));
    assert_eq!(words(AARCH64, &execute_only), Some((jump.with_entry_size(20), 1)));
    // A veneer and a call are not stubs that only jump. Padding alone is not a stub.
    assert_eq!(words(AARCH64, &[0xf940_0c00, 0x17ff_fff6]), None);
    assert_eq!(words(AARCH64, &[0x1400_0003, 0x9400_0003]), None);
    assert_eq!(words(AARCH64, &[0xd503_201f, 0]), None);
}

/// mold 3's PLTs for s390x: a header of 48 bytes.
#[test]
fn stubs_of_mold_for_s390x() {
    let header = [
        0xb9, 0x09, 0x00, 0x01, 0xa7, 0x0b, 0xff, 0xc2, 0xeb, 0x10, 0x00, 0x01, 0x00, 0x0c, 0xb9, 0x08, 0x00,
        0x01, 0xe3, 0x00, 0xf0, 0x38, 0x00, 0x24, 0xc0, 0x10, 0, 0, 0x11, 0x04, 0xd2, 0x07, 0xf0, 0x30, 0x10,
        0x08, 0xe3, 0x10, 0x10, 0x10, 0x00, 0x04, 0x07, 0xf1, 0, 0, 0, 0,
    ];
    let slot = [0xc0, 0x10, 0, 0, 0x11, 0x04, 0xe3, 0x10, 0x10, 0, 0, 0x04];
    let entry = [&slot[..], &[0x0d, 0x01, 0, 0]].concat();
    let plt_got = [&slot[..], &[0x07, 0xf1, 0, 0]].concat();
    let plt = [&header[..], &entry, &entry].concat();
    let found = |bytes: &[u8]| recognise(Arch::S390x, bytes).map(|found| (found.shape, found.entries));
    assert_eq!(found(&plt), Some((StubKind::S390xMoldPlt.shape(), 2)));
    assert_eq!(found(&plt_got), Some((StubKind::S390xJump.shape(), 1)));
}

/// lld 22's retpolines, as its disassembly prints them. The tail of the lazy retpoline has no row.
#[test]
fn retpolines_of_lld() {
    let tail = [0x4c, 0x89, 0x1c, 0x24, 0xc3];
    let mut header = [0xcc; 48];
    header[..18]
        .copy_from_slice(&[0xff, 0x35, 0, 0, 0, 0, 0x4c, 0x8b, 0x1d, 0, 0, 0, 0, 0xe8, 0x0e, 0, 0, 0]);
    header[32..37].copy_from_slice(&tail);
    let mut entry = [0xcc; 32];
    entry[..27].copy_from_slice(&[
        0x4c, 0x8b, 0x1d, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0,
    ]);
    let lazy = StubKind::Amd64RetpolinePlt.shape();
    assert_eq!(amd64(&[&header, &entry, &entry]), Some((lazy, 2)));
    assert_eq!(amd64(&[&entry]), Some((lazy.with_header(Code::NONE), 1)));
    assert_eq!(amd64(&[&header]), Some((lazy.with_entry(Code::NONE), 0)));
    let mut header = [0xcc; 32];
    header[..7].copy_from_slice(&[0xe8, 0x0b, 0, 0, 0, 0xf3, 0x90]);
    header[16..21].copy_from_slice(&tail);
    let mut entry = [0xcc; 16];
    entry[..12].copy_from_slice(&[0x4c, 0x8b, 0x1d, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0]);
    let now = StubKind::Amd64RetpolineNowPlt.shape();
    assert_eq!(amd64(&[&header, &entry]), Some((now, 1)));
    assert_eq!(amd64(&[&entry, &entry]), Some((now.with_header(Code::NONE), 2)));
}

#[test]
fn what_is_not_all_stubs_is_not_recognised() {
    for parts in [
        &[][..],
        &[&LAZY_HEADER[..15]],
        &[&LAZY_HEADER, &LAZY[..15]],
        &[&LAZY_HEADER, &LAZY, &IBT],
        &[&LAZY_HEADER, &LAZY, &[0xc3; 16]],
        // Entries that jump do not belong to a header that expects a pushed index.
        &[&LAZY_HEADER, &WILD],
        &[&TLS_DESC[..8]],
    ] {
        assert_eq!(amd64(parts), None, "{parts:x?}");
    }
    for arch in [Arch::Amd64, Arch::Aarch64, Arch::Aarch64Be, Arch::S390x, Arch::I386] {
        assert_eq!(recognise(arch, &[0; 64]), None);
        assert_eq!(recognise(arch, &[0xff; 33]), None);
    }
}

/// Each named shape has rows that every version and layout of its architecture can represent.
#[test]
fn every_kind_goes_into_a_table() {
    for kind in StubKind::ALL {
        let arch = kind.arch();
        for (version, layout) in
            [(Version::V3, Layout::Small), (Version::V3, Layout::Gnu), (Version::V2, Layout::Small)]
        {
            let options = Options::new().with_version(version).with_layout(layout);
            let mut builder = Builder::new(arch, options).unwrap();
            let stubs = Stubs::keyed(Key(7), kind).with_entries(5);
            stubs.push(&mut builder).unwrap();
            let bytes = builder.finish().into_bytes(Address(0), |_| Address(0x1008)).unwrap();
            let table = cfipack_decoder::sframe::Section::parse(&bytes, Address(0)).unwrap();
            table.validate().unwrap();
            let covered: u64 = table.functions().map(|function| u64::from(function.unwrap().size())).sum();
            let (header, gap) = (kind.shape().header().size(), kind.shape().gap());
            assert_eq!(covered + u64::from(gap), stubs.len(), "{kind:?}");
            for pc in header..header + gap {
                assert_eq!(table.lookup(Address(0x1008 + u64::from(pc))), Ok(None), "{kind:?}");
            }
            // For every alignment of the section, each entry has the rows of the first entry.
            let (header, size) = (u64::from(header + gap), u64::from(kind.entry().size()));
            for offset in 0..size {
                let rows: Vec<_> = (0..5)
                    .map(|entry| table.lookup(Address(0x1008 + header + entry * size + offset)).unwrap())
                    .map(|row| row.expect("a row"))
                    .collect();
                assert!(rows.windows(2).all(|pair| pair[0].unwinds_as(&pair[1])), "{kind:?} {offset}");
            }
        }
    }
}
