//! Sources whose sizes are fixed by data directives.

use alloc::string::String;
use alloc::vec::Vec;

use cfipack_format::{Arch, Family};

use super::collect::{Collector, Kind, Statement};
use super::diagnostic::Diagnostics;
use super::operands::{Fault, Operands, string_length};
use super::statement::{Splitter, Syntax, find};
use super::{Format, Problem, Unit};

/// The format that a text's directives are of.
pub(super) fn format_of(text: &[u8]) -> Format {
    let is_mach_o = |line: &[u8]| {
        let line = line.trim_ascii();
        matches!(line, b".subsections_via_symbols")
            || line.starts_with(b".build_version")
            || ((line.starts_with(b".section") || line.starts_with(b".pushsection"))
                && (find(line, b"__TEXT").is_some() || find(line, b"__DATA").is_some()))
    };
    if text.split(|&byte| byte == b'\n').any(is_mach_o) { Format::MachO } else { Format::Elf }
}

pub(super) fn read(arch: Arch, format: Format, text: &[u8]) -> Result<Unit, Diagnostics<'_>> {
    let mut source = Source {
        collector: Collector::new(arch, format),
        splitter: Splitter::new(Syntax::new(arch, format)),
    };
    let mut line_start = 0;
    for line in text.split(|&byte| byte == b'\n') {
        source.line(line.strip_suffix(b"\r").unwrap_or(line), line_start);
        line_start += line.len() + 1;
    }
    let mut collector = source.collector;
    if source.splitter.is_in_comment() {
        let end = text.len().saturating_sub(1) as u32;
        collector.fault(super::diagnostic::Span { start: end, length: 1 }, Problem::OpenComment);
    }
    collector.resolve_ends();
    let bases = bases(&collector);
    collector.finish(text, &bases)
}

/// The start of each subsection: those of a section follow each other in ascending order.
fn bases(collector: &Collector<'_>) -> Vec<u64> {
    let places = &collector.sections.places;
    let mut order: Vec<_> = (0..places.len()).collect();
    order.sort_by_key(|&place| places[place]);
    let mut bases = alloc::vec![0; places.len()];
    let (mut section, mut base) = (usize::MAX, 0);
    for place in order {
        if places[place].0 != section {
            (section, base) = (places[place].0, 0);
        }
        bases[place] = base;
        base += collector.places.get(place).map_or(0, |place| place.end);
    }
    bases
}

struct Source<'t> {
    collector: Collector<'t>,
    splitter: Splitter,
}

impl<'t> Source<'t> {
    fn line(&mut self, line: &'t [u8], start: usize) {
        let mut at = 0;
        while let Some(piece) = self.splitter.next(line, &mut at) {
            let text = &line[piece.start..piece.end];
            let statement = Statement { text, base: start + piece.start, is_in_place: true };
            if let Some(problem) = piece.problem {
                let span = self.collector.span(statement, 0, text.len());
                self.collector.fault(span, problem.clone());
                continue;
            }
            if let Err((span, problem)) = self.statement(statement) {
                self.collector.fault(span, problem);
            }
        }
    }

    fn statement(&mut self, statement: Statement<'t>) -> Result<(), Fault> {
        match self.collector.statement(statement) {
            Kind::Label | Kind::Cfi | Kind::Silent | Kind::Section => Ok(()),
            Kind::Align(word, at) => self.align(statement, word, at),
            Kind::Other(word, at) => self.data(statement, word, at),
        }
    }

    /// Takes note that so many bytes are made.
    fn emit(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        let at = self.collector.place().end;
        self.collector.emit(at, at.saturating_add(count).min(1 << 61));
    }

    fn align(&mut self, statement: Statement<'t>, word: &[u8], at: usize) -> Result<(), Fault> {
        let (alignment, most) = alignment_operands(&self.collector, statement, word, at)?;
        if alignment > 1 {
            self.collector.aligned();
            let padding = self.collector.place().end.wrapping_neg() % alignment;
            if most.is_none_or(|most| padding <= most) {
                self.emit(padding);
            }
        }
        Ok(())
    }

