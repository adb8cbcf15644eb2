//! Tests llvm-mc's own cases. Mode `LlvmMc` must give llvm-mc 23's encodings, from directives and from FDEs. The
//! checked encoder differs exactly in the cases of docs/compact-unwind-differences.md.

use std::path::Path;
use std::{collections::BTreeMap, fs};

use cfipack_cfi::{self as cfi, Function, Instruction, SectionKind};
use cfipack_container::File;
use cfipack_decoder::compact_unwind::Section as Rows;
use cfipack_encoder::compact_unwind::{Encoder, Mode, llvm_mc};
use cfipack_format::compact_unwind::{Encoding, Flags};
use cfipack_format::{Address, Arch, Register};
use cfipack_format::{Reason, Unsupported};
use cfipack_roundtrip::Options;
use cfipack_roundtrip::unwind_info::{Code, Entry, Table, verify};
use cfipack_tests::corpora;
use object::{Object, ObjectSection};

struct Case {
    name: String,
    source: String,
    object: Vec<u8>,
    /// The object that has the CFI: the same object, or one with a `__debug_frame`.
    cfi: Vec<u8>,
    options: String,
    arch: Arch,
}

fn cases() -> Vec<Case> {
    let directory = corpora::directory().join("compact-unwind");
    let table = fs::read_to_string(directory.join("cases.tsv")).unwrap();
    let mut cases = Vec::new();
    for line in table.lines().filter(|line| line.starts_with("mc/")) {
        let columns: Vec<_> = line.split('\t').collect();
        let path = |extension| directory.join(Path::new(columns[0]).with_extension(extension));
        // llvm-mc refuses one of the sources.
        let Ok(object) = fs::read(path("o")) else { continue };
        let name = columns[0].trim_start_matches("mc/").to_owned();
        let cfi = fs::read(path("cfi")).unwrap_or_else(|_| object.clone());
        let arch = File::parse(&object).unwrap().arch();
        let source = fs::read_to_string(path("s")).unwrap();
        cases.push(Case { name, source, object, cfi, options: columns[2].to_owned(), arch });
    }
    cases
}

impl Case {
    /// Returns llvm-mc's encoding of each function with a row, by the function's address.
    fn rows(&self) -> Option<BTreeMap<u64, Encoding>> {
        let object = object::File::parse(&*self.object).unwrap();
        let section = object.section_by_name("__compact_unwind")?;
        let rows = Rows::parse(section.data().unwrap(), self.arch.pointer_size()).unwrap();
        let plain = |encoding: Encoding| Encoding(encoding.0 & !Flags::HAS_LSDA.bits());
        Some(rows.entries().map(|(_, row)| (row.function, plain(row.encoding))).collect())
    }

    fn code(&self) -> Vec<u8> {
        let object = object::File::parse(&*self.object).unwrap();
        object.section_by_name("__text").unwrap().data().unwrap().to_vec()
    }

    fn foreign_personality(&self) -> bool {
        let personality = argument_of(&self.source, ".cfi_personality");
        let name = personality.map(|arguments| arguments.rsplit(',').next().unwrap().trim());
        let foreign = !matches!(name, None | Some("___gxx_personality_v0" | "___objc_personality_v0"));
        foreign && !self.options.contains("-emit-compact-unwind-non-canonical")
    }

    /// Calls `action` with the CFI and the code.
    fn with_cfi(&self, action: impl FnOnce(cfi::Section<'_>, &[u8])) {
        let debug_frame = {
            let object = object::File::parse(&*self.cfi).unwrap();
            object.section_by_name("__debug_frame").map(|section| section.data().unwrap().to_vec())
        };
        let file = File::parse(&self.cfi).unwrap();
        let eh_frames = file.call_frame_sections().unwrap();
        let section = match &debug_frame {
            Some(bytes) => cfi::Section::new(SectionKind::DebugFrame, bytes, Address(0), self.arch),
            None => eh_frames[0].cfi(),
        };
        action(section, &self.code());
    }

    /// Calls `action` for every function of the CFI.
    fn each_function(&self, mut action: impl FnMut(&Function<'_>, &[u8])) {
        self.with_cfi(|section, code| {
            for function in cfipack_cfi::Functions::new(&section) {
                let function = function.unwrap();
                let end = function.end().unwrap().0 as usize;
                action(&function, &code[function.key.0 as usize..end]);
            }
        });
    }
}

fn argument_of<'a>(source: &'a str, directive: &str) -> Option<&'a str> {
    let line = source.lines().map(str::trim).find(|line| line.starts_with(directive))?;
    Some(line[directive.len()..].trim())
}

