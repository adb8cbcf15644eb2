//! Runs the examples for relocatable objects. gimli judges the tables by CFI that these tests relocate.

mod damaged;
mod mach_o;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use cfipack::decoder::sframe::Section as Sframe;
use cfipack::format::cfi::{Excluded, Exclusion, Section, SectionKind};
use cfipack::format::{Address, Arch, Cfa, Register, SectionOffset};
use cfipack::roundtrip::{Options, Report, Table, verify};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

/// Runs an example. Cargo puts examples beside the directory of the tests.
fn run(name: &str, arguments: &[&Path]) -> Output {
    let program = env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join(name);
    Command::new(program).args(arguments).output().unwrap()
}

/// Runs an example, which prints no more than these lines to standard error. Returns what it prints to standard output.
fn example(name: &str, arguments: &[&Path], notes: &[&str]) -> String {
    let output = run(name, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(errors.lines().all(|line| notes.iter().any(|note| line.ends_with(note))), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora").join(name)
}

/// An `.eh_frame` at an address, and the FDEs of dead functions.
type Cfi = (u64, Vec<u8>, Vec<Excluded>);

/// Returns each `.eh_frame` of an object, relocated to `at` or some bytes after it.
fn relocated(object: &[u8], at: u64, address_of: impl Fn(&str) -> Option<u64>) -> Vec<Cfi> {
    let file = object::File::parse(object).unwrap();
    let sections = file.sections().filter(|section| section.name() == Ok(".eh_frame"));
    sections
        .zip((at..).step_by(0x1000))
        .map(|(section, at)| relocate(&file, &section, at, &address_of))
        .collect()
}

/// Relocates an `.eh_frame` to an address. All fields are PC-relative and have 32 bits. FDEs have their start field at 8.
fn relocate(
    file: &object::File<'_>,
    section: &object::Section<'_, '_>,
    at: u64,
    address_of: &impl Fn(&str) -> Option<u64>,
) -> Cfi {
    let (mut bytes, mut dead) = (section.data().unwrap().to_vec(), Vec::new());
    for (offset, relocation) in section.relocations() {
        let target = match relocation.target() {
            RelocationTarget::Symbol(symbol) => {
                let symbol = file.symbol_by_index(symbol).unwrap();
                let section = symbol.section_index().map(|index| file.section_by_index(index).unwrap());
                let start = section.and_then(|section| address_of(section.name().unwrap()));
                start.map(|start| start + symbol.address())
            }
            _ => None,
        };
        let Some(target) = target else {
            let fde = SectionOffset(offset as usize - 8);
            dead.push(Excluded { fde, reason: Exclusion::Discarded });
            continue;
        };
        let value = (target as i64 + relocation.addend() - (at + offset) as i64) as u32;
        let field = &mut bytes[offset as usize..][..4];
        let value = if file.is_little_endian() { value.to_le_bytes() } else { value.to_be_bytes() };
        field.copy_from_slice(&value);
    }
    (at, bytes, dead)
}

/// What the example prints: addresses of sections, by the object's path and the section's name.
struct Map(BTreeMap<(String, String), u64>);

impl Map {
    fn parse(text: &str) -> Self {
        let sections = text.lines().filter_map(|line| {
            let (address, place) = line.split_once(' ').unwrap();
            let (path, section) = place.strip_suffix(')')?.rsplit_once('(').unwrap();
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
            Some(((path.to_owned(), section.to_owned()), address))
        });
        Self(sections.collect())
    }

    fn address(&self, path: &Path, section: &str) -> Option<u64> {
        self.0.get(&(path.to_str().unwrap().to_owned(), section.to_owned())).copied()
    }
}

/// Compares the table that the example wrote with the CFI of objects, placed as the map states.
fn judge(table: &Path, arch: Arch, objects: &[PathBuf], map: &Map) -> Report {
    let cfi = objects
        .iter()
        .zip((0x40_0000..).step_by(0x1_0000))
        .flat_map(|(path, at)| relocated(&fs::read(path).unwrap(), at, |section| map.address(path, section)));
    let cfi: Vec<_> = cfi.collect();
    let cfi = cfi.iter().map(|(at, bytes, dead)| {
        Section::new(SectionKind::EhFrame, bytes, Address(*at), arch).with_excluded(dead)
    });
    let table = fs::read(table).unwrap();
    let table = Sframe::parse(&table, Address(0x100_0000)).unwrap();
    verify(&cfi.collect::<Vec<_>>(), &Table::new(&[table]), &Options::new())
}

/// Links objects with the example, and judges the table.
fn link(name: &str, arch: Arch, objects: &[PathBuf], notes: &[&str]) -> Report {
    let output = scratch(name);
    let arguments: Vec<_> = [&output].into_iter().chain(objects).map(PathBuf::as_path).collect();
    let map = Map::parse(&example("link_objects", &arguments, notes));
    judge(&output, arch, objects, &map)
}

/// Returns the numbers of functions that are equal, different, missing, and only in the table.
fn counts(report: &Report) -> [u64; 4] {
    assert!(report.is_true(), "{:?}", report.differences);
    [report.equal, report.different, report.missing, report.extra]
}

/// If two objects have the same group, the group's functions come from the first object.
#[test]
fn objects_with_tables_and_without_become_one_table() {
    let twice = scratch("comdat.again.o");
    fs::copy(corpus("container/comdat.eh_frame.o"), &twice).unwrap();
    let objects = [corpus("container/linkable.o"), corpus("container/comdat.eh_frame.o"), twice];
    // The objects have four, three and two live functions. The last two objects have the same group, and an FDE whose
    // start has no relocation.
    let notes = [".eh_frame+0x7c: no relocation for a function"];
    assert_eq!(counts(&link("groups.sframe", Arch::Amd64, &objects, &notes)), [4 + 3 + 2, 0, 0, 0]);
}

/// Links objects of GNU as 2.44 (tables of version 2), of GNU as 2.47, and of LLVM.
#[test]
fn objects_of_several_assemblers_become_one_table() {
    let x86_64 = ["x_adjust.gas244.o", "x_adjust.gas247.o", "x_adjust.llvm23.o"];
    let objects = x86_64.map(|name| corpus("sframe/x86_64").join(name));
    assert_eq!(counts(&link("x86_64.sframe", Arch::Amd64, &objects, &[])), [3, 0, 0, 0]);
    let objects = ["a_frame.gas244.o", "a_frame.gas247.o"].map(|name| corpus("sframe/aarch64").join(name));
    assert_eq!(counts(&link("aarch64.sframe", Arch::Aarch64, &objects, &[])), [2, 0, 0, 0]);
}

/// A table and two `.eh_frame` sections, each with a function that only this section describes. The table and the second
/// `.eh_frame` both describe a third function.
#[test]
fn all_sections_of_a_kind_count() {
    let report = link("several.sframe", Arch::Amd64, &[corpus("container/several.o")], &[]);
    assert_eq!([report.equal, report.different, report.missing, report.extra], [2, 0, 0, 1]);
}

/// One symbol is undefined. The rows of a lazy PLT: an entry pushes its index before 11, and the header the link map
/// before 6.
#[test]
fn the_plt_has_rows() {
    let object = corpus("sframe/x86_64/x_personality.gas247.o");
    let report = link("plt.sframe", Arch::Amd64, &[object], &[]);
    assert_eq!([report.different, report.missing, report.extra], [0, 0, 2], "{:?}", report.differences);
    let table = fs::read(scratch("plt.sframe")).unwrap();
    let table = Sframe::parse(&table, Address(0x100_0000)).unwrap();
    let cfa = |offset: u64| table.lookup(Address(0x4000 + offset)).unwrap().unwrap().cfa;
    let pushed = [0, 6, 16, 26, 27].map(cfa);
    let rsp = |offset| Cfa::Register { register: Register(7), offset };
    assert_eq!(pushed, [16, 24, 8, 8, 16].map(rsp));
}

#[test]
fn an_object_of_the_assembler_links() {
    let object = scratch("functions.o");
    example("assemble_object", &[&object], &[]);
    assert_eq!(counts(&link("functions.sframe", Arch::Amd64, &[object], &[])), [2, 0, 0, 0]);
}
