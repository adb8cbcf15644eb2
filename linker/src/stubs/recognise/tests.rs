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

#[test]
fn what_is_not_all_stubs_is_not_recognised() {
    for parts in [
        &[][..],
        &[&LAZY_HEADER[..15]],
        &[&LAZY_HEADER, &LAZY[..15]],
        &[&LAZY_HEADER, &LAZY, &IBT],
        &[&LAZY_HEADER, &LAZY, &[0xc3; 16]],
        // Entries that jump do not come to a header that takes a pushed index for granted.
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
        let arch = match kind {
            StubKind::S390xPlt => Arch::S390x,
            StubKind::Aarch64Plt
            | StubKind::Aarch64BtiPlt
            | StubKind::Aarch64Jump
            | StubKind::Aarch64TlsDesc
            | StubKind::Aarch64BtiTlsDesc => Arch::Aarch64,
            _ => Arch::Amd64,
        };
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
            assert_eq!(covered, stubs.len(), "{kind:?}");
            // Whatever the alignment of the section, each entry has the rows of the first.
            let (header, size) = (u64::from(kind.shape().header().size()), u64::from(kind.entry().size()));
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
