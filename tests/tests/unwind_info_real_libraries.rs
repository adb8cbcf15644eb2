//! Real macOS libraries: the entries of their tables, laid out anew, make the tables they have.
//! `tests/real-libraries/download DIR` fetches them; `CFIPACK_MACOS_LIBRARIES=DIR` says where.

use std::path::{Path, PathBuf};
use std::{env, fs};

use cfipack_encoder::unwind_info::Layout;
use cfipack_format::Arch;
use cfipack_tests::reference::skipped;
use cfipack_tests::unwind_table::Table;
use object::read::macho::{FatArch, MachOFatFile32};
use object::{Architecture, Object, ObjectSection};

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Calls `check` with the name, architecture and table of every image below a directory.
fn each_table(directory: &Path, mut check: impl FnMut(&str, Arch, &[u8])) {
    let mut paths = Vec::new();
    files(directory, &mut paths);
    paths.sort();
    for path in paths.iter().filter(|path| !path.ends_with(".complete")) {
        let data = fs::read(path).unwrap();
        let name = path.strip_prefix(directory).unwrap().to_str().unwrap();
        let slices: Vec<&[u8]> = match MachOFatFile32::parse(&*data) {
            Ok(fat) => fat.arches().iter().map(|arch| arch.data(&*data).unwrap()).collect(),
            Err(_) => vec![&data],
        };
        for slice in slices {
            let image = object::File::parse(slice).unwrap();
            let Some(section) = image.section_by_name("__unwind_info") else { continue };
            let arch = match image.architecture() {
                Architecture::X86_64 => Arch::Amd64,
                Architecture::I386 => Arch::I386,
                Architecture::Aarch64 => Arch::Aarch64,
                other => panic!("{name}: {other:?}"),
            };
            check(name, arch, section.data().unwrap());
        }
    }
}

#[test]
fn layouts_are_what_apples_linker_and_lld_wrote() {
    let what = "tables of real macOS libraries laid out anew";
    let Some(directory) = env::var_os("CFIPACK_MACOS_LIBRARIES") else {
        return skipped(what, "CFIPACK_MACOS_LIBRARIES is not set");
    };
    let (mut ld_prime, mut lld, mut other) = (0, 0, Vec::new());
    let (mut theirs, mut ours, mut least) = (0, 0, 0);
    each_table(Path::new(&directory), |name, arch, bytes| {
        let table = Table::read(bytes);
        if table.lay_out(arch, Layout::LdPrime) == bytes {
            ld_prime += 1;
        } else if table.lay_out(arch, Layout::Lld) == bytes {
            lld += 1;
        } else {
            other.push(format!("{name} ({arch:?})"));
        }
        let small = table.lay_out(arch, Layout::Small);
        assert!(small.len() <= bytes.len(), "{name}: {} bytes, {} in the file", small.len(), bytes.len());
        theirs += bytes.len();
        ours += small.len();
        least += lower_bound(&table);
    });
    println!("identical: {ld_prime} as ld-prime, {lld} as lld; different: {other:?}");
    println!("{theirs} bytes in the files, {ours} in layout small, no table can have fewer than {least}");
    assert!(ld_prime > 0, "no table of Apple's linker found");
    assert!(other.is_empty(), "{} differ: {other:?}", other.len());
}

/// Bytes that no table of these entries does without.
fn lower_bound(table: &Table) -> usize {
    let entries = table.entries.len();
    let mut encodings: Vec<_> =
        table.entries.iter().map(|entry| (entry.encoding, entry.personality)).collect();
    encodings.sort_unstable();
    encodings.dedup();
    let lsdas = table.entries.iter().filter(|entry| entry.lsda.is_some()).count();
    let head = 28 + 12 + 4 * table.slots.len() + 8 * lsdas;
    head + 4 * entries + 4 * encodings.len() + 20 * entries.div_ceil(1021)
}
