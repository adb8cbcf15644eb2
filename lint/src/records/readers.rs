//! Finds call frame information (CFI) that some reader does not read as it is meant. The table of runs says which readers
//! these are, and a few detectors find the constructs. No code is followed.

use std::collections::{BTreeMap, HashSet};

use cfipack_cfi::{Cie, Function, Functions, Instruction, Instructions, PointerEncoding, SectionKind, Short};
use cfipack_container::CallFrameSection;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Reason, Register};

use super::{RecordFinding, RecordKind};
use crate::Lint;

/// What each version of each reader makes of each construct: fields with tabs between them.
const TABLE: &str = include_str!("readers.tsv");

/// A line of the table.
#[derive(Clone, Copy)]
struct Line {
    construct: &'static str,
    reader: &'static str,
    version: &'static str,
    outcome: &'static str,
    what: &'static str,
}

/// Returns the lines of the table that name a construct.
fn lines() -> impl Iterator<Item = Line> {
    let lines = TABLE.lines().filter(|line| !line.starts_with(['#', '-']));
    lines.filter_map(|line| {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let (construct, reader, version, outcome) = (next()?, next()?, next()?, next()?);
        Some(Line { construct, reader, version, outcome, what: next().unwrap_or_default() })
    })
}

/// For each construct, the readers that do not read it as it is meant.
#[derive(Debug)]
pub struct Readers(BTreeMap<&'static str, String>);

impl Readers {
    /// Takes the readers with these names, or all without a name.
    ///
    /// # Errors
    /// The table has no reader of a name. The error has the names that it has.
    pub fn named(names: &[String]) -> Result<Self, Vec<&'static str>> {
        let mut all: Vec<_> = lines().map(|line| line.reader).collect();
        all.sort_unstable();
        all.dedup();
        if names.iter().any(|name| !all.contains(&name.as_str())) {
            return Err(all);
        }
        // Versions of a reader that do the same are named together.
        let mut versions: BTreeMap<_, Same> = BTreeMap::new();
        let wanted = |line: &Line| names.is_empty() || names.iter().any(|name| name == line.reader);
        for line in lines().filter(|line| line.outcome != "right" && wanted(line)) {
            let same = versions.entry(line.construct).or_default();
            same.entry((line.reader, line.outcome, line.what)).or_default().push(line.version);
        }
        Ok(Self(versions.into_iter().map(|(construct, same)| (construct, words(same))).collect()))
    }
}

