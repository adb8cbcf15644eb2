//! Links Mach-O objects. Each row of an object must be in the table, and gimli judges the table by the objects' CFI.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack::decoder::unwind_info::Section as Table;
use cfipack::format::cfi::{Section, SectionKind};
use cfipack::format::compact_unwind::{Encoding, Entry as Row, Flags, Mode};
use cfipack::format::{Address, Arch, ImageOffset};
use cfipack::roundtrip::Options;
use cfipack::roundtrip::unwind_info::{self, Code, Report};
use object::{Architecture, File, Object, ObjectSection, ObjectSymbol, Relocation, RelocationTarget};

use super::{Map, corpus, example, scratch};

/// An object with the place of its sections in the output.
struct Placed<'a> {
    path: &'a Path,
    file: File<'a>,
    map: &'a Map,
}

impl<'a> Placed<'a> {
    /// Returns the address in the output for an address in the object.
    fn moved(&self, address: u64) -> u64 {
        let holds =
            |it: &object::Section<'_, '_>| (it.address()..it.address() + it.size()).contains(&address);
        let section = self.file.sections().find(holds).unwrap();
        self.map.address(self.path, section.name().unwrap()).unwrap() + (address - section.address())
    }

    /// Returns the symbol that a relocation names, if any, and the address in the object that it leads to.
    fn target(&self, relocation: &Relocation, stored: u64) -> (Option<&'a str>, u64) {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { return (None, stored) };
        let symbol = self.file.symbol_by_index(symbol).unwrap();
        (Some(symbol.name().unwrap()), symbol.address() + stored)
    }

    /// Returns `__eh_frame`, with its address after the move of `__text`. Then all distances to code are right.
    fn eh_frame(&self) -> Option<(Vec<u8>, u64)> {
        let section = self.file.section_by_name("__eh_frame")?;
        let mut bytes = section.data().unwrap().to_vec();
        for (at, relocation) in section.relocations().filter(|(_, it)| it.subtractor().is_some()) {
            let (_, target) = self.target(&relocation, 0);
            let distance = target.wrapping_sub(section.address() + at).to_le_bytes();
            let size = usize::from(relocation.size() / 8);
            bytes[at as usize..][..size].copy_from_slice(&distance[..size]);
        }
        let text = self.file.section_by_name("__text").unwrap();
        Some((bytes, section.address() + self.moved(text.address()) - text.address()))
    }
}

fn arch(file: &File<'_>) -> Arch {
    match file.architecture() {
        Architecture::X86_64 => Arch::Amd64,
        _ => Arch::Aarch64,
    }
}

/// Checks that a table has the rows of an object: each with its encoding and its LSDA, or in DWARF mode. Functions with
/// the same personality have the same slot. Returns the number of rows that kept their encoding.
pub fn check_rows(table: &Path, objects: &[PathBuf], map: &Map) -> usize {
    let bytes = fs::read(table).unwrap();
    let table = Table::parse(&bytes).unwrap();
    let (mut slots, mut kept) = (HashMap::new(), 0);
    for path in objects {
        let object = fs::read(path).unwrap();
        let object = Placed { path, file: File::parse(&*object).unwrap(), map };
        let arch = arch(&object.file);
        let plain = |encoding: Encoding| Encoding(encoding.with_personality(0).0 & !Flags::HAS_LSDA.bits());
        let Some(section) = object.file.section_by_name("__compact_unwind") else { continue };
        let relocations: HashMap<_, _> = section.relocations().collect();
        for (bytes, at) in section.data().unwrap().chunks(Row::size(8)).zip((0..).step_by(Row::size(8))) {
            let row = Row::read(bytes, 8).unwrap();
            let field = |field: usize, stored| {
                relocations.get(&(at + field as u64)).map(|it| object.target(it, stored))
            };
            let (_, function) = field(Row::FUNCTION_AT, row.function).unwrap();
            let start = ImageOffset(object.moved(function) as u32);
            let entry = table.lookup(start).unwrap().unwrap();
            assert!(start.0 < entry.end.0 && entry.start.0 <= start.0, "{path:?}: {start}");
            if entry.encoding.mode(arch) == Some(Mode::Dwarf) {
                continue;
            }
            assert_eq!(plain(entry.encoding), plain(row.encoding), "{path:?}: {start}");
            let lsda = field(Row::lsda_at(8), row.lsda).map(|(_, at)| ImageOffset(object.moved(at) as u32));
            assert_eq!(table.lsda(&entry).unwrap(), lsda, "{path:?}: {start}");
            let personality =
                field(Row::personality_at(8), row.personality).map(|(name, _)| name.unwrap().to_owned());
            let slot = table.personality(&entry).unwrap();
            assert_eq!(*slots.entry(personality).or_insert(slot), slot, "{path:?}: {start}");
            kept += 1;
        }
    }
    assert_eq!(slots.get(&None).copied().flatten(), None);
    kept
}

