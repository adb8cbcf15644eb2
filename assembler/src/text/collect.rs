//! Statements, gathered until their offsets are known.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, Key};

use super::cfi::{self, CfiStatement, Operation};
use super::diagnostic::Span;
use super::operands::{Constants, Fault, Operands};
use super::sections::{PlaceId, Sections};
use super::statement::{is_name, label, name, skip_blank};
use super::{CfiSections, Format, Problem};

/// A statement of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement<'t> {
    /// The text.
    pub(super) text: &'t [u8],
    /// The place in the file.
    pub(super) base: usize,
    /// True if its text is that of the file.
    pub(super) is_in_place: bool,
}

/// The kind of a statement, beside what was learnt from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind<'t> {
    /// Labels alone.
    Label,
    /// `.cfi_*`
    Cfi,
    /// A statement that makes no bytes.
    Silent,
    /// A change of the section.
    Section,
    /// An alignment: its name, and where its operands start.
    Align(&'t [u8], usize),
    /// Anything else: its name, and where its operands start.
    Other(&'t [u8], usize),
}

/// A place in the code, whose offset is learnt later. Several statements share one if nothing between them makes bytes.
pub(super) type Point = u32;

/// A function of the text.
#[derive(Debug)]
pub(super) struct OpenFunction {
    pub(super) place: PlaceId,
    pub(super) start: Point,
    pub(super) end: Option<Point>,
    pub(super) is_simple: bool,
    pub(super) span: Span,
    pub(super) operations: Vec<PlacedOperation>,
}

#[derive(Debug)]
pub(super) struct PlacedOperation {
    pub(super) point: Point,
    /// True if an alignment stands between the one before and this one.
    pub(super) is_aligned: bool,
    pub(super) span: Span,
    pub(super) operation: Operation,
}

/// The state of a subsection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// The point at which statements stand now, if there is one.
    point: Option<Point>,
    /// The first CFI at that point.
    pub(super) cfi: Option<Span>,
    /// The function that is open.
    pub(super) open: Option<usize>,
    /// True if an alignment came after the last directive.
    is_aligned: bool,
    /// The offset after the last bytes.
    pub(super) end: u64,
    /// True if bytes after that may not be listed.
    pub(super) is_cut: bool,
    /// The rows of a listing that those took; 0 if they are not listed.
    pub(super) rows: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LabelAt<'t> {
    pub(super) name: &'t [u8],
    pub(super) point: Point,
}

/// All that was learnt.
#[derive(Debug)]
pub(super) struct Collector<'t> {
    pub(super) arch: Arch,
    pub(super) format: Format,
    pub(super) sections: Sections<'t>,
    pub(super) places: Vec<Place>,
    /// The place and the offset of each point.
    pub(super) points: Vec<(PlaceId, u64)>,
    pub(super) functions: Vec<OpenFunction>,
    pub(super) labels: Vec<LabelAt<'t>>,
    pub(super) globals: BTreeSet<&'t [u8]>,
    pub(super) hidden: BTreeSet<&'t [u8]>,
    pub(super) symbols: Vec<String>,
    keys: BTreeMap<String, Key>,
    pub(super) constants: Constants<'t>,
    pub(super) cfi_sections: CfiSections,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
    pub(super) has_odd_sizes: bool,
    operations: Vec<Operation>,
}

impl<'t> Collector<'t> {
    pub(super) fn new(arch: Arch, format: Format) -> Self {
        Self {
            arch,
            format,
            sections: Sections::new(format),
            places: Vec::from([Place::default()]),
            points: Vec::new(),
            functions: Vec::new(),
            labels: Vec::new(),
            globals: BTreeSet::new(),
            hidden: BTreeSet::new(),
            symbols: Vec::new(),
            keys: BTreeMap::new(),
            constants: BTreeMap::new(),
            cfi_sections: CfiSections::default(),
            faults: Vec::new(),
            warnings: Vec::new(),
            has_odd_sizes: false,
            operations: Vec::new(),
        }
    }

    /// The current place.
    pub(super) fn place(&mut self) -> &mut Place {
        let current = self.sections.current();
        if current >= self.places.len() {
            // Where a subsection starts only its rows tell.
            let places = self.sections.places[self.places.len()..].iter();
            let place =
                |&(_, subsection): &(usize, i64)| Place { is_cut: subsection != 0, ..Place::default() };
            self.places.extend(places.map(place));
        }
        &mut self.places[current]
    }

