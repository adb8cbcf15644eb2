use alloc::vec::Vec;

use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Key, Register, Row, Rule};

use super::StubPart;
use crate::Reason;
use crate::sframe::{Builder, Layout, Options};

fn row(start: u32, offset: i64) -> Row {
    Row {
        start: FunctionOffset(start),
        cfa: Cfa::Register { register: Register(7), offset },
        ..Row::at_entry(Arch::Amd64)
    }
}

fn builder(layout: Layout) -> Builder<'static> {
    Builder::new(Arch::Amd64, Options::new().with_layout(layout)).unwrap()
}

/// The bytes that ld 2.47 writes for a PLT at 0x1020 with three entries and a `.plt.sec` at 0x1060 of `-z ibtplt`, as its
/// table's FREs and index have them.
#[test]
fn layout_gnu_is_what_ld_writes() {
    let header = [row(0, 16), row(6, 24)];
    let entry = [row(0, 8), row(9, 16)];
    let jump = [row(0, 8)];
    let mut builder = builder(Layout::Gnu);
    let parts = [StubPart::once(16, &header), StubPart::repeated(16, 3, &entry)];
    builder.push_stubs(Key(0x1020), true, &parts).unwrap();
    builder.push_stubs(Key(0x1060), true, &[StubPart::repeated(16, 3, &jump)]).unwrap();
    let bytes = builder.finish().into_bytes(Address(0x2000), Key::address).unwrap();
    let fres = [
        &[2, 0, 0, 0, 0][..], // attribute: 2 FREs, ADDR1, PC-inc
        &[0, 3, 16, 6, 3, 24],
        &[2, 0, 0x10, 0, 16], // 2 FREs, ADDR1, PC-mask, 16 bytes
        &[0, 3, 8, 9, 3, 16],
        &[1, 0, 0x10, 0, 16],
        &[0, 3, 8],
    ];
    assert_eq!(bytes[28 + 3 * 16..], fres.concat());
    let index: Vec<_> = bytes[28..28 + 3 * 16].chunks(16).collect();
    let start = |at: i64, slot: i64| (at - (0x2000 + 28 + 16 * slot)).to_le_bytes();
    assert_eq!(index[0], [&start(0x1020, 0)[..], &[16, 0, 0, 0, 0, 0, 0, 0]].concat());
    assert_eq!(index[1], [&start(0x1030, 1)[..], &[48, 0, 0, 0, 11, 0, 0, 0]].concat());
    assert_eq!(index[2], [&start(0x1060, 2)[..], &[48, 0, 0, 0, 22, 0, 0, 0]].concat());
}

#[test]
fn one_row_needs_no_mask_in_layout_small() {
    let mut builder = builder(Layout::Small);
    builder.push_stubs(Key(7), false, &[StubPart::repeated(16, 3, &[row(0, 8)])]).unwrap();
    let bytes = builder.finish().into_bytes(Address(0), |_| Address(0)).unwrap();
    assert_eq!(bytes[28 + 16..], [1, 0, 0, 0, 0, 0, 3, 8]);
    assert_eq!(bytes[36..40], 48_u32.to_le_bytes());
}

#[test]
fn pieces_too_large_for_a_mask_have_an_fde_each() {
    let mut builder = builder(Layout::Small);
    builder.push_stubs(Key(7), false, &[StubPart::repeated(256, 3, &[row(0, 8), row(4, 16)])]).unwrap();
    let section = builder.finish();
    let offsets: Vec<_> = section.start_fields().map(|field| (field.function, field.offset)).collect();
    assert_eq!(offsets, [(Key(7), 0), (Key(7), 256), (Key(7), 512)]);
    assert_eq!(section.len(), 28 + 3 * 16 + 5 + 6);
}

/// Code without a row lies between functions, and the next function starts after this code.
#[test]
fn a_gap_has_no_row() {
    let (header, entry) = ([row(0, 16)], [row(0, 8)]);
    for layout in Layout::ALL {
        let mut builder = builder(layout);
        let parts = [StubPart::once(32, &header), StubPart::gap(16), StubPart::repeated(32, 2, &entry)];
        builder.push_stubs(Key(7), false, &parts).unwrap();
        let section = builder.finish();
        let offsets: Vec<_> = section.start_fields().map(|field| (field.function, field.offset)).collect();
        assert_eq!(offsets, [(Key(7), 0), (Key(7), 48)]);
        let bytes = section.into_bytes(Address(0), |_| Address(0x1000)).unwrap();
        let sizes = [&bytes[28 + 8..28 + 12], &bytes[28 + 16 + 8..28 + 16 + 12]];
        assert_eq!(sizes, [32_u32.to_le_bytes(), 64_u32.to_le_bytes()]);
    }
}

#[test]
fn what_cannot_be_represented_is_refused_as_a_whole() {
    let other = Row { return_address: Rule::Expression, ..row(0, 8) };
    let refused: [(&[Row], _); 5] = [
        (&[], Reason::CfaMissing),
        (&[row(1, 8)], Reason::RowStart(1)),
        (&[row(0, 8), row(0, 16)], Reason::RowStart(0)),
        (&[row(0, 8), row(16, 16)], Reason::RowStart(16)),
        (&[other], Reason::ReturnAddressRule),
    ];
    let good = [row(0, 8)];
    for (rows, reason) in refused {
        let mut builder = builder(Layout::Small);
        let parts = [StubPart::once(16, &good), StubPart::repeated(16, 2, rows)];
        let unsupported = builder.push_stubs(Key(5), false, &parts).unwrap_err();
        assert_eq!((unsupported.function, unsupported.reason), (Key(5), reason));
        assert_eq!(builder.finish().num_fdes(), 0);
    }
    let mut builder = builder(Layout::Small);
    let whole = StubPart::repeated(u32::MAX, 2, &good);
    assert_eq!(builder.push_stubs(Key(5), false, &[whole]).unwrap_err().reason, Reason::FunctionSize);
}

#[test]
fn functions_with_and_without_addresses_do_not_mix() {
    let mut builder = builder(Layout::Small);
    builder.push_stubs(Key(5), false, &[StubPart::once(16, &[row(0, 8)])]).unwrap();
    let mixed = builder.push_stubs(Key(6), true, &[StubPart::once(16, &[row(0, 8)])]);
    assert_eq!(mixed.unwrap_err().reason, Reason::KeysMixed);
}
