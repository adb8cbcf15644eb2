//! Functions turn out to share PCs: at the end of their input section, by their keys, or when the section is
//! written.

use cfipack_decoder::sframe as decoder;
use cfipack_encoder::sframe::{Conflict, Finish, WriteError};
use cfipack_format::pool::Serial;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Field, Live, Merger, Object, Prefer, Section};

use crate::{Function, LAYOUTS, eh_frame, options, plain, table};

const TABLE: Address = Address(0x10_0000);

/// Returns a function with CFA = sp + 8, and from 1 on sp + 32.
fn other(size: u32) -> Function {
    let mut function = plain(size);
    function.fres[5] = 32;
    function
}

/// Merges objects with one function each. `hole` has the key and size of an omitted function.
fn merged(
    (version, layout): (Version, cfipack_encoder::sframe::Layout),
    functions: &[Function],
    extent: Option<u32>,
    hole: Option<(u64, u64)>,
) -> Section<'static> {
    let tables: Vec<_> =
        functions.iter().map(|function| table(version, std::slice::from_ref(function))).collect();
    let mut merger = Merger::new(Arch::Amd64, options(version, layout, Prefer::TableOnly)).unwrap();
    for (number, bytes) in (0..).zip(&tables) {
        let whole = Live::new(Key(number));
        let live = |_| Some(extent.map_or(whole, |extent| whole.with_extent(extent)));
        merger.push_object(&Object::new().with_sframe(bytes), live, |note| panic!("{note}"));
    }
    hole.into_iter().for_each(|(key, size)| merger.note_omitted(Key(key), size));
    merger.finish().into_owned()
}

/// The start, the size, and the CFA's offset at the end of a function.
type Read = (u64, u32, i64);

/// Writes a section. Returns its functions, and the keys of conflicts.
fn read(section: &Section<'_>, addresses: &[u64]) -> (Vec<Read>, Vec<(u64, u64)>) {
    let address_of = |key: Key| Address(addresses[key.0 as usize]);
    let mut bytes = vec![0xff; section.len()];
    let written = section.write(&mut bytes, TABLE, address_of).unwrap();
    let conflicts = written.conflicts.iter().map(|&Conflict { function, other, .. }| (function.0, other.0));
    let in_place = section.clone().into_bytes(TABLE, address_of);
    let table = decoder::Section::parse(&bytes, TABLE).unwrap();
    table.validate().unwrap();
    let functions: Vec<_> = table.functions().map(Result::unwrap).collect();
    let num_fres: u32 = functions.iter().map(|function| function.num_fres()).sum();
    assert_eq!(table.header().num_fres, num_fres);
    match in_place {
        Ok(in_place) => assert!(in_place == bytes),
        Err(error) => assert!(matches!(error, WriteError::Overlap { .. }), "{error}"),
    }
    let last = |pc| match table.lookup(Address(pc)).unwrap().unwrap().cfa {
        cfipack_format::Cfa::Register { offset, .. } => offset,
        cfa => panic!("{cfa:?}"),
    };
    let all = functions
        .iter()
        .map(|it| (it.start().0, it.size(), last(it.start().0 + u64::from(it.size()) - 1)))
        .collect();
    (all, conflicts.collect())
}

fn kinds() -> impl Iterator<Item = (Version, cfipack_encoder::sframe::Layout)> {
    [Version::V2, Version::V3].into_iter().flat_map(|version| LAYOUTS.map(|layout| (version, layout)))
}

/// A function that claims 4096 bytes reaches into another object's function.
#[test]
fn a_function_that_is_too_long() {
    for kind in kinds() {
        let functions = [plain(8), plain(0x1000), other(16), plain(4)];
        let addresses = [0x2000, 0x2010, 0x2030, 0x2040];
        let (all, conflicts) = read(&merged(kind, &functions, None, None), &addresses);
        assert_eq!(all, [(0x2000, 8, 16), (0x2030, 16, 32), (0x2040, 4, 16)], "{kind:?}");
        assert_eq!(conflicts, [(1, 2)]);
        // If the end of its input section is known, the function has rows up to this end.
        let (all, conflicts) = read(&merged(kind, &functions, Some(0x20), None), &addresses);
        assert_eq!(all, [(0x2000, 8, 16), (0x2010, 32, 16), (0x2030, 16, 32), (0x2040, 4, 16)]);
        assert_eq!(conflicts, []);
        // With other addresses, the functions share no PCs.
        let (all, conflicts) = read(&merged(kind, &functions, None, None), &[0x2000, 0x4000, 0x2030, 0x2040]);
        assert_eq!((all.len(), conflicts), (4, vec![]));
    }
}

