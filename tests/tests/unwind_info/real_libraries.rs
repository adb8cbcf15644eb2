//! Rebuilds tables of real macOS libraries from their entries: the bytes must be the same. The verifier must accept the
//! tables of Apple's linker and of lld. `tests/real-libraries/download DIR` fetches the libraries, and
//! `CFIPACK_MACOS_LIBRARIES=DIR` names their directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cfipack_container::File;
use cfipack_decoder::unwind_info::{Error, Section};
use cfipack_encoder::unwind_info::{self as encoder, Entry, Layout, Places};
use cfipack_format::compact_unwind::Mode;
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey, Register};
use cfipack_roundtrip::Options;
use cfipack_roundtrip::unwind_info::{self, Code, Image, Meaning, verify, violations};
use cfipack_testkit::needs;
use cfipack_tests::convert::cfi_of;
use cfipack_tests::unwind_table::Table;
use object::read::macho::{FatArch, MachOFatFile32};

/// Returns the directory of images that `tests/real-libraries/download` fetches.
fn directory() -> PathBuf {
    needs::directory("CFIPACK_MACOS_LIBRARIES", "tests/real-libraries/download DIR")
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Calls `check` with name, file and table of every image below a directory. lmdb's table has entries after its
/// sentinel: such a table is printed and skipped.
pub(crate) fn each_table(directory: &Path, mut check: impl FnMut(&str, &File<'_>, &[u8])) {
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
        // A fat file may contain archives of objects.
        for slice in slices.into_iter().filter(|slice| !slice.starts_with(b"!<arch>")) {
            let file = File::parse(slice).unwrap();
            let Some(section) = file.as_macho().unwrap().unwind_info_section().unwrap() else { continue };
            let table = Section::parse(&section.bytes).unwrap();
            let is_lost = |entry: &_| matches!(entry, Err(Error::AfterSentinel { .. }));
            match table.entries().filter(is_lost).count() {
                0 => check(name, &file, &section.bytes),
                lost => println!("{name}: {lost} entries after the sentinel"),
            }
        }
    }
}

#[test]
#[ignore = "needs CFIPACK_MACOS_LIBRARIES"]
fn layouts_are_what_apples_linker_and_lld_wrote_download() {
    let directory = directory();
    let (mut linkers, mut other) = (BTreeMap::<_, u64>::new(), Vec::new());
    let (mut theirs, mut ours, mut least) = (0, 0, 0);
    each_table(&directory, |name, file, bytes| {
        let (arch, table) = (file.arch(), Table::read(bytes));
        let linker = linker_of(file, &table, bytes);
        if linker.is_none() {
            other.push(format!("{name} ({arch:?})"));
        }
        *linkers.entry(linker).or_default() += 1;
        let small = table.lay_out(arch, Layout::Small);
        assert!(small.len() <= bytes.len(), "{name}: {} bytes, {} in the file", small.len(), bytes.len());
        theirs += bytes.len();
        ours += small.len();
        least += lower_bound(&table);
    });
    println!("identical: {linkers:?}; different: {other:?}");
    println!("{theirs} bytes in the files, {ours} in layout small, no table can have fewer than {least}");
    for layout in LINKERS {
        assert!(linkers.contains_key(&Some(Linker::Layout(layout))), "no table of layout {layout:?} found");
    }
    assert!(other.is_empty(), "{} differ: {other:?}", other.len());
}

/// The linker that wrote a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Linker {
    /// The table is the layout's, byte for byte.
    Layout(Layout),
    /// Two entries have one address. No layout imitates that.
    WithShadow,
}

/// The layouts of linkers.
const LINKERS: [Layout; 6] =
    [Layout::LdPrime, Layout::Lld, Layout::LdPrime27, Layout::Ld64, Layout::Ld64V253, Layout::Zig];

/// Finds the linker of a table by the table's bytes. Returns `None` for an unknown linker.
fn linker_of(file: &File<'_>, table: &Table, bytes: &[u8]) -> Option<Linker> {
    let arch = file.arch();
    let call_frames = file.call_frame_sections().unwrap();
    let eh_frame = call_frames.iter().find(|cfi| cfi.section.name == "__eh_frame");
    let eh_frame_len = eh_frame.map_or(0, |cfi| cfi.section.bytes.len() as u32);
    let found = LINKERS.into_iter().find(|&layout| table.lay_out_again(arch, layout, eh_frame_len) == bytes);
    let is_shadowed = || table.entries.windows(2).any(|pair| pair[0].function == pair[1].function);
    found.map(Linker::Layout).or_else(|| is_shadowed().then_some(Linker::WithShadow))
}

/// Returns a number of bytes that every table of these entries needs.
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