    fn data(&mut self, statement: Statement<'t>, word: &[u8], at: usize) -> Result<(), Fault> {
        let name_span = self.collector.span(statement, at - word.len(), word.len().max(1));
        let arch = self.collector.arch;
        let Statement { text, base, is_in_place } = statement;
        let mut operands = Operands::new(text, at, base, is_in_place, &self.collector.constants);
        let number = |operands: &mut Operands<'t, '_>| {
            let value = operands.number()?;
            u64::try_from(value).ok().filter(|&value| value >> 60 == 0).ok_or((name_span, Problem::Number))
        };
        let count = match word {
            b".byte" | b".2byte" | b".short" | b".hword" | b".value" | b".4byte" | b".long" | b".int"
            | b".8byte" | b".quad" | b".xword" | b".dword" | b".octa" | b".word" | b".inst" | b".single"
            | b".float" | b".double" | b".1byte" => match each(word, arch) {
                Some(size) => elements(&mut operands) * size,
                None => return Err((name_span, Problem::Directive(text_of(word)))),
            },
            b".ascii" | b".asciz" | b".string" => strings(&mut operands, u64::from(word != b".ascii"))
                .ok_or((name_span, Problem::MissingOperand))?,
            b".skip" | b".space" | b".nops" | b".zero" => number(&mut operands)?,
            b".fill" => {
                let repeat = number(&mut operands)?;
                let size = if operands.comma() { number(&mut operands)?.min(8) } else { 1 };
                repeat.saturating_mul(size)
            }
            b".uleb128" | b".sleb128" => leb128(&mut operands, word == b".uleb128")?,
            _ if word.starts_with(b".") => return Err((name_span, Problem::Directive(text_of(word)))),
            // A name starts an instruction; what else there is is of another language.
            b"" => {
                return Err((self.collector.span(statement, 0, statement.text.len()), Problem::NoStatement));
            }
            _ => return Err((name_span, Problem::Instruction(text_of(word)))),
        };
        self.emit(count);
        Ok(())
    }
}

fn text_of(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// Bytes of an element of a data directive.
fn each(word: &[u8], arch: Arch) -> Option<u64> {
    Some(match word {
        b".byte" | b".1byte" => 1,
        b".2byte" | b".short" | b".hword" | b".value" => 2,
        b".4byte" | b".long" | b".int" | b".single" | b".float" => 4,
        b".8byte" | b".quad" | b".xword" | b".dword" | b".double" => 8,
        b".octa" => 16,
        b".inst" => match arch.family() {
            Family::Aarch64 => 4,
            Family::X86 | Family::S390x | Family::Riscv => return None,
        },
        b".word" => match arch.family() {
            Family::Aarch64 | Family::S390x | Family::Riscv => 4,
            Family::X86 => 2,
        },
        _ => return None,
    })
}

/// The number of operands.
fn elements(operands: &mut Operands<'_, '_>) -> u64 {
    let mut count = 0;
    while !operands.is_at_end() {
        operands.raw();
        count += 1;
        if !operands.comma() {
            break;
        }
    }
    count
}

fn strings(operands: &mut Operands<'_, '_>, end: u64) -> Option<u64> {
    let mut count = 0;
    loop {
        let raw = operands.raw();
        let string = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        count += string_length(string) + end;
        if !operands.comma() {
            return Some(count);
        }
    }
}

fn leb128(operands: &mut Operands<'_, '_>, is_unsigned: bool) -> Result<u64, Fault> {
    let mut count = 0;
    loop {
        let value = operands.number()?;
        let bits = if is_unsigned {
            64 - value.leading_zeros()
        } else {
            65 - (if value < 0 { !value } else { value }).leading_zeros()
        };
        count += u64::from(bits.div_ceil(7).max(1));
        if !operands.comma() {
            return Ok(count);
        }
    }
}

/// The alignment that a directive asks for, in bytes, if it is known.
pub(super) fn alignment(
    collector: &Collector<'_>,
    statement: Statement<'_>,
    word: &[u8],
    at: usize,
) -> Option<u64> {
    alignment_operands(collector, statement, word, at).ok().map(|(alignment, _)| alignment)
}

/// The alignment, and the padding beyond which there is none.
fn alignment_operands(
    collector: &Collector<'_>,
    statement: Statement<'_>,
    word: &[u8],
    at: usize,
) -> Result<(u64, Option<u64>), Fault> {
    let Statement { text, base, is_in_place } = statement;
    let mut operands = Operands::new(text, at, base, is_in_place, &collector.constants);
    let span = collector.span(statement, 0, text.len());
    let value = if operands.is_at_end() { 0 } else { operands.number()? };
    let takes_powers = match collector.arch.family() {
        Family::Aarch64 | Family::Riscv => true,
        Family::X86 | Family::S390x => collector.format == Format::MachO,
    };
    let is_power = word.starts_with(b".p2align") || (word == b".align" && takes_powers);
    let alignment = match value {
        0..=30 if is_power => 1 << value,
        0 => 1,
        1.. if !is_power && value.count_ones() == 1 && value >> 31 == 0 => value as u64,
        _ => return Err((span, Problem::Number)),
    };
    let mut most = None;
    if operands.comma() {
        // The fill may be missing.
        if operands.peek() != Some(b',') {
            operands.number()?;
        }
        if operands.comma() {
            let value = operands.number()?;
            most = u64::try_from(value).ok().filter(|&most| most > 0);
        }
    }
    Ok((alignment, most))
}
