//! Merges tables and CFI that are written here byte by byte.

mod conflicts;
mod frame_at;
mod from_cfi;
mod random;
mod stubs;
mod without_code;

use cfipack_decoder::sframe as decoder;
use cfipack_encoder::sframe::{Conflict, Finish, Layout, Options as TableOptions};
use cfipack_format::pool::{Serial, Threads};
use cfipack_format::sframe::{Fde, FdeInfo, FdeType, Flags, Header, Version};
use cfipack_format::{
    Address, Arch, Cfa, Endian, FunctionOffset, Key, Reason, Register, Row, Rule, SectionOffset,
};
use cfipack_linker::sframe::{
    Contribution, Field, Live, Merger, Note, Object, Options, Prefer, RelocationKind, Section, SkipReason,
};

/// A function of a table.
#[derive(Clone, Debug)]
struct Function {
    size: u32,
    num_fres: u32,
    info: u8,
    fde_type: FdeType,
    rep_size: u8,
    fres: Vec<u8>,
}

/// Returns a function with CFA = sp + 8, and from 1 on sp + 16.
fn plain(size: u32) -> Function {
    let fres = vec![0, 3, 8, 1, 3, 16];
    Function { size, num_fres: 2, info: 0, fde_type: FdeType::Default, rep_size: 0, fres }
}

fn header(version: Version, functions: &[Function], fre_len: usize) -> [u8; Header::SIZE] {
    let header = Header {
        version: version as u8,
        flags: if version == Version::V3 { Flags::START_PCREL } else { Flags::empty() },
        abi: 3,
        fixed_fp_offset: 0,
        fixed_ra_offset: -8,
        auxhdr_len: 0,
        num_fdes: functions.len() as u32,
        num_fres: functions.iter().map(|function| function.num_fres).sum(),
        fre_len: fre_len as u32,
        fde_off: 0,
        fre_off: (functions.len() * version.fde_size()) as u32,
    };
    header.write(Endian::Little)
}

/// Returns an unrelocated table for x86-64. `places` returns where a function's rows lie, usually at `end`.
fn table_with(version: Version, functions: &[Function], places: impl Fn(usize, usize) -> usize) -> Vec<u8> {
    let (mut index, mut fres) = (Vec::new(), Vec::new());
    for (number, function) in functions.iter().enumerate() {
        let place = places(number, fres.len());
        let fde = Fde {
            start: 0,
            size: function.size,
            fre_off: place as u32,
            num_fres: function.num_fres,
            info: FdeInfo::from_bits_retain(function.info),
            rep_size: function.rep_size,
        };
        index.extend(&fde.write(version, Endian::Little)[..version.fde_size()]);
        if place != fres.len() {
            continue;
        }
        if version == Version::V3 {
            fres.extend((function.num_fres as u16).to_le_bytes());
            fres.extend([function.info, function.fde_type as u8, function.rep_size]);
        }
        fres.extend(&function.fres);
    }
    [&header(version, functions, fres.len())[..], &index, &fres].concat()
}

fn table(version: Version, functions: &[Function]) -> Vec<u8> {
    table_with(version, functions, |_, end| end)
}

/// An `.eh_frame` with two functions and start fields at 32 and 56: CFA = rsp + 8, from 2 on rsp + 24.
fn eh_frame() -> Vec<u8> {
    let mut bytes =
        vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];
    for (id, size) in [(28, 16), (52, 32)] {
        bytes.extend([20, 0, 0, 0, id, 0, 0, 0, 0, 0, 0, 0, size, 0, 0, 0, 0, 0x42, 0x0e, 24, 0, 0, 0, 0]);
    }
    bytes
}

/// Keeps all functions. Their keys are 0, 1 and so on, in the order of the table and of the CFI.
fn all(version: Version) -> impl FnMut(Field) -> Option<Live> {
    move |field| {
        Some(Live::new(Key(match field {
            Field::Sframe(at) => ((at.0 - Header::SIZE) / version.fde_size()) as u64,
            Field::EhFrame(at) => (at.0 as u64 - 32) / 24,
        })))
    }
}

fn address(key: Key) -> Address {
    Address(0x1000 * (1 + key.0))
}

fn written(section: &Section<'_>) -> Vec<u8> {
    let mut bytes = vec![0; section.len()];
    section.write(&mut bytes, Address(0x10_0000), address).unwrap();
    bytes
}

