//! Tests functions that share PCs, some of which no table can represent. For each PC, only the function that starts
//! last may answer. The test computes the expected answer for each byte.

use cfipack_cfi::write::{Cie, Writer};
use cfipack_cfi::{Section, SectionKind};
use cfipack_container::File;
use cfipack_decoder::sframe::Section as Table;
use cfipack_encoder::sframe::{Builder, Layout, OmittedFunction, Options, Parallel};
use cfipack_format::Reason;
use cfipack_format::pool::Threads;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Cfa, Key};
use cfipack_roundtrip::{Report, verify};
use cfipack_testkit::random::{Case, Random, cases};
use cfipack_tests::convert::{all_options, cfi_of, convert};
use cfipack_tests::reference::Tools;

const TABLE: Address = Address(0x10_0000);

/// How the CFA is found from an offset on: `rsp` plus a number, as in the stubs of a PLT, or by an expression that no
/// table can represent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RowKind {
    Rsp(u8),
    Stubs,
    Unrepresentable,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Function {
    start: u64,
    size: u64,
    rows: Vec<(u8, RowKind)>,
    is_signal: bool,
}

impl Function {
    fn new(start: u64, size: u64, rows: &[(u8, RowKind)]) -> Self {
        Self { start, size, rows: rows.to_vec(), is_signal: false }
    }

    fn has(&self, pc: u64) -> bool {
        (self.start..self.start + self.size).contains(&pc)
    }

    fn is_representable(&self) -> bool {
        self.rows.iter().all(|row| row.1 != RowKind::Unrepresentable)
    }

    /// Returns the CFA's distance from `rsp` at a PC.
    fn at(&self, pc: u64) -> i64 {
        match self.rows.iter().rev().find(|row| self.start + u64::from(row.0) <= pc).unwrap().1 {
            RowKind::Rsp(offset) => offset.into(),
            RowKind::Stubs => {
                if pc % 16 >= 11 {
                    16
                } else {
                    8
                }
            }
            RowKind::Unrepresentable => unreachable!(),
        }
    }

    fn instructions(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = 0;
        for &(offset, kind) in &self.rows {
            bytes.extend((offset != at).then_some(0x40 | (offset - at)));
            at = offset;
            match kind {
                RowKind::Rsp(offset) => bytes.extend([0x0e, offset]),
                // rsp + 8 + ((rip & 15) >= 11) * 8.
                RowKind::Stubs => {
                    bytes.extend([0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22]);
                }
                // The word at the address that the word at rsp has.
                RowKind::Unrepresentable => bytes.extend([0x0f, 4, 0x77, 0, 6, 6]),
            }
        }
        bytes
    }
}

/// Writes an `.eh_frame` at 0 with these functions.
fn eh_frame(functions: &[Function]) -> Vec<u8> {
    let mut section = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
    section.alignment = 1;
    let cie = Cie::new(Arch::Amd64, &[0x0c, 7, 8, 0x90, 1]);
    let [plain, of_signals] = [cie, cie.with_augmentation(b"zRS")].map(|cie| section.cie(&cie).unwrap());
    for function in functions {
        let (instructions, cie) =
            (function.instructions(), if function.is_signal { &of_signals } else { &plain });
        section.fde(cie, Address(function.start), function.size, None, &instructions).unwrap();
    }
    section.into_bytes()
}

/// A table, and the functions that are not in it.
struct Made {
    bytes: Vec<u8>,
    refused: usize,
    /// The starts of functions that were accepted but are not in the table.
    ambiguous: Vec<u64>,
    report: Report,
}

impl Made {
    fn new(functions: &[Function], options: Options, threads: usize) -> Self {
        let bytes = eh_frame(functions);
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let (mut builder, mut refused) = (Builder::new(Arch::Amd64, options).unwrap(), 0);
        builder.push_all(Parallel::new(&section, &Threads(threads)), |omitted| {
            assert!(matches!(omitted, OmittedFunction::Unsupported(_)), "{omitted:?}");
            refused += 1;
        });
        let built = builder.finish();
        let ambiguous = built.omitted().iter().map(|omitted| {
            assert_eq!(omitted.reason, Reason::Ambiguous);
            omitted.function.0
        });
        let ambiguous = ambiguous.collect();
        let mut table = vec![0; built.len()];
        built.write(&mut table, TABLE, Key::address).unwrap();
        let parsed = [Table::parse(&table, TABLE).unwrap()];
        parsed[0].validate().unwrap();
        let padding = options.padding();
        let report = verify(
            &[section],
            &cfipack_roundtrip::Table::new(&parsed),
            &cfipack_roundtrip::Options::new().with_padding(padding),
        );
        Self { bytes: table, refused, ambiguous, report }
    }