/// For each reader, outcome and detail the versions that have it.
type Same = BTreeMap<(&'static str, &'static str, &'static str), Vec<&'static str>>;

/// Returns a sentence: which readers do what.
fn words(same: Same) -> String {
    let groups = same.into_iter().map(|((reader, outcome, what), versions)| {
        let versions = versions.join(", ");
        match what {
            "" => format!("{reader} {versions}: {}", meaning(outcome)),
            what => format!("{reader} {versions}: {} ({what})", meaning(outcome)),
        }
    });
    groups.collect::<Vec<_>>().join("; ")
}

/// Returns the words for an outcome of the table.
fn meaning(outcome: &'static str) -> &'static str {
    match outcome {
        "skipped" => "as without CFI",
        "record" => "no row",
        "section" => "no row here and elsewhere",
        "file" => "refuses the file",
        "table" => "no search table",
        other => other,
    }
}

/// Finds the constructs of all `.eh_frame` that `readers` do not read as they are meant. Each is one finding for a CIE,
/// or for a function. Only functions whose start is `wanted` count. A record that we cannot read is not decided.
pub fn check(sections: &[CallFrameSection<'_>], readers: &Readers, wanted: &dyn Fn(Address) -> bool) -> Lint {
    let mut lint = Lint::default();
    for call_frames in sections.iter().filter(|section| section.kind == SectionKind::EhFrame) {
        let name = call_frames.section.name.as_ref();
        let mut cies = HashSet::new();
        let mut found = Vec::new();
        for function in Functions::new(&call_frames.cfi()) {
            let Ok(function) = function else {
                *lint.undecided.entry("cfi").or_default() += 1;
                continue;
            };
            if !wanted(function.key.address()) {
                continue;
            }
            lint.decided += 1;
            found.clear();
            let is_new = cies.insert(function.cie.offset);
            if is_new {
                of_cie(&function.cie, &mut found);
                of_instructions(&function, function.cie.instructions, &mut found);
            }
            let in_cie = found.len();
            of_function(&function, &mut found);
            for (place, construct) in found.iter().enumerate() {
                let Some(words) = readers.0.get(construct) else { continue };
                if found[..place].contains(construct) {
                    continue;
                }
                let offset = if place < in_cie { function.cie.offset } else { function.fde };
                let start = function.key.address();
                lint.records.push(RecordFinding {
                    kind: RecordKind::Unread,
                    function: start,
                    wrong: start..Address(start.0.saturating_add(function.size)),
                    record: Some((name.to_owned(), offset.0.to_u64())),
                    words: format!("{construct}: {words}"),
                });
            }
        }
    }
    lint
}

/// Adds the constructs of a CIE's fields.
fn of_cie(cie: &Cie<'_>, found: &mut Vec<&'static str>) {
    let letters = cie.augmentation;
    let has = |letter: u8| letters.contains(&letter);
    found.extend(match cie.version {
        3 => Some("cie-version-3"),
        4 => Some("cie-version-4"),
        _ => None,
    });
    found.extend(match cie.fde_encoding {
        _ if !letters.starts_with(b"z") => Some("no-augmentation"),
        _ if !has(b'R') => Some("augmentation-without-R"),
        PointerEncoding(0x00) => Some("pointers-absptr"),
        PointerEncoding(0x03) => Some("pointers-udata4"),
        PointerEncoding(0x0c) => Some("pointers-sdata8"),
        PointerEncoding(0x1c) => Some("pointers-pcrel-sdata8"),
        _ => None,
    });
    let is_absolute =
        cie.personality.is_some_and(|personality| personality.encoding == PointerEncoding::ABSOLUTE);
    let flags = [
        (has(b'L') && cie.lsda_encoding == PointerEncoding::OMITTED, "lsda-omitted"),
        (is_absolute, "personality-absptr"),
        (cie.data_alignment > 0, "data-factor-8"),
        (cie.pauth_key_b, "aarch64-b-key"),
        (cie.tagged, "aarch64-mte"),
    ];
    found.extend(flags.into_iter().filter(|(is_there, _)| *is_there).map(|(_, construct)| construct));
}

/// Adds the constructs of an FDE.
fn of_function(function: &Function<'_>, found: &mut Vec<&'static str>) {
    if function.size == 0 {
        found.push("empty-fde-before");
    }
    of_instructions(function, function.instructions, found);
}

/// The greatest number of states that every reader remembers.
const REMEMBERED: u32 = 4;

/// Adds the constructs of instructions. What follows a malformed instruction has no certain meaning.
fn of_instructions<'a>(function: &Function<'a>, bytes: &'a [u8], found: &mut Vec<&'static str>) {
    let mut remembered = 0_u32;
    let mut instructions = Instructions::new(function, bytes);
    while !instructions.rest().is_empty() {
        let is_outside_dwarf = instructions.is_outside_dwarf();
        let next = match instructions.short() {
            Some(Short::Offset(register, offset)) => Some(Ok(Instruction::Offset(register, offset))),
            Some(_) => continue,
            None => instructions.next(),
        };
        match next {
            Some(Ok(Instruction::Offset(..))) if is_outside_dwarf => found.push("gnu-negative-offset"),
            Some(Ok(Instruction::RememberState)) => {
                remembered += 1;
                found.extend((remembered > REMEMBERED).then_some("remembered-five-deep"));
            }
            Some(Ok(Instruction::RestoreState)) => remembered = remembered.saturating_sub(1),
            Some(Ok(instruction)) => found.extend(of_instruction(function, instruction)),
            Some(Err(Reason::SignedWithPc)) => found.push("aarch64-negate-ra-state-with-pc"),
            Some(Err(_)) | None => return,
        }
    }
}

/// Returns the construct of an instruction, if it is one.
fn of_instruction(function: &Function<'_>, instruction: Instruction<'_>) -> Option<&'static str> {
    let is_amd64 = function.arch() == Arch::Amd64;
    let returns = |register| register == function.cie.return_address;
    match instruction {
        Instruction::Offset(Register(67..), _) if is_amd64 => Some("high-column"),
        Instruction::Offset(Register(17..=32), _) if is_amd64 => Some("vector-register"),
        Instruction::Undefined(register) if returns(register) => Some("undefined-return-address"),
        Instruction::Undefined(_) => Some("undefined-register"),
        Instruction::SameValue(_) => Some("same-value"),
        Instruction::ValOffset(..) => Some("val-offset"),
        Instruction::ValExpression(register, _) if returns(register) => Some("return-address-val-expression"),
        Instruction::ValExpression(..) => Some("val-expression"),
        Instruction::Expression(..) => Some("expression"),
        Instruction::DefCfaExpression(_) => Some("cfa-expression"),
        Instruction::Register(register, _) if returns(register) => Some("return-address-in-register"),
        Instruction::Register(..) => Some("register"),
        Instruction::ArgsSize(_) => Some("args-size"),
        Instruction::SetLocation(_) => Some("set-loc-absolute"),
        Instruction::NegateRaState if function.arch().is_aarch64() => Some("aarch64-negate-ra-state"),
        Instruction::SetRaState(..) => Some("aarch64-set-ra-state"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use cfipack_cfi::{Cie, Function, Functions, Section, SectionKind};
    use cfipack_format::{Address, Arch, Key, Register};

    use super::{Readers, lines, of_cie, of_function, of_instructions};

    /// Returns the constructs that are found in the instructions of an FDE.
    fn found(arch: Arch, column: u16, bytes: &[u8]) -> Vec<&'static str> {
        let cie = Cie::from_parts(1, -8, Register(column), &[]);
        let mut found = Vec::new();
        of_instructions(&Function::from_parts(arch, Key(0), 64, cie, bytes), bytes, &mut found);
        found
    }

    /// The bytes are those of `tests/readers/constructs.py`, which readers were run on.
    #[test]
    fn constructs_of_instructions() {
        let amd64 = |bytes| found(Arch::Amd64, 16, bytes);
        // The usual form: push, `sub rsp`, and back.
        assert!(amd64(&[0x41, 0x0e, 16, 0x83, 2, 0x48, 0x0e, 64, 0x4e, 0x0e, 16, 0x41, 0x0e, 8]).is_empty());
        for (bytes, construct) in [
            (&[0x07, 16][..], "undefined-return-address"),
            (&[0x07, 12], "undefined-register"),
            (&[0x08, 12], "same-value"),
            (&[0x14, 14, 16], "val-offset"),
            (&[0x16, 13, 2, 0x23, 0], "val-expression"),
            (&[0x16, 16, 3, 0x38, 0x1c, 0x06], "return-address-val-expression"),
            (&[0x10, 3, 2, 0x40, 0x1c], "expression"),
            (&[0x0f, 3, 0x77, 0xc0, 0], "cfa-expression"),
            (&[0x09, 3, 12], "register"),
            (&[0x09, 16, 12], "return-address-in-register"),
            (&[0x2e, 16], "args-size"),
            (&[0x2f, 3, 2], "gnu-negative-offset"),
            (&[0x97, 5], "vector-register"),
            (&[0x05, 71, 5], "high-column"),
            (&[0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b], "remembered-five-deep"),
        ] {
            assert_eq!(amd64(bytes), [construct]);
        }
        assert!(amd64(&[0x0a, 0x0b, 0x0a, 0x0b, 0x0a, 0x0b, 0x0a, 0x0b, 0x0a, 0x0b]).is_empty());
        for (bytes, construct) in [
            (&[0x2d][..], "aarch64-negate-ra-state"),
            (&[0x2c], "aarch64-negate-ra-state-with-pc"),
            (&[0x2b, 1, 0], "aarch64-set-ra-state"),
        ] {
            assert_eq!(found(Arch::Aarch64, 30, bytes), [construct]);
        }
    }

    /// A CIE with this version, these letters and their data, and an empty FDE after it.
    fn records(version: u8, letters: &[u8], data: &[u8], factor: u8) -> Vec<u8> {
        let mut cie = vec![0, 0, 0, 0, version];
        cie.extend_from_slice(letters);
        cie.push(0);
        if version == 4 {
            cie.extend_from_slice(&[8, 0]);
        }
        cie.extend_from_slice(&[1, factor, 16]);
        if letters.starts_with(b"z") {
            cie.push(data.len() as u8);
            cie.extend_from_slice(data);
        }
        cie.resize(28, 0);
        let mut bytes = vec![28, 0, 0, 0];
        bytes.extend_from_slice(&cie);
        bytes.extend_from_slice(&[28, 0, 0, 0, 36, 0, 0, 0]);
        bytes.resize(64, 0);
        bytes
    }

    #[test]
    fn constructs_of_records() {
        for (version, letters, data, factor, constructs) in [
            (1, &b"zR"[..], &[0x1b][..], 0x78, &[][..]),
            (3, b"zR", &[0x1b], 0x78, &["cie-version-3"]),
            (4, b"zR", &[0x1b], 0x78, &["cie-version-4"]),
            (1, b"zLR", &[0xff, 0x1b], 0x78, &["lsda-omitted"]),
            (1, b"zPR", &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0x1b], 0x78, &["personality-absptr"]),
            (1, b"", &[], 0x78, &["no-augmentation"]),
            (1, b"z", &[], 0x78, &["augmentation-without-R"]),
            (1, b"zR", &[0], 0x78, &["pointers-absptr"]),
            (1, b"zR", &[3], 0x78, &["pointers-udata4"]),
            (1, b"zR", &[0x0c], 0x78, &["pointers-sdata8"]),
            (1, b"zR", &[0x1c], 0x78, &["pointers-pcrel-sdata8"]),
            (1, b"zR", &[0x1b], 8, &["data-factor-8"]),
        ] {
            let bytes = records(version, letters, data, factor);
            let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
            let function = Functions::new(&section).next().unwrap().unwrap();
            let mut found = Vec::new();
            of_cie(&function.cie, &mut found);
            assert_eq!(found, constructs);
            found.clear();
            of_function(&function, &mut found);
            assert_eq!(found, ["empty-fde-before"]);
        }
    }

    #[test]
    fn words_name_readers_versions_and_outcomes() {
        let all = Readers::named(&[]).unwrap();
        let words = all.0.get("cie-version-4").unwrap();
        assert!(words.contains("ld.lld") && words.contains("LLVM libunwind"), "{words}");
        let one = Readers::named(&["ld.lld".to_owned()]).unwrap();
        assert!(!one.0.get("cie-version-4").unwrap().contains("libunwind"));
        assert!(Readers::named(&["nobody".to_owned()]).unwrap_err().contains(&"ld.lld"));
        // No construct is named where a reader ends by a signal.
        assert!(lines().all(|line| line.outcome != "crashes"));
        let constructs: HashSet<_> = lines().map(|line| line.construct).collect();
        assert!(all.0.keys().all(|construct| constructs.contains(construct)));
    }
}