    /// The point at which statements stand now.
    fn point(&mut self) -> Point {
        if let Some(point) = self.place().point {
            return point;
        }
        // Fewer than bytes of the text.
        let point = self.points.len() as Point;
        self.points.push((self.sections.current(), 0));
        self.place().point = Some(point);
        point
    }

    /// The current point's offset is known, and what follows is at another one.
    pub(super) fn resolve(&mut self, offset: u64) {
        let place = self.place();
        place.cfi = None;
        if let Some(point) = place.point.take() {
            self.points[point.to_usize()].1 = offset;
        }
    }

    /// Bytes are made at an offset. `end` is where they end.
    pub(super) fn emit(&mut self, offset: u64, end: u64) {
        self.resolve(offset);
        self.place().end = end;
        self.has_odd_sizes |= !(end - offset).is_multiple_of(2);
    }

    /// All points at which a place ends are there.
    pub(super) fn resolve_ends(&mut self) {
        for place in &mut self.places {
            if let Some(point) = place.point.take() {
                self.points[point.to_usize()].1 = place.end;
            }
        }
    }

    pub(super) fn fault(&mut self, span: Span, problem: Problem) {
        self.faults.push((span, problem));
    }

    /// Learns what a statement says.
    pub(super) fn statement(&mut self, statement: Statement<'t>) -> Kind<'t> {
        let text = statement.text;
        let mut at = 0;
        while let Some((name, after)) = label(&text[at..]) {
            // `name:` but no `name:=`.
            if !name.first().is_some_and(u8::is_ascii_digit) {
                let point = self.point();
                self.labels.push(LabelAt { name, point });
            }
            at = skip_blank(text, at + after);
        }
        if at >= text.len() {
            return Kind::Label;
        }
        let length = text[at..].iter().take_while(|&&byte| is_name(byte)).count();
        let (word, after) = (&text[at..at + length], at + length);
        if text[at] == b'.' && length > 1 {
            let span = self.span(statement, at, length);
            if let Some(kind) = self.directive(statement, word, span, after) {
                return kind;
            }
        }
        let next = skip_blank(text, after);
        if text.get(next) == Some(&b'=') {
            let operands = if text.get(next + 1) == Some(&b'=') { next + 2 } else { next + 1 };
            self.assign(word, statement, operands);
            return Kind::Silent;
        }
        Kind::Other(word, after)
    }

    pub(super) fn span(&self, statement: Statement<'t>, from: usize, length: usize) -> Span {
        let (from, length) = if statement.is_in_place { (from, length) } else { (0, statement.text.len()) };
        Span { start: (statement.base + from) as u32, length: length as u32 }
    }

    fn directive(
        &mut self,
        statement: Statement<'t>,
        word: &'t [u8],
        span: Span,
        after: usize,
    ) -> Option<Kind<'t>> {
        if word.starts_with(b".cfi_") {
            self.cfi(statement, word, span, after);
            return Some(Kind::Cfi);
        }
        let text = statement.text;
        match word {
            b".p2align" | b".balign" | b".align" | b".p2alignw" | b".p2alignl" | b".balignw"
            | b".balignl" => Some(Kind::Align(word, after)),
            b".globl" | b".global" | b".weak" | b".weak_definition" | b".hidden" | b".protected"
            | b".internal" | b".private_extern" => {
                let is_hidden =
                    matches!(word, b".hidden" | b".protected" | b".internal" | b".private_extern");
                for symbol in text[after..].split(|&byte| byte == b',') {
                    let symbol = symbol.trim_ascii();
                    let symbol =
                        if symbol.starts_with(b"\"") { name(symbol).map_or(symbol, |n| n.0) } else { symbol };
                    if is_hidden { &mut self.hidden } else { &mut self.globals }.insert(symbol);
                }
                Some(Kind::Silent)
            }
            b".set" | b".equ" | b".equiv" => {
                let from = skip_blank(text, after);
                if let Some((symbol, length)) = name(&text[from..]) {
                    let rest = &text[from + length..];
                    let comma = rest.iter().position(|&byte| byte == b',').map_or(rest.len(), |at| at + 1);
                    self.assign(symbol, statement, from + length + comma);
                }
                Some(Kind::Silent)
            }
            b".section" | b".pushsection" | b".popsection" | b".previous" | b".subsection" | b".text"
            | b".data" | b".bss" | b".const" | b".cstring" | b".literal4" | b".literal8" | b".literal16"
            | b".const_data" | b".static_data" => {
                let constants = &self.constants;
                let mut operands =
                    Operands::new(text, after, statement.base, statement.is_in_place, constants);
                let result = self.sections.obey(word, span, &mut operands)?;
                if let Err((span, problem)) = result {
                    self.fault(span, problem);
                }
                Some(Kind::Section)
            }
            _ => is_silent(word).then_some(Kind::Silent),
        }
    }