/// Returns an image's functions in the order of addresses, each with its address. Entries that were folded are separate
/// again if the image still has the functions' starts. Keys are numbers.
fn unfolded(file: &File<'_>, table: &Table) -> (Vec<Entry>, Vec<u32>) {
    let starts = file.as_macho().unwrap().function_starts().unwrap();
    let base = file.as_macho().unwrap().image_base().0;
    let mut starts: Vec<u32> = starts.into_iter().map(|start| (start.0 - base) as u32).collect();
    let at = |entry: &Entry| entry.function.image_offset().0;
    starts.extend(table.entries.iter().map(at));
    starts.sort_unstable();
    starts.dedup();
    let (mut entries, mut addresses) = (Vec::new(), Vec::new());
    for start in starts {
        let Some(number) = table.entries.partition_point(|entry| at(entry) <= start).checked_sub(1) else {
            continue;
        };
        let entry = table.entries[number];
        let mode = entry.encoding.mode(file.arch());
        let folds = entry.lsda.is_none() && !matches!(mode, Some(Mode::FramelessIndirect | Mode::Dwarf));
        if at(&entry) == start || (folds && start < table.end.0) {
            entries.push(Entry { function: Key(entries.len() as u64), ..entry });
            addresses.push(start);
        }
    }
    (entries, addresses)
}

/// The functions' addresses, or else their ranks.
struct Given<'a>(Option<&'a [u32]>);

impl Places for Given<'_> {
    fn function(&self, function: Key) -> Option<ImageOffset> {
        Some(ImageOffset(self.0.map_or(function.0 as u32, |addresses| addresses[function.0 as usize])))
    }

    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        Some(lsda.image_offset())
    }
}

/// A linker reserves at most 3 % more than the final table, by a first layout that grows by 64 KiB or by the order of
/// functions alone. The latter may need a page more, as for elm's table of 7 KB for 422 558 functions.
#[test]
#[ignore = "needs CFIPACK_MACOS_LIBRARIES"]
fn sizes_are_known_before_layout_download() {
    let directory = directory();
    const PAGE: f64 = 4096.0;
    const NAMES: [&str; 4] = ["first layout", "order alone", "any order", "8 bytes an entry"];
    for layout in [Layout::Small, Layout::Lld, Layout::LdPrime] {
        let (mut images, mut functions, mut len) = (0, 0, 0);
        let (mut bounds, mut worst, mut far) = ([0; 4], [0.0_f64; 4], Vec::new());
        each_table(&directory, |name, file, bytes| {
            let table = Table::read(bytes);
            let (entries, addresses) = unfolded(file, &table);
            if entries.is_empty() {
                return;
            }
            let options = encoder::Options::new().with_layout(layout);
            let mut builder = encoder::Builder::new(file.arch(), options).unwrap();
            entries.iter().for_each(|&entry| builder.push(entry));
            let section = builder.finish();
            let at_addresses = Given(Some(&addresses));
            let first_layout = section.plan(&at_addresses, 0x1_0000).unwrap();
            let code = addresses.last().unwrap() - addresses[0];
            let order = section.plan(&Given(None), code).unwrap();
            let placed = section.place_planned(Some(&order), Some(table.end), &at_addresses).unwrap();
            let most =
                [first_layout.max_len(), order.max_len(), section.max_len(), 28 + 12 + 8 * entries.len()];
            assert!(
                placed.len() <= most[0].min(most[1]).min(most[2]),
                "{name}: {} of {most:?}",
                placed.len()
            );
            for (at, most) in most.into_iter().enumerate() {
                bounds[at] += most;
                worst[at] = worst[at].max(most as f64 / placed.len() as f64);
            }
            let by_order = 1.03 * placed.len() as f64 + PAGE;
            assert!(layout != Layout::Small || most[1] as f64 <= by_order, "{name}: {most:?}");
            if most[1] as f64 > 1.01 * placed.len() as f64 {
                far.push(format!(
                    "{name}: {} {most:?}, {} functions, {code:#x} code",
                    placed.len(),
                    entries.len()
                ));
            }
            assert!(most[0] as f64 <= 1.03 * placed.len() as f64, "{name}: {} of {most:?}", placed.len());
            (images, functions, len) = (images + 1, functions + entries.len(), len + placed.len());
        });
        assert!(bounds[1] as f64 <= 1.03 * len as f64, "{layout:?}: {} of {len} bytes", bounds[1]);
        println!(
            "{layout:?}: {images} images, {functions} functions, {len} bytes; bound / size, all and worst:"
        );
        for ((name, bound), worst) in NAMES.into_iter().zip(bounds).zip(worst) {
            println!("  {name}: {:.4}, {worst:.4}", bound as f64 / len as f64);
        }
        println!("  order alone above 1 %: {far:#?}");
    }
}

