//! Merges functions with rows from CFI.

use cfipack_decoder::sframe as decoder;
use cfipack_encoder::sframe::Layout;
use cfipack_format::sframe::{FdeInfo, Version};
use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Field, Live, Note, Object, Options, Prefer};

use crate::{all, eh_frame, meaning, merge, options, plain, row, table, written};

/// A table of version 2 has no signal frames, even if a table of version 3 comes before it. `-r` output of
/// linkers that do not know the format has both.
#[test]
fn signal_frames_of_any_table() {
    let mut signal = plain(16);
    signal.info = FdeInfo::SIGNAL.bits();
    let tables = [table(Version::V3, &[signal]), table(Version::V2, &[plain(32)])];
    let mut cfi = eh_frame();
    // A CIE with the augmentation "zRS", which has one byte less padding.
    let cie = [
        24, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', b'S', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, 0,
        0, 0,
    ];
    cfi.splice(..24, cie);
    (cfi[32], cfi[56]) = (32, 56);
    for (number, order) in [[0, 1], [1, 0]].into_iter().enumerate() {
        let bytes = order.map(|number: usize| &tables[number][..]).concat();
        let mut keys = order.into_iter();
        let live = |field| {
            Some(Live::new(Key(match field {
                Field::Sframe(_) => keys.next()? as u64,
                Field::EhFrame(at) => (at.0 as u64 - 36) / 24,
            })))
        };
        let object = Object::new().with_sframe(&bytes).with_eh_frame(&cfi);
        let (section, notes, contribution) = merge(Options::new(), object, live);
        assert_eq!((notes, contribution.copied, contribution.from_cfi), (vec![], 1, 1), "{number}");
        let bytes = written(&section);
        let read = decoder::Section::parse(&bytes, Address(0x10_0000)).unwrap();
        assert!(read.functions().all(|function| function.unwrap().is_signal_frame()), "{number}");
    }
}

/// If a function's end is cut off, its rows end there.
#[test]
fn extents() {
    let bytes = table(Version::V3, &[plain(16), plain(32)]);
    let cfi = eh_frame();
    for (prefer, second) in [(Prefer::Table, row(1, 16)), (Prefer::Cfi, row(2, 24))] {
        let object = Object::new().with_sframe(&bytes).with_eh_frame(&cfi);
        for (extent, rows) in
            [(1, vec![row(0, 8)]), (3, vec![row(0, 8), second]), (64, vec![row(0, 8), second])]
        {
            let live = |field| Some(all(Version::V3)(field)?.with_extent(extent));
            let (section, notes, contribution) = merge(Options::new().with_prefer(prefer), object, live);
            assert_eq!((notes, contribution.functions()), (vec![], 2));
            let expected = [(0x1000, extent.min(16), rows.clone()), (0x2000, extent.min(32), rows)];
            assert_eq!(meaning(&written(&section)), expected, "{prefer:?} {extent}");
        }
    }
}

#[test]
fn functions_of_cfi_that_no_row_represents_are_counted() {
    let mut cfi = eh_frame();
    // The instructions of the first FDE set the CFA to the negative of rax, by an expression.
    cfi[41..48].copy_from_slice(&[0x0f, 2, 0x70 - 0x20, 0x1f, 0, 0, 0]);
    let object = Object::new().with_eh_frame(&cfi);
    let (section, notes, contribution) =
        merge(options(Version::V3, Layout::Small, Prefer::Table), object, all(Version::V3));
    assert_eq!((contribution.omitted, contribution.from_cfi), (1, 1));
    assert_eq!(contribution.functions(), 1);
    assert!(matches!(notes[..], [Note::Omitted(omitted)] if omitted.function == Key(0)), "{notes:?}");
    let starts: Vec<_> = meaning(&written(&section)).iter().map(|function| function.0).collect();
    assert_eq!(starts, [0x2000]);
}
