//! Looks up functions of real macOS images with LLVM's libunwind, whose `UnwindCursor` is compiled for this machine. It
//! must find the encoding, personality and LSDA that our reader finds. `tests/libunwind/build` compiles it.
//! `CFIPACK_LIBUNWIND` names the program, and `CFIPACK_MACOS_LIBRARIES` the images.

use cfipack_cfi as cfi;
use cfipack_container::File;
use cfipack_decoder::unwind_info::Section;
use cfipack_format::compact_unwind::{Encoding, Flags, Mode};
use cfipack_format::{Address, Arch, ImageOffset};
use cfipack_testkit::needs;
use cfipack_tests::libunwind::{Answer, ask, judge};
use cfipack_tests::reference::Tools;

use super::real_libraries::each_table;

#[test]
#[ignore = "needs CFIPACK_LIBUNWIND and CFIPACK_MACOS_LIBRARIES"]
fn libunwind_finds_the_same_download() {
    let what = "tables of real macOS libraries by LLVM's libunwind";
    let directory = needs::directory("CFIPACK_MACOS_LIBRARIES", "tests/real-libraries/download DIR");
    let judge = judge();
    let (mut images, mut pcs, mut in_dwarf_mode, mut scanned) = (0, 0, 0, 0);
    each_table(&directory, |name, file, bytes| {
        if !matches!(file.arch(), Arch::Amd64 | Arch::Aarch64) {
            return;
        }
        let section = Section::parse(bytes).unwrap();
        let asked = questions(&section);
        let functions = functions(file);
        let found = ask(&judge, file, bytes, &asked);
        assert_eq!(found.len(), asked.len(), "{name}");
        for (&pc, found) in asked.iter().zip(&found) {
            let (expected, is_scanned) = expected(file, &section, &functions, pc);
            assert_eq!(found, &expected, "{name} ({:?}): {pc}", file.arch());
            in_dwarf_mode += u64::from(expected.as_ref().is_some_and(|answer| answer.fde != 0));
            scanned += u64::from(is_scanned);
        }
        (images, pcs) = (images + 1, pcs + asked.len());
    });
    println!(
        "{what}: {images} images, {pcs} PCs, {in_dwarf_mode} in DWARF mode, {scanned} of them by a scan"
    );
    assert!(images > 0, "no table found");
}

/// With `--icf=all`, ld64.lld 23 writes LSDA records in DWARF mode that lead to no LSDA. libunwind ignores them and
/// takes the LSDA from the FDE.
#[test]
#[ignore = "needs the reference tools and CFIPACK_LIBUNWIND"]
fn libunwind_follows_no_record_of_dwarf_mode_download() {
    let judge = judge();
    let tools = Tools::find();
    tools.write("input.s", include_str!("../../../corpora/known-errors/ld64-lld-icf-lsda/input.s"));
    tools.run_well(&[
        "llvm-mc-23",
        "-triple=x86_64-apple-macos11",
        "-filetype=obj",
        "input.s",
        "-o",
        "input.o",
    ]);
    let link = ["ld64.lld-23", "-arch", "x86_64", "-platform_version", "macos", "11.0", "11.0", "-dylib"];
    let folded = ["--icf=all", "-undefined", "dynamic_lookup", "input.o", "-o", "output"];
    tools.run_well(&[&link[..], &folded].concat());
    let image = tools.read("output");
    let file = File::parse(&image).unwrap();
    let bytes = file.as_macho().unwrap().unwind_info_section().unwrap().unwrap().bytes;
    let section = Section::parse(&bytes).unwrap();
    let functions = functions(&file);
    let records: Vec<_> = section.all_lsdas().unwrap().collect();
    let asked: Vec<_> = records.iter().map(|record| ImageOffset(record.function.0 + 1)).collect();
    let found = ask(&judge, &file, &bytes, &asked);
    let mut misleading = 0;
    for ((record, &pc), found) in records.iter().zip(&asked).zip(found) {
        assert_eq!(found, expected(&file, &section, &functions, pc).0, "{pc}");
        let found = found.expect("an FDE");
        assert_ne!((found.fde, found.lsda), (0, 0), "{pc}");
        misleading += usize::from(found.lsda != u64::from(record.lsda.0));
    }
    assert_eq!((records.len(), misleading), (2, 1));
}

/// Returns the PCs to ask for: the first two, a middle one and the last one of each entry.
fn questions(section: &Section<'_>) -> Vec<ImageOffset> {
    let entries = section.entries().map(Result::unwrap).filter(|entry| entry.start < entry.end);
    let pcs = entries.flat_map(|entry| {
        let (start, last) = (entry.start.0, entry.end.0 - 1);
        [start, last.min(start + 1), start + (last - start) / 2, last]
    });
    pcs.map(ImageOffset).collect()
}

/// The functions of `__eh_frame`, by address.
struct Functions(Vec<Function>);

struct Function {
    start: u64,
    end: u64,
    fde: u64,
    lsda: u64,
    personality: u64,
}

fn functions(file: &File<'_>) -> Functions {
    let base = file.as_macho().unwrap().image_base();
    let from_base = |address: Address| address.0.wrapping_sub(base.0);
    let mut found = Vec::new();
    for section in &file.call_frame_sections().unwrap() {
        for function in cfi::Functions::new(&section.cfi()).flatten() {
            let start = function.start.unwrap();
            let lsda = function.lsda().unwrap();
            found.push(Function {
                start: from_base(start),
                end: from_base(start) + function.size,
                fde: function.fde.0 as u64,
                lsda: lsda.map_or(0, from_base),
                personality: function.cie.personality.and_then(|found| found.address).map_or(0, from_base),
            });
        }
    }
    found.sort_by_key(|function| function.start);
    Functions(found)
}

/// Returns our reader's answer, and whether libunwind has to scan the whole `__eh_frame` for it.
fn expected(
    file: &File<'_>,
    section: &Section<'_>,
    functions: &Functions,
    pc: ImageOffset,
) -> (Option<Answer>, bool) {
    let Some(entry) = section.lookup(pc).unwrap() else { return (None, false) };
    let (personality, lsda) = (section.personality(&entry).unwrap(), section.lsda(&entry).unwrap());
    let at = |place: Option<ImageOffset>| place.map_or(0, |place| place.0.into());
    let of_table = Answer {
        start: entry.start.0.into(),
        end: entry.end.0.into(),
        encoding: entry.encoding.0,
        personality: at(personality),
        lsda: at(lsda),
        fde: 0,
    };
    if entry.encoding.mode(file.arch()) != Some(Mode::Dwarf) {
        let is_known = entry.encoding.mode_number() != 0;
        return (is_known.then_some(of_table), false);
    }
    // libunwind looks up return addresses. It applies an FDE to the PCs after its first one, up to and including its end.
    let pc = u64::from(pc.0);
    let after = functions.0.partition_point(|function| function.start < pc);
    let function = after.checked_sub(1).map(|at| &functions.0[at]).filter(|function| pc <= function.end);
    // Without an FDE, libunwind returns the table's answer.
    let Some(function) = function else { return (Some(of_table), false) };
    let answer = Answer {
        start: function.start,
        end: function.end,
        encoding: Encoding::dwarf(file.arch(), 0).0 & !Flags::all().bits(),
        personality: function.personality,
        lsda: function.lsda,
        fde: function.fde,
    };
    (Some(answer), u64::from(entry.encoding.dwarf_offset()) > function.fde)
}