    /// Returns the CFA's distance from `rsp` at a PC, if a row has it.
    fn at(&self, pc: u64) -> Option<i64> {
        let row = Table::parse(&self.bytes, TABLE).unwrap().lookup(Address(pc)).unwrap()?;
        match row.cfa {
            Cfa::Register { register, offset } if register == Arch::Amd64.stack_pointer() => Some(offset),
            cfa => panic!("{cfa:?}"),
        }
    }

    /// Returns start and size of each function in the table.
    fn functions(&self) -> Vec<(u64, u32)> {
        let table = Table::parse(&self.bytes, TABLE).unwrap();
        table.functions().map(|it| it.unwrap()).map(|it| (it.start().0, it.size())).collect()
    }
}

/// Returns the functions that contain a PC and start last.
fn owners(functions: &[Function], pc: u64) -> Vec<&Function> {
    let start = functions.iter().filter(|it| it.has(pc)).map(|it| it.start).max();
    functions.iter().filter(|it| it.size != 0 && Some(it.start) == start).collect()
}

/// Returns whether functions with one start cannot be distinguished. Version 2 does not represent signal frames, so its
/// tables cannot distinguish them by that.
fn is_ambiguous(functions: &[Function], start: u64, pcs: std::ops::Range<u64>, version: Version) -> bool {
    let here: Vec<_> = functions.iter().filter(|it| it.start == start && it.size != 0).collect();
    let is_owned = |pc: &u64| owners(functions, *pc).iter().any(|it| it.start == start);
    let Some(last) = pcs.rev().find(is_owned) else { return false };
    let is_said = here.iter().all(|it| it.is_representable());
    let same_kind = |it: &Function| version == Version::V2 || it.is_signal == here[0].is_signal;
    let differs = |pc| here.iter().any(|it| !it.has(pc) || it.at(pc) != here[0].at(pc) || !same_kind(it));
    here.len() > 1 && (!is_said || (start..=last).any(differs))
}

fn random_functions(random: &mut Random) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for _ in 0..2 + random.below(8) {
        let start = 0x1000 + random.below(96);
        let size = random.pick(&[0, 1, 5, 16, 30, 60, 90]);
        let mut function = Function { start, size, rows: Vec::new(), is_signal: random.chance(15) };
        let mut at = 0;
        for number in 0..1 + random.below(4) {
            // There are few kinds, so that functions sometimes agree.
            let kind = if random.chance(8) {
                RowKind::Unrepresentable
            } else {
                RowKind::Rsp(8 * random.below(6) as u8)
            };
            function.rows.push((at, kind));
            at += 1 + random.below(20) as u8 * (number as u8 % 2 + 1);
        }
        if random.chance(15) {
            function.start = 0x1000 + 16 * random.below(4);
            function.rows = vec![(0, RowKind::Rsp(16)), (6, RowKind::Rsp(24)), (16, RowKind::Stubs)];
            function.size = 17 + random.below(70);
        }
        if random.chance(25)
            && let Some(other) = functions.last()
            && (other.start % 16 == 0 || !function.rows.contains(&(16, RowKind::Stubs)))
        {
            function.start = other.start;
            if random.chance(70) {
                function = Function { size: function.size, is_signal: function.is_signal, ..other.clone() };
            }
        }
        let size = function.size.max(1);
        function.rows.retain(|row| u64::from(row.0) < size);
        functions.push(function);
    }
    functions
}

#[test]
fn every_pc_is_answered_by_its_owner() {
    let (mut cut, mut ambiguous, mut hidden) = (0, 0, 0);
    let (seed, count) = cases("random functions that overlap", 1000);
    for case in 0..count as u64 {
        let (_case, mut random) = Case::new(seed.wrapping_add(case));
        let functions = random_functions(&mut random);
        let pcs = 0xff0..0x10f0;
        for options in all_options() {
            for merge_functions in [0, 8] {
                if merge_functions != 0 && options.layout == Layout::Gnu {
                    continue;
                }
                let options = options.with_merge_functions(merge_functions);
                let context = || format!("case {case}, {options:?}, {functions:x?}");
                let made = Made::new(&functions, options, 1);
                assert!(made.report.is_true(), "{}: {:?}", context(), made.report.differences.first());
                for pc in pcs.clone() {
                    let owner = owners(&functions, pc).first().copied();
                    let owner = owner.filter(|owner| {
                        owner.is_representable()
                            && !is_ambiguous(&functions, owner.start, pcs.clone(), options.version)
                    });
                    let (expected, found) = (owner.map(|owner| owner.at(pc)), made.at(pc));
                    let is_padding = functions.iter().all(|it| !it.has(pc)) && merge_functions != 0;
                    // Layout `gnu` cuts only FDEs of gas that would answer wrongly.
                    let is_hidden = options.layout == Layout::Gnu && found.is_none();
                    hidden += usize::from(is_hidden && expected.is_some());
                    assert!(
                        found == expected || is_padding || is_hidden,
                        "pc {pc:#x}: {found:?} and not {expected:?}: {}",
                        context()
                    );
                }
                let starts = functions.iter().filter(|it| it.size != 0 && it.is_representable());
                let starts = starts.map(|it| it.start);
                let mut expected: Vec<_> = starts
                    .filter(|&start| is_ambiguous(&functions, start, pcs.clone(), options.version))
                    .collect();
                let mut found = made.ambiguous.clone();
                expected.sort_unstable();
                found.sort_unstable();
                assert_eq!(found, expected, "{}", context());
                ambiguous += found.len();
                cut += usize::from(made.functions().len() > functions.len() - made.refused);
                let threaded = Made::new(&functions, options, 3);
                assert!(threaded.bytes == made.bytes, "{}: other bytes on three threads", context());
            }
        }
    }
    assert!(count < 1000 || cut.min(ambiguous).min(hidden) > 1000, "{cut} {ambiguous} {hidden}");
}