/// Returns the start, size and rows of each function in a table.
fn meaning(bytes: &[u8]) -> Vec<(u64, u32, Vec<Row>)> {
    let section = decoder::Section::parse(bytes, Address(0x10_0000)).unwrap();
    section.validate().unwrap();
    let rows = |function: decoder::Function<'_>| function.rows().map(Result::unwrap).collect();
    section.functions().map(|it| it.unwrap()).map(|it| (it.start().0, it.size(), rows(it))).collect()
}

fn row(start: u32, offset: i64) -> Row {
    Row {
        start: FunctionOffset(start),
        cfa: Cfa::Register { register: Register(7), offset },
        return_address: Rule::Cfa(-8),
        frame_pointer: Rule::SameValue,
        signed: false,
    }
}

fn options(version: Version, layout: Layout, prefer: Prefer) -> Options {
    let mut table = TableOptions::default();
    (table.version, table.layout) = (version, layout);
    Options::new().with_prefer(prefer).with_table(table)
}

fn merge(
    options: Options,
    object: Object<'_>,
    live: impl FnMut(Field) -> Option<Live>,
) -> (Section<'_>, Vec<Note>, Contribution) {
    let mut merger = Merger::new(Arch::Amd64, options).unwrap();
    let mut notes = Vec::new();
    let contribution = merger.push_object(&object, live, |note| notes.push(note));
    (merger.finish(), notes, contribution)
}

const VERSIONS: [Version; 3] = [Version::V1, Version::V2, Version::V3];
const OUTPUTS: [Version; 2] = [Version::V2, Version::V3];
const LAYOUTS: [Layout; 2] = Layout::ALL;

#[test]
fn every_version_becomes_every_other() {
    for (from, to) in VERSIONS.into_iter().flat_map(|from| OUTPUTS.map(|to| (from, to))) {
        for layout in LAYOUTS {
            let bytes = table(from, &[plain(16), plain(32)]);
            let object = Object::new().with_sframe(&bytes);
            let (section, notes, contribution) = merge(options(to, layout, Prefer::Table), object, all(from));
            assert_eq!(notes, []);
            let copied = if from == to { 2 } else { 0 };
            assert_eq!(
                (contribution.copied, contribution.reencoded),
                (copied, 2 - copied),
                "{from:?} {to:?}"
            );
            let rows = vec![row(0, 8), row(1, 16)];
            let expected = [(0x1000, 16, rows.clone()), (0x2000, 32, rows)];
            let bytes = written(&section);
            assert_eq!(meaning(&bytes), expected, "{from:?} {to:?} {layout:?}");
            assert_eq!(bytes[2], to as u8);
        }
    }
}

#[test]
fn tables_without_functions_are_nothing() {
    let empty = table(Version::V3, &[]);
    let twice = [&empty[..], &[0; 4], &empty].concat();
    for bytes in [&[][..], &[0; 8], &empty, &twice] {
        let object = Object::new().with_sframe(bytes);
        let (section, notes, contribution) = merge(Options::new(), object, |_| panic!("no function"));
        assert!(section.is_empty());
        assert_eq!((notes, contribution), (vec![], Contribution::default()));
    }
}

/// A damaged table is skipped as a whole, and its functions get rows from CFI.
#[test]
fn a_bad_table_is_skipped_and_cfi_used() {
    let good = table(Version::V3, &[plain(16), plain(32)]);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let mut aarch64 = with(4, 2);
    aarch64[6] = 0;
    let cases = [
        (with(0, 0xe3), "magic bytes e3 de are not 0xdee2"),
        (with(2, 4), "offset 0x2: unknown version 4"),
        (with(3, 0x84), "offset 0x3: unknown flags 0x84"),
        (with(4, 9), "offset 0x4: unknown ABI 9"),
        (aarch64, "it is for AArch64"),
        (with(8, 200), "function index of 200 entries at 0x1c is out of bounds"),
        (with(12, 5), "offset 0xc: number of FREs is 5, the functions have 4"),
        (good[..good.len() - 1].to_vec(), "22 bytes of FREs at 0x3c are out of bounds"),
        (with(40, 200), "FDE at 0x1c: its FREs at 0xc8 are out of bounds"),
    ];
    let cfi = eh_frame();
    for (bytes, expected) in cases {
        let object = Object::new().with_sframe(&bytes).with_eh_frame(&cfi);
        let (section, notes, contribution) = merge(Options::new(), object, all(Version::V3));
        let [Note::Skipped { table: SectionOffset(0), reason }] = notes[..] else { panic!("{notes:?}") };
        if !expected.starts_with("FDE") {
            assert!(reason.to_string().contains(expected), "{reason} is not {expected}");
        }
        assert_eq!((contribution.skipped, contribution.from_cfi), (1, 2));
        let rows = vec![row(0, 8), row(2, 24)];
        assert_eq!(meaning(&written(&section)), [(0x1000, 16, rows.clone()), (0x2000, 32, rows)]);
    }
}