    /// `name = expression`
    fn assign(&mut self, symbol: &'t [u8], statement: Statement<'t>, at: usize) {
        let Statement { text, base, is_in_place } = statement;
        let mut operands = Operands::new(text, at, base, is_in_place, &self.constants);
        match operands.number() {
            Ok(value) if operands.is_at_end() => _ = self.constants.insert(symbol, value),
            // A number that depends on an address.
            _ => _ = self.constants.remove(symbol),
        }
    }

    /// An alignment of more than one byte stands here.
    pub(super) fn aligned(&mut self) {
        self.place().is_aligned = true;
    }

    fn cfi(&mut self, statement: Statement<'t>, word: &[u8], span: Span, after: usize) {
        let Self { constants, keys, symbols, operations, arch, .. } = self;
        let mut operands =
            Operands::new(statement.text, after, statement.base, statement.is_in_place, constants);
        let mut key_of = |name: String| {
            *keys.entry(name).or_insert_with_key(|name| {
                symbols.push(name.clone());
                Key(symbols.len().to_u64() - 1)
            })
        };
        operations.clear();
        match cfi::parse(*arch, (word, span), &mut operands, &mut key_of, operations) {
            Ok(CfiStatement::StartProc { is_simple }) => self.start(is_simple, span),
            Ok(CfiStatement::EndProc) => self.end(span),
            Ok(CfiStatement::Sections(sections)) => self.cfi_sections = sections,
            Ok(CfiStatement::Operations) => self.operations(span),
            Err((place, problem)) => {
                // A function that starts wrongly starts all the same.
                if word == b".cfi_startproc" {
                    self.start(false, span);
                }
                self.fault(place, problem);
            }
        }
    }

    fn start(&mut self, is_simple: bool, span: Span) {
        let point = self.point();
        if self.place().open.is_some() {
            self.fault(span, Problem::NotClosed);
        }
        let function = OpenFunction {
            place: self.sections.current(),
            start: point,
            end: None,
            is_simple,
            span,
            operations: Vec::new(),
        };
        let number = self.functions.len();
        self.functions.push(function);
        let place = self.place();
        place.open = Some(number);
        place.is_aligned = false;
        place.cfi.get_or_insert(span);
    }

    fn end(&mut self, span: Span) {
        let Some(function) = self.place().open.take() else {
            return self.fault(span, Problem::NotOpen);
        };
        let point = self.point();
        self.place().cfi.get_or_insert(span);
        self.functions[function].end = Some(point);
    }

    fn operations(&mut self, span: Span) {
        let truncated = self.operations.iter().flat_map(Operation::truncated);
        self.warnings.extend(truncated.map(|value| (span, Problem::Truncated(value))));
        let Some(function) = self.place().open else {
            return self.fault(span, Problem::NotInFunction);
        };
        let point = self.point();
        let place = self.place();
        place.cfi.get_or_insert(span);
        let is_aligned = core::mem::take(&mut place.is_aligned);
        let operations = self.operations.drain(..).enumerate().map(|(index, operation)| PlacedOperation {
            point,
            is_aligned: is_aligned && index == 0,
            span,
            operation,
        });
        self.functions[function].operations.extend(operations);
    }
}

/// Returns whether a directive makes no bytes and changes nothing that matters here.
fn is_silent(word: &[u8]) -> bool {
    matches!(
        word,
        b".type"
            | b".size"
            | b".file"
            | b".loc"
            | b".ident"
            | b".local"
            | b".loc_mark_labels"
            | b".symver"
            | b".weakref"
            | b".comm"
            | b".extern"
            | b".addrsig"
            | b".addrsig_sym"
            | b".intel_syntax"
            | b".att_syntax"
            | b".code64"
            | b".code32"
            | b".arch"
            | b".cpu"
            | b".arch_extension"
            | b".machine"
            | b".machinemode"
            | b".line"
            | b".ln"
            | b".version_min"
            | b".build_version"
            | b".macosx_version_min"
            | b".subsections_via_symbols"
            | b".no_dead_strip"
            | b".weak_reference"
            | b".desc"
            | b".altmacro"
            | b".noaltmacro"
            | b".warning"
            | b".print"
            | b".attach_to_group"
            | b".gnu_attribute"
            | b".title"
            | b".sbttl"
            | b".psize"
            | b".eject"
            | b".variant_pcs"
            | b".app-file"
            | b".reloc"
            | b".include"
            | b".func"
            | b".endfunc"
    )
}