/// From a real program: a function around one that cannot be represented.
#[test]
fn nothing_answers_for_a_function_inside_another() {
    let outer =
        Function::new(0x1000, 0x40, &[(0, RowKind::Rsp(8)), (4, RowKind::Rsp(16)), (0x28, RowKind::Rsp(24))]);
    let inner = Function::new(0x1010, 0x10, &[(0, RowKind::Unrepresentable)]);
    for (functions, options) in [[&outer, &inner], [&inner, &outer]]
        .into_iter()
        .flat_map(|functions| all_options().map(move |options| (functions.map(Clone::clone), options)))
    {
        let made = Made::new(&functions, options, 1);
        assert_eq!(made.functions(), [(0x1000, 0x10), (0x1020, 0x20)], "{options:?}");
        let answers = [0x1000, 0x100f, 0x1010, 0x101f, 0x1020, 0x1027, 0x1028, 0x103f, 0x1040];
        let expected = [Some(8), Some(16), None, None, Some(16), Some(16), Some(24), Some(24), None];
        assert_eq!(answers.map(|pc| made.at(pc)), expected, "{options:?}");
        let report = &made.report;
        assert_eq!((report.pcs_equal, report.pcs_missing, report.pcs_hidden), (0x30, 0x10, 0), "{options:?}");
        assert_eq!((report.equal, report.missing, report.functions), (1, 1, 2), "{options:?}");
    }
}

/// An inner function that can be represented hides the code after it, except in layout `small`.
#[test]
fn rows_after_a_function_inside_another() {
    let outer = Function::new(0x1000, 0x40, &[(0, RowKind::Rsp(8)), (0x30, RowKind::Rsp(16))]);
    let inner = Function::new(0x1010, 0x10, &[(0, RowKind::Rsp(32))]);
    for options in all_options() {
        let made = Made::new(&[outer.clone(), inner.clone()], options, 1);
        let small = options.layout == Layout::Small;
        let expected = [Some(8), Some(32), small.then_some(8), small.then_some(16)];
        assert_eq!([0x100f, 0x101f, 0x1020, 0x1030].map(|pc| made.at(pc)), expected, "{options:?}");
        assert_eq!(made.report.pcs_hidden, if small { 0 } else { 0x20 }, "{options:?}");
        assert!(made.report.is_true() && made.report.is_complete() == small, "{options:?}");
    }
}

/// If gas cannot represent a signal frame, it keeps an FDE without rows. That FDE hides the function around it, even in
/// pieces.
#[test]
fn a_signal_frame_without_rows_around_a_function() {
    let outer = Function::new(0x1000, 0x20, &[(0, RowKind::Rsp(8))]);
    let signal =
        Function { is_signal: true, ..Function::new(0x1010, 0x20, &[(0, RowKind::Unrepresentable)]) };
    let inner = Function::new(0x1028, 8, &[(0, RowKind::Unrepresentable)]);
    for options in all_options() {
        let made = Made::new(&[outer.clone(), signal.clone(), inner.clone()], options, 1);
        assert_eq!(made.at(0x100f), Some(8), "{options:?}");
        let in_signal_frame = (0x1010..0x1030).find_map(|pc| made.at(pc));
        assert_eq!(in_signal_frame, None, "{options:?}");
        assert!(made.report.is_true(), "{options:?}: {:?}", made.report.differences.first());
    }
}