/// Tables of production linkers break no rule, or the verifier would be wrong, and their functions agree with the CFI.
/// The exception is ld64, which gives hand-written code wrong encodings (MKL in torch 1.4: `0x02000000` for a stack of
/// some size). The violations in its tables are counted.
#[test]
#[ignore = "needs CFIPACK_MACOS_LIBRARIES"]
fn tables_of_other_linkers_are_true_download() {
    let directory = directory();
    let (mut warnings, mut of_ld64) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
    let mut incomplete = 0;
    let (mut tables, mut functions, mut with_pairs) = (0, 0, 0);
    each_table(&directory, |name, file, bytes| {
        let (arch, base) = (file.arch(), file.as_macho().unwrap().image_base());
        let section = Section::parse(bytes).unwrap();
        let code = file.code_sections().unwrap();
        let code = Code::new(code.iter().map(|section| (section.address, &*section.bytes)));
        let call_frames = file.call_frame_sections().unwrap();
        let cfi = cfi_of(&call_frames);
        let is_slot = |slot| file.locate(slot).is_some_and(|place| place.name.contains("got"));
        let function_starts = file.as_macho().unwrap().function_starts().unwrap();
        let image =
            Image::new(arch, base, &code, &cfi).with_function_starts(&function_starts).with_slots(&is_slot);
        // Violations are in tables of ld64, and in elm's (SDK 27): an entry without unwind information is inside a function.
        let is_of_ld64 = matches!(
            linker_of(file, &Table::read(bytes), bytes),
            Some(Linker::Layout(Layout::Ld64 | Layout::Ld64V253 | Layout::LdPrime27))
        );
        for violation in violations(&section, &image) {
            assert!(violation.is_warning() || is_of_ld64, "{name} ({arch:?}): {violation}");
            let found = if is_of_ld64 { &mut of_ld64 } else { &mut warnings };
            *found.entry(violation.name()).or_default() += 1;
        }
        let table = unwind_info::Table::of_image(arch, base, &section, code.clone());
        let report = verify(&cfi, &table, &Options::default());
        assert!(report.is_complete() || is_of_ld64, "{name} ({arch:?}): {report:?}");
        incomplete += u64::from(!report.is_complete());
        (tables, functions) = (tables + 1, functions + report.functions);
        if arch == Arch::Aarch64 {
            with_pairs += pairs_without_a_frame(name, &table, &code);
        }
    });
    println!("{tables} tables, {functions} functions with CFI; warnings: {warnings:?}");
    println!("of ld64's: {incomplete} tables that lack functions or have wrong ones, {of_ld64:?}");
    println!("{with_pairs} functions without a frame save registers at the places of their entries");
    assert!(tables > 0, "no table found");
    // Known warnings: two readers read frameless pairs in another way than the compiler, lld and ld64 write LSDAs that
    // the FDE has too, and lld writes a null entry that the next entry at its address hides.
    let known = ["frameless-pairs", "lsda-orphan", "null-shares-address"];
    assert!(warnings.keys().all(|name| known.contains(name)), "{warnings:?}");
}

/// Readers disagree about where frameless arm64 functions save registers. The code decides. Counts functions whose code
/// stores every register where we read it.
fn pairs_without_a_frame(name: &str, table: &unwind_info::Table<'_>, code: &Code<'_>) -> u64 {
    let mut count = 0;
    for entry in table.entries() {
        let Meaning::Row(_, saved) = table.meaning(entry) else { continue };
        if entry.encoding.mode(Arch::Aarch64) != Some(Mode::Frameless) || saved.as_slice().is_empty() {
            continue;
        }
        let size = (entry.end.0 - entry.start.0) as usize;
        let code = &code.starting_at(entry.start)[..size];
        // A function may allocate less stack on a branch that saves no registers.
        let mut prologues = (0..size).step_by(4).map(|start| stored_pairs(&code[start..]));
        let is_stored = prologues.any(|stored| saved.as_slice().iter().all(|slot| stored.contains(slot)));
        assert!(is_stored, "{name}: function {} does not store {saved:?}", entry.start);
        count += 1;
    }
    count
}

/// Returns which registers the first instructions of arm64 code store in pairs, and how far from the CFA. The CFA is
/// the stack pointer before these instructions.
fn stored_pairs(code: &[u8]) -> BTreeSet<(Register, i32)> {
    let (mut stack_pointer, mut stored) = (0, BTreeSet::new());
    for word in code.chunks_exact(4).take(32).map(|word| u32::from_le_bytes(word.try_into().unwrap())) {
        let from_stack_pointer = word >> 5 & 31 == 31;
        let offset = ((word as i32) << 10 >> 25) * 8;
        let first = match word >> 22 {
            // sub sp, sp, #N
            0b11_0100_0100 if word & 0x3ff == 0x3ff => {
                stack_pointer -= (word >> 10 & 0xfff) as i32;
                continue;
            }
            // stp xA, xB, [sp, #N] and [sp, #N]!; stp dA, dB
            0b10_1010_0100 | 0b10_1010_0110 => 0,
            0b01_1011_0100 | 0b01_1011_0110 => 64,
            _ => continue,
        };
        if !from_stack_pointer {
            continue;
        }
        let is_pre_index = word >> 22 & 3 == 2;
        let at = stack_pointer + offset;
        if is_pre_index {
            stack_pointer = at;
        }
        stored.insert((Register(first + (word & 31) as u16), at));
        stored.insert((Register(first + (word >> 10 & 31) as u16), at + 8));
    }
    stored
}