/// The table has only the first function, and the CFI has both.
#[test]
fn preferences() {
    let bytes = table(Version::V3, &[plain(16)]);
    let cfi = eh_frame();
    let object = Object::new().with_sframe(&bytes).with_eh_frame(&cfi);
    let (table, from_cfi) = (vec![row(0, 8), row(1, 16)], vec![row(0, 8), row(2, 24)]);
    for (prefer, expected) in [
        (Prefer::Table, vec![(0x1000, 16, table.clone()), (0x2000, 32, from_cfi.clone())]),
        (Prefer::Cfi, vec![(0x1000, 16, from_cfi.clone()), (0x2000, 32, from_cfi)]),
        (Prefer::TableOnly, vec![(0x1000, 16, table.clone())]),
    ] {
        for layout in LAYOUTS {
            let (section, notes, _) = merge(options(Version::V3, layout, prefer), object, all(Version::V3));
            assert_eq!(notes, []);
            assert_eq!(meaning(&written(&section)), expected, "{prefer:?}");
        }
    }
    // The CFI does not have the table's function.
    let second_only = |field| match field {
        Field::EhFrame(SectionOffset(32)) => None,
        field => all(Version::V3)(field),
    };
    let (section, ..) = merge(Options::new().with_prefer(Prefer::Cfi), object, second_only);
    assert_eq!(meaning(&written(&section))[0], (0x1000, 16, table));
}

#[test]
fn dead_functions_go_with_their_rows() {
    let mut second = plain(32);
    second.fres = vec![0, 3, 8, 1, 3, 24];
    let bytes = table(Version::V3, &[plain(16), second]);
    let object = Object::new().with_sframe(&bytes);
    let live = |field| all(Version::V3)(field).filter(|live| live.key == Key(1));
    let (section, _, contribution) = merge(Options::new(), object, live);
    assert_eq!((section.len(), contribution.dead), (28 + 16 + 5 + 6, 1));
    assert_eq!(meaning(&written(&section)), [(0x2000, 32, vec![row(0, 8), row(1, 24)])]);
}

/// Linkers that do not know the format place one table after the other.
#[test]
fn tables_behind_each_other() {
    let bytes = [table(Version::V3, &[plain(16)]), table(Version::V2, &[plain(32)])].concat();
    let mut asked = Vec::new();
    let live = |field| {
        asked.push(field);
        Some(Live::new(Key(asked.len() as u64 - 1)))
    };
    let (section, notes, _) = merge(Options::new(), Object::new().with_sframe(&bytes), live);
    assert_eq!(notes, []);
    let first = 28 + 16 + 5 + 6;
    assert_eq!(asked, [Field::Sframe(SectionOffset(28)), Field::Sframe(SectionOffset(first + 28))]);
    let rows = vec![row(0, 8), row(1, 16)];
    assert_eq!(meaning(&written(&section)), [(0x1000, 16, rows.clone()), (0x2000, 32, rows)]);
}

/// A CFA that is counted from another register needs a flex FDE, which version 2 does not have.
#[test]
fn what_the_version_cannot_represent_is_omitted_by_name() {
    let control = 10 << 3 | 1;
    let flex = Function { fde_type: FdeType::Flex, fres: vec![0, 4, control, 8], num_fres: 1, ..plain(16) };
    let bytes = table(Version::V3, &[flex, plain(32)]);
    let object = Object::new().with_sframe(&bytes);
    let (section, notes, contribution) =
        merge(options(Version::V2, Layout::Small, Prefer::Table), object, all(Version::V3));
    let [Note::Omitted(unsupported)] = notes[..] else { panic!("{notes:?}") };
    assert_eq!((unsupported.function, unsupported.reason), (Key(0), Reason::CfaRegister(Register(10))));
    assert_eq!((contribution.omitted, section.num_fdes()), (1, 1));
    // No function has rows for its PCs, not even a function around it.
    let written =
        section.write(&mut vec![0; section.len()], Address(0), |key| Address(0x1000 + 8 * (1 - key.0)));
    let conflicts = written.unwrap().conflicts;
    assert!(matches!(conflicts[..], [Conflict { function: Key(1), other: Key(0), .. }]), "{conflicts:?}");
}