/// gas keeps an FDE of a refused function. If another function has the same start, the refused one is not reported
/// again as ambiguous.
#[test]
fn what_is_refused_is_not_ambiguous() {
    let signal =
        Function { is_signal: true, ..Function::new(0x1000, 0x20, &[(0, RowKind::Unrepresentable)]) };
    let other = Function::new(0x1000, 0x20, &[(0, RowKind::Rsp(24))]);
    for (options, threads) in all_options().flat_map(|options| [(options, 1), (options, 3)]) {
        let made = Made::new(&[signal.clone(), other.clone()], options, threads);
        assert_eq!((made.refused, &made.ambiguous[..]), (1, &[0x1000][..]), "{options:?}");
        assert_eq!(made.functions(), [], "{options:?}");
    }
}

/// Two functions have one start, and one of them is a signal frame. A table of version 2 does not represent which, and
/// is true of both.
#[test]
fn signal_frames_of_one_start() {
    let function = Function::new(0x1000, 0x20, &[(0, RowKind::Rsp(8)), (4, RowKind::Rsp(16))]);
    let signal = Function { is_signal: true, ..function.clone() };
    for options in all_options() {
        let made = Made::new(&[function.clone(), signal.clone()], options, 1);
        let is_v2 = options.version == Version::V2;
        assert_eq!(made.at(0x1004), is_v2.then_some(16), "{options:?}");
        let report = &made.report;
        assert_eq!((report.unjudged, report.unjudged_in_table), (u64::from(!is_v2), 0), "{options:?}");
        assert_eq!(report.equal, u64::from(is_v2), "{options:?}");
    }
}

/// A PLT is cut in the middle of a stub. The rest of this stub gets its own rows, and the stubs after it repeat.
#[test]
fn a_plt_around_a_function() {
    let plt =
        Function::new(0x1000, 0x80, &[(0, RowKind::Rsp(16)), (6, RowKind::Rsp(24)), (16, RowKind::Stubs)]);
    let inner = Function::new(0x1034, 0x10, &[(0, RowKind::Unrepresentable)]);
    for version in [Version::V2, Version::V3] {
        let made = Made::new(&[plt.clone(), inner.clone()], Options::new().with_version(version), 1);
        let expected = [(0x1000, 0x10), (0x1010, 0x24), (0x1044, 0xc), (0x1050, 0x30)];
        assert_eq!(made.functions(), expected);
        let answers = [0x100f, 0x1010, 0x101b, 0x1033, 0x1034, 0x1043, 0x1044, 0x104b, 0x1050, 0x107b];
        let expected = [24, 8, 16, 8, 0, 0, 8, 16, 8, 16].map(|offset| (offset != 0).then_some(offset));
        assert_eq!(answers.map(|pc| made.at(pc)), expected);
    }
}

/// 64 bytes of code with an FDE. The 16 bytes in the middle have another FDE, with an expression.
const NESTED: &str = r#"
        .text
        .globl  _start
_start: .skip   16, 0x90
inner:  .skip   16, 0x90
after:  .skip   32, 0x90
        .section .eh_frame, "a", @progbits
cie:    .long   1f - 0f
0:      .long   0
        .byte   1
        .string "zR"
        .byte   1, 0x78, 16, 1, 0x1b
        .byte   0x0c, 7, 8, 0x90, 1, 0, 0
1:      .long   3f - 2f
2:      .long   2b - cie, _start - ., 64
        .byte   0, 0x0e, 16
3:      .long   5f - 4f
4:      .long   4b - cie, inner - ., 16
        .byte   0, 0x0f, 4, 0x77, 0, 6, 6
5:
"#;

/// Links an object with ld, without `.eh_frame_hdr`.
#[test]
#[ignore = "needs the reference tools"]
fn nested_functions_as_ld_links_them() {
    let tools = Tools::find();
    tools.write("nested.s", NESTED);
    tools.run_well(&["as", "nested.s", "-o", "nested.o"]);
    tools.run_well(&["ld", "--no-eh-frame-hdr", "nested.o", "-o", "nested"]);
    for name in ["nested", "nested.o"] {
        let bytes = tools.read(name);
        let file = File::parse(&bytes).unwrap();
        let sections = file.call_frame_sections().unwrap();
        let start = file.symbols().unwrap().addresses().next().unwrap().0;
        for options in all_options() {
            let (cfi, near) = (cfi_of(&sections), Address(start + 0x1000));
            let converted = convert(&cfi, Arch::Amd64, near, options);
            assert_eq!(converted.omitted.len(), 1);
            let table = converted.table();
            let with_rows = [0, 15, 16, 31, 32, 63, 64]
                .map(|offset| table.lookup(Address(start + offset)).unwrap().is_some());
            assert_eq!(with_rows, [true, true, false, false, true, true, false], "{name}, {options:?}");
            assert!(converted.verify(&cfi).is_true(), "{name}, {options:?}");
        }
    }
}