/// Returns the CFI instructions that the directives of each function become.
fn functions_of(
    source: &str,
    arch: Arch,
) -> Vec<(llvm_mc::Frame, Vec<Result<Instruction<'static>, Reason>>)> {
    let mut functions = Vec::new();
    let mut current = (llvm_mc::Frame::default(), Vec::new());
    for line in source.lines().map(str::trim) {
        let Some(directive) = line.strip_prefix(".cfi_") else { continue };
        let (name, arguments) = directive.split_once(char::is_whitespace).unwrap_or((directive, ""));
        let arguments: Vec<_> = arguments.split(',').map(str::trim).collect();
        let register = |index: usize| register(arch, arguments[index]);
        let number = |index: usize| arguments[index].parse::<i64>().unwrap();
        let instruction = match name {
            "startproc" => {
                current = Default::default();
                continue;
            }
            "endproc" => {
                functions.push(current.clone());
                continue;
            }
            "signal_frame" => {
                current.0.signal = true;
                continue;
            }
            "mte_tagged_frame" => {
                current.0.mte_tagged = true;
                continue;
            }
            "personality" | "lsda" | "return_column" | "b_key_frame" => continue,
            "def_cfa" => Ok(Instruction::DefCfa(register(0), number(1))),
            "def_cfa_offset" => Ok(Instruction::DefCfaOffset(number(0))),
            "def_cfa_register" => Ok(Instruction::DefCfaRegister(register(0))),
            "offset" => Ok(Instruction::Offset(register(0), number(1))),
            "val_offset" => Ok(Instruction::ValOffset(register(0), number(1))),
            "restore" => Ok(Instruction::Restore(register(0))),
            "same_value" => Ok(Instruction::SameValue(register(0))),
            "undefined" => Ok(Instruction::Undefined(register(0))),
            "register" => Ok(Instruction::Register(register(0), register(1))),
            "remember_state" => Ok(Instruction::RememberState),
            "restore_state" => Ok(Instruction::RestoreState),
            "negate_ra_state" => Ok(Instruction::NegateRaState),
            "escape" => Ok(Instruction::ArgsSize(16)),
            "adjust_cfa_offset" | "rel_offset" | "llvm_def_aspace_cfa" => Err(Reason::LlvmMcDirectives),
            other => panic!("directive .cfi_{other}"),
        };
        current.1.push(instruction);
    }
    functions
}

fn register(arch: Arch, name: &str) -> Register {
    let name = name.trim_start_matches('%');
    let of = |names: &[&str]| names.iter().position(|other| *other == name);
    let number = match arch {
        Arch::Amd64 => of(&["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"])
            .or_else(|| name.strip_prefix("xmm").map(|number| 17 + number.parse::<usize>().unwrap()))
            .or_else(|| name[1..].parse().ok()),
        Arch::I386 => of(&["eax", "ecx", "edx", "ebx", "ebp", "esp", "esi", "edi"]),
        _ => match (name, name[1..].parse::<usize>()) {
            ("wsp" | "sp", _) => Some(31),
            (_, Ok(number)) if name.starts_with('b') => Some(64 + number),
            (_, number) => number.ok(),
        },
    };
    Register(number.unwrap_or_else(|| panic!("register {name}")) as u16)
}

/// Returns a row's encoding, or DWARF mode if the encoder gives a reason against one.
fn or_dwarf<E>(arch: Arch, encoding: Result<Encoding, E>) -> Encoding {
    encoding.unwrap_or(Encoding::dwarf(arch, 0))
}

