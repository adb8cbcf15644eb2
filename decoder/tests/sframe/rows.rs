//! Compares rows and lookups with the rows that readelf printed.

use std::fs;

use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};

use crate::{elf, readelf};

/// The unread rest of a line, read cell by cell from the left. Cells may have no space between them.
struct Cells<'t> {
    rest: &'t str,
    arch: Arch,
}

impl Cells<'_> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn number<T: std::str::FromStr>(&mut self) -> T {
        let sign = usize::from(self.rest.starts_with(['-', '+']));
        let len = self.rest[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len() - sign);
        let (number, rest) = self.rest.split_at(sign + len);
        self.rest = rest;
        number.parse().unwrap_or_else(|_| panic!("a number: {number:?}"))
    }

    fn register(&mut self) -> Option<Register> {
        if self.take("sp") {
            return Some(self.arch.stack_pointer());
        }
        if self.take("fp") {
            return Some(self.arch.frame_pointer());
        }
        self.take("r").then(|| Register(self.number::<u32>().try_into().unwrap_or(u16::MAX)))
    }

    /// Reads `sp+8`, `sp+-8` or `(fp-8)`.
    fn cfa(&mut self) -> Cfa {
        let deref = self.take("(");
        let register = self.register().expect("a register");
        if self.rest.starts_with("+-") {
            self.take("+");
        }
        let offset = self.number();
        if !deref {
            return Cfa::Register { register, offset };
        }
        assert!(self.take(")"));
        Cfa::Memory { register, offset }
    }

    /// Reads `u`, `f`, `U`, `c-16`, `(fp+0)`, `r11+0` or `r24`.
    fn rule(&mut self) -> Rule {
        self.rest = self.rest.trim_start();
        if self.take("u") || self.take("U") || self.take("f") {
            return match self.arch {
                // For the frame pointer, the caller of this function corrects the rule.
                Arch::Amd64 => Rule::Cfa(-8),
                _ => Rule::SameValue,
            };
        }
        if self.take("c") {
            return Rule::Cfa(self.number());
        }
        let deref = self.take("(");
        let register = self.register().expect("a register");
        let offset = if self.rest.starts_with(['+', '-']) { self.number() } else { 0 };
        assert_eq!(deref, self.take(")"));
        match (register, deref) {
            // No register has this number.
            (Register(u16::MAX), _) => Rule::Undefined,
            (_, true) => Rule::Memory { register, offset },
            (_, false) => Rule::Register { register, offset },
        }
    }
}

/// Returns the row of a line. Its start is relative to `base`.
fn row(line: &str, base: u64, arch: Arch) -> Row {
    let (pc, rest) = line.trim_start().split_once("  ").expect("two columns");
    let start = FunctionOffset(u64::from_str_radix(pc, 16).unwrap().wrapping_sub(base) as u32);
    if rest == "RA undefined" {
        let (cfa, return_address, frame_pointer) = (Cfa::Undefined, Rule::Undefined, Rule::SameValue);
        return Row { start, cfa, return_address, frame_pointer, signed: false };
    }
    let mut cells = Cells { rest, arch };
    let cfa = cells.cfa();
    cells.rest = cells.rest.trim_start();
    let unsaved = cells.rest.starts_with('u');
    let mut frame_pointer = cells.rule();
    if unsaved {
        frame_pointer = Rule::SameValue;
    }
    let return_address = cells.rule();
    let signed = cells.take("[s]");
    assert_eq!(cells.rest.trim(), "", "{line:?}");
    Row { start, cfa, return_address, frame_pointer, signed }
}

/// Returns the functions of a dump: address, size, rows.
fn functions(text: &str, arch: Arch) -> Vec<(u64, u32, Vec<Row>)> {
    let mut functions: Vec<(u64, u32, Vec<Row>)> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.split_once("]: pc = 0x").map(|(_, rest)| rest) {
            let (pc, rest) = rest.split_once(", size = ").unwrap();
            let size = rest.split_once(' ').unwrap().0.parse().unwrap();
            functions.push((u64::from_str_radix(pc, 16).unwrap(), size, Vec::new()));
        } else if line.starts_with("    ")
            && !line.starts_with("    STARTPC")
            && let Some((base, _, rows)) = functions.last_mut()
        {
            rows.push(row(line, *base, arch));
        }
    }
    functions
}

#[test]
fn rows_say_what_readelf_says() {
    for (path, golden) in readelf::objects() {
        // readelf computes these CFA offsets of 2^31 and more in 32 bits.
        let overflows = ["s_cfa_2g.", "s_cfa_17179869336."];
        if overflows.iter().any(|name| path.to_string_lossy().contains(name)) {
            continue;
        }
        let bytes = elf::sframe(&fs::read(&path).unwrap()).unwrap();
        let section = Section::parse(&bytes, Address(0)).unwrap();
        let expected = functions(&golden, section.arch());
        assert_eq!(section.num_functions(), expected.len(), "{path:?}");
        for (function, (start, size, rows)) in section.functions().zip(expected) {
            let function = function.unwrap();
            assert_eq!((function.start().0, function.size()), (start, size), "{path:?}");
            let read: Vec<Row> = function.rows().map(Result::unwrap).collect();
            assert_eq!(read, rows, "{path:?}");
            for offset in (0..size.min(300)).chain(size.saturating_sub(3)..size + 2) {
                let answer = rows.iter().rev().find(|row| row.start.0 <= offset && offset < size);
                let found = function.lookup(FunctionOffset(offset)).unwrap();
                assert_eq!(found.as_ref(), answer, "{path:?} +{offset:#x}");
            }
        }
    }
}

#[test]
fn the_largest_cfa_offsets_of_s390x() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpora/sframe/s390x/");
    // The sources have these offsets in .cfi_def_cfa_offset.
    for (name, offset) in [("s_cfa_2g", 1i64 << 31), ("s_cfa_17179869336", 17_179_869_336)] {
        let file = fs::read(format!("{path}{name}.gas247.o")).unwrap();
        let bytes = elf::sframe(&file).unwrap();
        let section = Section::parse(&bytes, Address(0)).unwrap();
        let last = section.function(0).unwrap().unwrap().rows().last().unwrap().unwrap();
        assert_eq!(last.cfa, Cfa::Register { register: Register(15), offset });
    }
}
