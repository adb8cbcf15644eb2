//! Rows of stubs.

use cfipack_decoder::sframe as decoder;
use cfipack_encoder::sframe::Layout;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Cfa, Key, Register};
use cfipack_linker::sframe::{Merger, Prefer};
use cfipack_linker::stubs::{Code, Shape, StubKind, Stubs};

use crate::{LAYOUTS, meaning, options, row, written};

/// A PLT as ld describes it: its header, and stubs of 16 bytes.
#[test]
fn stubs() {
    let mut merger = Merger::new(Arch::Amd64, options(Version::V3, Layout::Gnu, Prefer::TableOnly)).unwrap();
    let (first, stub) = ([row(0, 16), row(6, 24)], [row(0, 8), row(11, 16)]);
    let shape = Shape::new().with_header(Code::new(16, &first)).with_entry(Code::new(16, &stub));
    merger.push_stubs(&Stubs::keyed(Key(0), shape).with_entries(18)).unwrap();
    let bytes = written(&merger.finish());
    // Starts are two bytes wide, because the width depends on the size of the whole PLT.
    assert_eq!(
        bytes[60..],
        [2, 0, 1, 0, 0, 0, 0, 3, 16, 6, 0, 3, 24, 2, 0, 0x11, 0, 16, 0, 0, 3, 8, 11, 0, 3, 16]
    );
    let section = decoder::Section::parse(&bytes, Address(0x10_0000)).unwrap();
    for (pc, offset) in [(0x1000, 16), (0x1006, 24), (0x1010, 8), (0x101b, 16), (0x1020, 8), (0x112b, 16)] {
        let row = section.lookup(Address(pc)).unwrap().unwrap();
        assert_eq!(row.cfa, Cfa::Register { register: Register(7), offset }, "{pc:#x}");
    }
    assert_eq!(section.lookup(Address(0x1130)).unwrap(), None);
}

/// Without entries only the header gets rows, and a shape without a header gets none.
#[test]
fn no_stubs() {
    for layout in LAYOUTS {
        let mut merger = Merger::new(Arch::Amd64, options(Version::V3, layout, Prefer::TableOnly)).unwrap();
        merger.push_stubs(&Stubs::keyed(Key(0), StubKind::Amd64LazyPlt)).unwrap();
        merger.push_stubs(&Stubs::keyed(Key(1), StubKind::Amd64Jump)).unwrap();
        assert_eq!(meaning(&written(&merger.finish())), [(0x1000, 16, vec![row(0, 16), row(6, 24)])]);
    }
}