/// Functions without rows, or with rows without a meaning, get rows from CFI if the CFI has them.
#[test]
fn functions_without_usable_rows() {
    let none = Function { num_fres: 0, fres: vec![], ..plain(16) };
    let bad = Function { num_fres: 1, fres: vec![0, 0x02 | 0x80, 8], ..plain(32) };
    let bytes = table(Version::V3, &[none, bad]);
    let cfi = eh_frame();
    let (section, notes, contribution) =
        merge(Options::new(), Object::new().with_sframe(&bytes).with_eh_frame(&cfi), all(Version::V3));
    assert_eq!((notes, contribution.from_cfi, section.num_fdes()), (vec![], 2, 2));
    written(&section);
    let (section, notes, _) = merge(Options::new(), Object::new().with_sframe(&bytes), all(Version::V3));
    let reasons = notes.iter().map(|note| match note {
        Note::Omitted(unsupported) => (unsupported.function, unsupported.reason, note.is_damage()),
        note => panic!("{note}"),
    });
    let expected = [(Key(0), Reason::RowsMissing, false), (Key(1), Reason::RowMalformed, true)];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
    assert!(section.is_empty());
}

/// Functions that share rows also share them in the output. Rows that start inside other rows are an error.
#[test]
fn shared_rows() {
    for version in OUTPUTS {
        let functions = [plain(16), plain(32), plain(48)];
        let same = table_with(version, &functions, |_, _| 0);
        let rows = table(version, &functions[..1]).len() - Header::SIZE - version.fde_size();
        for layout in LAYOUTS {
            let (section, notes, _) = merge(
                options(version, layout, Prefer::Table),
                Object::new().with_sframe(&same),
                all(version),
            );
            assert_eq!(notes, []);
            assert_eq!(section.len(), Header::SIZE + 3 * version.fde_size() + rows, "{version:?} {layout:?}");
            assert_eq!(meaning(&written(&section)).len(), 3);
        }
    }
    let mut inner = plain(32);
    (inner.num_fres, inner.fres) = (1, vec![1, 3, 16]);
    let bytes = table_with(Version::V2, &[plain(16), inner], |number, end| if number == 1 { 3 } else { end });
    let (section, notes, _) = merge(Options::new(), Object::new().with_sframe(&bytes), all(Version::V2));
    let reason = SkipReason::OverlappingRows(3);
    assert_eq!(notes, [Note::Skipped { table: SectionOffset(0), reason }]);
    assert!(section.is_empty());
}

#[test]
fn relocations() {
    for (version, kind, r_type) in
        [(Version::V2, RelocationKind::Relative32, 2), (Version::V3, RelocationKind::Relative64, 24)]
    {
        let bytes = table(version, &[plain(16), plain(32)]);
        let object = Object::new().with_sframe(&bytes);
        let options = options(version, Layout::Gnu, Prefer::TableOnly);
        let (section, ..) = merge(options, object, |field| {
            let mut live = all(version)(field)?;
            // Entries stay in the order of pushing, although the order of the keys is reversed.
            live.key = Key(1 - live.key.0);
            Some(live)
        });
        let relocations: Vec<_> = section.relocations().collect();
        let size = version.fde_size();
        let places: Vec<_> = relocations.iter().map(|it| (it.offset.0, it.function, it.addend)).collect();
        assert_eq!(places, [(28, Key(1), 0), (28 + size, Key(0), 0)]);
        assert!(
            relocations
                .iter()
                .all(|it| it.kind == kind && it.kind.elf_type(Arch::Amd64).unwrap().number == r_type)
        );
        let mut out = vec![0xff; section.len()];
        section.write_relocatable(&mut out).unwrap();
        // One object's section does not change, except for the flag that starts are relative to their fields.
        let mut expected = bytes.clone();
        expected[3] = 4;
        assert_eq!(out, expected);
    }
}