/// Functions with the same start and different rows are omitted. Functions with the same rows become one function.
#[test]
fn functions_of_one_start() {
    for kind in kinds() {
        let functions = [plain(8), other(8), plain(8), plain(8)];
        let addresses = [0x2000, 0x2000, 0x3000, 0x3000];
        let (all, conflicts) = read(&merged(kind, &functions, None, None), &addresses);
        assert_eq!((all, conflicts), (vec![(0x3000, 8, 16)], vec![(0, 1), (1, 0)]), "{kind:?}");
    }
}

/// A function is omitted if it would have rows for the start of an omitted function.
#[test]
fn omitted_functions() {
    for kind in kinds() {
        let functions = [plain(32), other(32), plain(8)];
        for (hole, expected) in [
            (0x2000, vec![(0, 3)]),
            (0x201f, vec![(0, 3)]),
            (0x2020, vec![(1, 3)]),
            (0x203f, vec![(1, 3)]),
            (0x2048, vec![]),
            (0x1fff, vec![]),
        ] {
            let section = merged(kind, &functions, None, Some((3, 4)));
            let (all, conflicts) = read(&section, &[0x2000, 0x2020, 0x2040, hole]);
            assert_eq!((all.len(), &conflicts), (3 - expected.len(), &expected), "{kind:?} {hole:#x}");
        }
    }
}

/// If the keys are placed like functions, `finish` leaves each PC to one function, and writing has nothing to omit.
#[test]
fn keys_of_all_objects() {
    for (version, layout) in kinds() {
        let bytes = table(version, &[plain(0x1000), other(16), plain(8)]);
        let mut merger = Merger::new(Arch::Amd64, options(version, layout, Prefer::TableOnly)).unwrap();
        for section in [0, 1] {
            let mut keys = [0x10, 0x20, 0x30].into_iter();
            let live = |_| Some(Live::new(Key(section << 32 | keys.next()?)).with_extent(0x40));
            merger.push_object(&Object::new().with_sframe(&bytes), live, |note| panic!("{note}"));
        }
        let section = merger.finish_with(Finish::on(&Serial).with_placed_keys(true));
        assert_eq!(section.omitted(), []);
        let mut out = vec![0; section.len()];
        let address_of = |key: Key| Address(0x2000 + 0x100 * (key.0 >> 32) + (key.0 & 0xff));
        let written = section.write(&mut out, TABLE, address_of).unwrap();
        assert_eq!(written.conflicts, []);
        let table = decoder::Section::parse(&out, TABLE).unwrap();
        table.validate().unwrap();
        let offsets = |base: u64| {
            (0..0x60).map(move |pc| match table.lookup(Address(base + pc)).unwrap()?.cfa {
                cfipack_format::Cfa::Register { offset, .. } => Some(offset),
                _ => None,
            })
        };
        let expected = (0..0x60).map(|pc| match pc {
            0x10 | 0x20 | 0x30 => Some(8),
            0x11..0x20 => Some(16),
            0x21..0x30 => Some(32),
            0x31..0x38 => Some(16),
            // The first function continues after the functions inside it.
            0x38..0x50 => Some(16),
            _ => None,
        });
        for base in [0x2000, 0x2100] {
            assert!(offsets(base).eq(expected.clone()), "{version:?} {layout:?}");
        }
    }
}

/// An FDE claims 64 bytes in a section of 24 bytes.
#[test]
fn an_fde_that_is_too_long() {
    let cfi = eh_frame();
    for layout in LAYOUTS {
        let mut merger = Merger::new(Arch::Amd64, options(Version::V3, layout, Prefer::Cfi)).unwrap();
        for section in [0, 1] {
            let live = |field| match field {
                Field::EhFrame(at) if at.0 == 32 => Some(Live::new(Key(section)).with_extent(12)),
                _ => None,
            };
            merger.push_object(&Object::new().with_eh_frame(&cfi), live, |note| panic!("{note}"));
        }
        let (all, conflicts) = read(&merger.finish(), &[0x2000, 0x200c]);
        assert_eq!((all, conflicts), (vec![(0x2000, 12, 24), (0x200c, 12, 24)], vec![]));
    }
}