/// Links objects with the example, checks their rows, and judges the table. Returns the number of rows that kept their
/// encoding, and the report.
fn link(name: &str, objects: &[PathBuf], notes: &[&str]) -> (usize, Report) {
    let output = scratch(name);
    let arguments: Vec<_> = [&output].into_iter().chain(objects).map(PathBuf::as_path).collect();
    let map = Map::parse(&example("link_objects", &arguments, notes));
    let kept = check_rows(&output, objects, &map);
    let files: Vec<_> = objects.iter().map(|path| fs::read(path).unwrap()).collect();
    let placed = objects.iter().zip(&files).map(|(path, bytes)| Placed {
        path,
        file: File::parse(&**bytes).unwrap(),
        map: &map,
    });
    let placed: Vec<_> = placed.collect();
    let arch = arch(&placed[0].file);
    let code = placed.iter().map(|object| {
        let text = object.file.section_by_name("__text").unwrap();
        (Address(object.moved(text.address())), text.data().unwrap())
    });
    let cfi: Vec<_> = placed.iter().filter_map(Placed::eh_frame).collect();
    let cfi = cfi.iter().map(|(bytes, at)| Section::new(SectionKind::EhFrame, bytes, Address(*at), arch));
    let table = fs::read(output).unwrap();
    let table =
        unwind_info::Table::of_image(arch, Address(0), &Table::parse(&table).unwrap(), Code::new(code));
    (kept, unwind_info::verify(&cfi.collect::<Vec<_>>(), &table.without_slots(), &Options::new()))
}

/// A function with a fourth personality is in DWARF mode.
#[test]
fn mach_o_objects_become_one_table() {
    let objects = ["four_personalities.o", "second_name.o", "label_inside.o"];
    let objects = objects.map(|name| corpus("apple").join(name));
    let note = "; the FDE at 0xc4 of object 0 describes it";
    let (kept, report) = link("apple.unwind_info", &objects, &[note]);
    assert!(report.is_complete(), "{:?}", report.differences);
    assert_eq!([report.functions, report.equal, report.dwarf], [7, 6, 1]);
    assert_eq!(kept, 6);
}

/// C++ programs as clang compiles them, without a system's headers.
#[test]
#[ignore = "needs clang"]
fn programs_of_clang_become_one_table() {
    let source = "int g(int); struct S { ~S(); int v; };
        template<int N> __attribute__((noinline)) int shared(int a) { S s; return g(a + N) * N; }
        int NAME(int a) { try { return g(a) + shared<3>(a); } catch (int e) { return e; } }
        int NAME(char a) { int b[a]; g(*b); return shared<5>(a) + b[0]; }
        int NAME(long a) { return a + 1; }";
    for target in ["arm64", "x86_64"] {
        let objects = ["first", "second"].map(|name| {
            let [file, object] = ["cpp", "o"].map(|end| scratch(&format!("{name}.{target}.{end}")));
            fs::write(&file, source.replace("NAME", name)).unwrap();
            let mut clang = Command::new("clang");
            clang.args(["-target", &format!("{target}-apple-macos11"), "-stdlib=libc++", "-O2", "-c", "-o"]);
            assert!(clang.args([&object, &file]).status().unwrap().success());
            object
        });
        let (kept, report) = link(&format!("{target}.unwind_info"), &objects, &[]);
        assert!(report.is_complete(), "{target}: {:?}", report.differences);
        // In objects for arm64, functions with a row have no FDE.
        assert!(kept >= 8 && (target == "arm64" || report.functions == 10), "{target}: {kept}, {report:?}");
    }
}