#[test]
fn directives_give_llvm_mcs_encodings() {
    let (mut objects, mut functions) = (0, 0);
    for case in cases() {
        objects += 1;
        // For an old macOS, llvm-mc writes no section.
        let Some(rows) = case.rows() else {
            assert!(matches!(&*case.name, "x01_empty" | "x46_empty_pers" | "i01_empty" | "x54_old_macos"));
            continue;
        };
        let mut ours = Vec::new();
        for (frame, directives) in functions_of(&case.source, case.arch) {
            let frame = frame.with_foreign_personality(case.foreign_personality());
            ours.push(or_dwarf(case.arch, llvm_mc::encode(case.arch, frame, directives)));
            functions += 1;
        }
        ours.retain(|encoding| *encoding != Encoding::NONE);
        let theirs: Vec<_> = rows.into_values().collect();
        assert_eq!(ours, theirs, "{}", case.name);
    }
    println!("{objects} objects, {functions} functions");
    assert!(objects >= 119 && functions >= 116, "{objects} objects, {functions} functions");
}

#[test]
fn fdes_give_llvm_mcs_encodings() {
    // In an FDE the directives of these cases look different, and llvm-mc encodes them.
    let told_apart_by_directives_only = ["i10_pic_thunk", "x29_adjust", "x32_rel_offset"];
    let mut functions = 0;
    for case in cases().iter().filter(|case| !told_apart_by_directives_only.contains(&&*case.name)) {
        let Some(rows) = case.rows() else { continue };
        case.each_function(|function, code| {
            let mode = Mode::LlvmMc { foreign_personality: case.foreign_personality() };
            let encoding = Encoder::new(function.arch()).unwrap().encode(function, Some(code), mode);
            let theirs = rows.get(&function.key.0).copied().unwrap_or(Encoding::NONE);
            assert_eq!(or_dwarf(case.arch, encoding), theirs, "{} {encoding:?}", case.name);
            functions += 1;
        });
    }
    println!("{functions} functions");
    assert!(functions > 110, "{functions} functions");
}

/// Writes a line of the document's table.
fn difference(case: &Case, theirs: Encoding, ours: Result<Encoding, Unsupported>) -> String {
    let ours = match ours {
        Ok(encoding) => encoding.to_string(),
        Err(unsupported) => format!("DWARF: {}", unsupported.reason),
    };
    let theirs = match theirs {
        Encoding::NONE => "no row".to_owned(),
        encoding if encoding == Encoding::dwarf(case.arch, 0) => "DWARF".to_owned(),
        encoding => encoding.to_string(),
    };
    format!("| {} | {theirs} | {ours} |", case.name)
}

#[test]
fn checked_encodings_differ_as_documented() {
    let mut differences = Vec::new();
    for case in cases() {
        let rows = case.rows().unwrap_or_default();
        case.each_function(|function, code| {
            let encoding = Encoder::new(function.arch()).unwrap().encode(function, Some(code), Mode::Checked);
            let theirs = rows.get(&function.key.0).copied().unwrap_or(Encoding::NONE);
            if or_dwarf(case.arch, encoding) != theirs {
                differences.push(difference(&case, theirs, encoding));
            }
        });
    }
    let document = include_str!("../../../docs/compact-unwind-differences.md");
    let documented = document.lines().filter_map(|line| {
        let (line, _why) = line.strip_suffix(" |")?.rsplit_once(" | ")?;
        let is_case = line.starts_with("| x") || line.starts_with("| i") || line.starts_with("| a");
        is_case.then(|| format!("{line} |"))
    });
    let documented: Vec<_> = documented.collect();
    assert_eq!(differences, documented, "now:\n{}", differences.join("\n"));
}

/// The checked encoder's encodings agree with gimli's evaluation of the same CFI.
#[test]
fn checked_encodings_are_true() {
    let mut equal = 0;
    for case in cases() {
        let mut entries = Vec::new();
        case.each_function(|function, code| {
            let encoding = Encoder::new(function.arch()).unwrap().encode(function, Some(code), Mode::Checked);
            entries.extend(encoding.ok().map(|encoding| Entry {
                start: function.key.address(),
                end: function.end().unwrap(),
                encoding,
                personality: 0,
                lsda: None,
            }));
        });
        case.with_cfi(|section, code| {
            let code = Code::new([(Address(0), code)]);
            let table = Table::of_object(case.arch, entries, code);
            let report = verify(&[section], &table, &Options::default());
            assert_eq!(report.pcs_different, 0, "{}: {}", case.name, report.differences[0]);
            equal += report.equal;
        });
    }
    println!("{equal} functions");
    assert!(equal > 60, "{equal} functions");
}
