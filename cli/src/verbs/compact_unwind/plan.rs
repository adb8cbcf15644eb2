//! Decides for each function of an object if it gets a compact encoding.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use anyhow::Context as _;
use cfipack_cfi::{Error as CfiError, Function, Functions};
use cfipack_container::{CallFrameSection, CompactUnwindRow, File, Labels, Relocation};
use cfipack_edit::{CompactUnwindEdit, CompactUnwindEditor};
use cfipack_format::compact_unwind::{Encoding, Flags, Mode};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, SectionOffset};
use cfipack_roundtrip::unwind_info::Code;

use super::personalities::{Personalities, Personality};
use super::request::Request;
use crate::compact::encodings::CompactEncoder;
use crate::compact::source;
use crate::report::reasons::MALFORMED;

/// The planned changes of an object, and the reasons why other functions stay in DWARF mode.
#[derive(Debug, Default)]
pub struct Plan {
    /// The number of FDEs.
    pub functions: u64,
    /// The number of FDEs of functions that already have a compact row.
    pub compact: u64,
    /// The number of functions that get a compact encoding.
    pub gained: u64,
    /// The rows that are changed or added.
    pub edits: Vec<CompactUnwindEdit>,
    /// Bytes of the FDEs of functions that get a compact encoding. A linker can remove these FDEs.
    pub fde_bytes: u64,
    /// The number of functions that stay in DWARF mode, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

/// Plans the changes of an object.
struct Planner<'p, 'a> {
    arch: Arch,
    editor: &'p CompactUnwindEditor<'p, 'a>,
    labels: Labels<'p, 'a>,
    /// The rows by address.
    rows: BTreeMap<Address, Vec<CompactUnwindRow>>,
    /// The starts of the functions that have FDEs, each with the number of its FDEs.
    starts: HashMap<Address, u64>,
    request: &'p Request<'p>,
    personalities: &'p mut Personalities,
    /// The rows that are replaced.
    edited: BTreeSet<SectionOffset>,
    plan: Plan,
}

impl Plan {
    /// Decides for every function of an object.
    pub fn for_object<'a>(
        file: &File<'a>,
        editor: &CompactUnwindEditor<'_, 'a>,
        labels: Labels<'_, 'a>,
        request: &Request<'_>,
        personalities: &mut Personalities,
    ) -> anyhow::Result<Self> {
        let compact = source::rows(file)?;
        let mut rows: BTreeMap<Address, Vec<CompactUnwindRow>> = BTreeMap::new();
        if let Some(compact) = &compact {
            personalities.add_rows(file, editor, compact, request)?;
            for row in &compact.rows {
                rows.entry(row.function).or_default().push(*row);
            }
        }
        let mut planner = Planner {
            arch: file.arch(),
            editor,
            labels,
            rows,
            starts: HashMap::new(),
            request,
            personalities,
            edited: BTreeSet::new(),
            plan: Self::default(),
        };
        let code_sections = file.code_sections()?;
        let code = Code::new(code_sections.iter().map(|section| (section.address, &section.bytes[..])));
        let sections = file.call_frame_sections()?;
        let mut encoder = CompactEncoder::new(file.arch(), code)?;
        for section in &sections {
            let planned = planner.section(file, section, &mut encoder);
            planned.with_context(|| format!("section {}", section.section.name))?;
        }
        planner.divide_rows_without_fde();
        Ok(planner.plan)
    }

    /// Returns the number of rows that are added.
    pub fn added(&self) -> u64 {
        self.edits.iter().filter(|edit| edit.row.is_none()).count().to_u64()
    }

    /// Returns the number of rows that are replaced.
    pub fn changed(&self) -> u64 {
        self.edits.len().to_u64() - self.added()
    }

    /// Returns the functions that are divided into several rows.
    pub fn divided(&self) -> Vec<Address> {
        let is_inside = |edit: &CompactUnwindEdit| edit.encoding.flags().contains(Flags::NOT_FUNCTION_START);
        let divided = self.edits.windows(2).filter(|edits| is_inside(&edits[1]) && !is_inside(&edits[0]));
        divided.map(|edits| edits[0].function).collect()
    }

    /// Adds the counts of another object.
    pub fn absorb(&mut self, other: Self) {
        self.functions += other.functions;
        self.compact += other.compact;
        self.gained += other.gained;
        self.edits.extend(other.edits);
        self.fde_bytes += other.fde_bytes;
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }
}

impl<'a> Planner<'_, 'a> {
    fn section<'f>(
        &mut self,
        file: &File<'_>,
        section: &'f CallFrameSection<'_>,
        encoder: &mut CompactEncoder<'_, 'f>,
    ) -> anyhow::Result<()> {
        let relocations = section.section.index.map(|index| file.relocations(index)).transpose()?;
        let relocations = relocations.unwrap_or_default().into_iter();
        // If two relocations of a field form a pair, keep the second, because it has the minuend.
        let relocations: HashMap<_, _> =
            relocations.map(|relocation| (relocation.offset, relocation)).collect();
        let reader = section.cfi();
        let functions: Vec<_> = Functions::new(&reader).collect();
        for function in functions.iter().flatten() {
            *self.starts.entry(function.key.address()).or_default() += 1;
        }
        for function in functions {
            self.plan.functions += 1;
            let function = match function {
                Ok(function) => function,
                Err(error @ CfiError::Length { .. }) => return Err(error.into()),
                Err(_) => {
                    self.keep(MALFORMED);
                    continue;
                }
            };
            if self.starts.get(&function.key.address()).is_some_and(|count| *count > 1) {
                self.keep("several-fdes");
                continue;
            }
            let repairs = self.rows_to_repair(&function);
            match self.function(&function, &relocations, &repairs, encoder) {
                Ok(Some((edit, symbols))) => {
                    self.plan.gained += 1;
                    self.plan.fde_bytes += fde_len(&section.section.bytes, &function);
                    self.divide(edit, &symbols);
                }
                Ok(None) => self.plan.compact += 1,
                Err(reason) => {
                    self.leave_to_fde(&function, &repairs);
                    self.keep(reason);
                }
            }
        }
        Ok(())
    }

    /// Adds the rows of a function: a row from its start, and a row from each symbol inside it.
    fn divide(&mut self, edit: CompactUnwindEdit, symbols: &[Address]) {
        let end = edit.function.offset(edit.length.into());
        let starts = || std::iter::once(edit.function).chain(symbols.iter().copied());
        for (number, (function, next)) in starts().zip(starts().skip(1).chain([end])).enumerate() {
            let length = (next.0 - function.0) as u32;
            let (row, encoding) = match number {
                0 => (edit.row, edit.encoding),
                _ => (None, edit.encoding.with_flags(Flags::NOT_FUNCTION_START)),
            };
            self.edit(CompactUnwindEdit { row, function, length, encoding, ..edit });
        }
    }

    fn edit(&mut self, edit: CompactUnwindEdit) {
        self.edited.extend(edit.row);
        self.plan.edits.push(edit);
    }

    /// Returns the rows of a function that are to be replaced, because they contradict the CFI or break a rule. In hostile
    /// input every FDE may contain all rows. Functions with many rows are not repaired.
    fn rows_to_repair(&self, function: &Function<'_>) -> Vec<CompactUnwindRow> {
        let range = range(function);
        if self.request.faulty.range(range.clone()).next().is_none() {
            return Vec::new();
        }
        let rows = self.rows.range(range).flat_map(|(_, rows)| rows).copied();
        // FDEs may overlap.
        let rows = rows.filter(|row| !self.edited.contains(&row.offset));
        let rows: Vec<_> = rows.take(Labels::MOST_WITHIN + 1).collect();
        if rows.len() > Labels::MOST_WITHIN { Vec::new() } else { rows }
    }

    /// Puts the rows of a function into DWARF mode. Each row ends where the next row starts.
    fn leave_to_fde(&mut self, function: &Function<'_>, rows: &[CompactUnwindRow]) {
        let end = Address(function.key.address().0.saturating_add(function.size));
        let starts = rows.iter().map(|row| row.function).skip(1).chain([end]);
        for (row, next) in rows.iter().zip(starts) {
            let length = u32::try_from(next.0.saturating_sub(row.function.0)).unwrap_or(u32::MAX);
            self.edit(CompactUnwindEdit { length, ..change(row, Encoding::dwarf(self.arch, 0)) });
        }
    }

    fn keep(&mut self, reason: &'static str) {
        *self.plan.reasons.entry(reason).or_default() += 1;
    }

    /// Returns the row that a function gets, with the symbols that divide it, or `None` if it already has a compact row.
    /// `repairs` are its rows that are to be replaced. The error is the reason why the function keeps its FDE.
    fn function<'f>(
        &mut self,
        function: &Function<'f>,
        relocations: &HashMap<u64, Relocation>,
        repairs: &[CompactUnwindRow],
        encoder: &mut CompactEncoder<'_, 'f>,
    ) -> Result<Option<(CompactUnwindEdit, Vec<Address>)>, &'static str> {
        let Range { start, end } = range(function);
        let symbols = self.symbols_without_row(start, end);
        let row = self.row(function, repairs)?;
        if let Some(row) = row
            && self.is_compact(&row)
            && repairs.is_empty()
        {
            let is_own = row.function == start && u64::from(row.length) == function.size;
            if is_own {
                self.divide_row(&row, &symbols);
            }
            return Ok(None);
        }
        let encoding = encoder.encode(function).map_err(|unsupported| unsupported.reason.name())?;
        if !self.labels.has_subsections() {
            return Err("no-subsections");
        }
        let is_defined = |field: Option<SectionOffset>| {
            let relocation = field.and_then(|field| relocations.get(&field.0.to_u64()));
            relocation.is_none_or(|relocation| relocation.section.is_some())
        };
        if !is_defined(Some(function.start_field)) || !self.labels.starts_subsection(start) {
            return Err("function-without-symbol");
        }
        let lsda = function.lsda().map_err(|reason| reason.name())?;
        if lsda.is_some_and(|lsda| !is_defined(function.lsda_field()) || !self.labels.starts_subsection(lsda))
        {
            return Err("lsda-without-symbol");
        }
        let length = u32::try_from(function.size).map_err(|_| "function-size")?;
        let is_alone = lsda.is_none() && function.cie.personality.is_none();
        if !(symbols.is_empty() || is_alone && self.may_divide(start, &symbols, encoding)) {
            return Err("symbol-inside");
        }
        let personality = self.personality(function, relocations)?;
        let row = row.map(|row| row.offset);
        Ok(Some((CompactUnwindEdit { row, function: start, length, encoding, personality, lsda }, symbols)))
    }

    /// Returns the symbols within a function that have neither a row nor an FDE.
    fn symbols_without_row(&self, start: Address, end: Address) -> Vec<Address> {
        let has_row =
            |symbol| self.rows.get(&symbol).is_some_and(|rows| rows.iter().any(|row| self.is_compact(row)));
        let mut symbols = self.labels.within(start, end);
        symbols.retain(|symbol| *symbol == start || !has_row(*symbol) && !self.starts.contains_key(symbol));
        symbols
    }

    /// Divides the compact rows of functions without an FDE by the symbols inside them. A row has one encoding for all of
    /// its PCs, so nothing changes for them.
    fn divide_rows_without_fde(&mut self) {
        let rows: Vec<_> = self.rows.values().flatten().copied().collect();
        for row in rows {
            let is_edited = self.edited.contains(&row.offset);
            if self.is_compact(&row) && !self.starts.contains_key(&row.function) && !is_edited {
                let end = row.function.offset(row.length.into());
                self.divide_row(&row, &self.symbols_without_row(row.function, end));
            }
        }
    }

    /// Divides a compact row that stays, if it may be divided.
    fn divide_row(&mut self, row: &CompactUnwindRow, symbols: &[Address]) {
        let is_alone = row.personality.is_none() && row.lsda.is_none();
        let has_information = row.encoding != Encoding::NONE && !symbols.is_empty();
        if is_alone && has_information && self.may_divide(row.function, symbols, row.encoding) {
            self.divide(change(row, row.encoding), symbols);
        }
    }

    /// Returns whether a function may have a row for each symbol inside it. A personality and an LSDA belong to the start
    /// of a function, so its callers exclude these. All of the symbols must be without a row. At the function's start,
    /// a symbol that belongs to the code before hides any row.
    fn may_divide(&self, start: Address, symbols: &[Address], encoding: Encoding) -> bool {
        !encoding.depends_on_start(self.arch)
            && symbols.len() <= Labels::MOST_WITHIN
            && !symbols.contains(&start)
            && !self.request.undivided.contains(&start)
    }

    /// Returns whether a row is not in DWARF mode.
    fn is_compact(&self, row: &CompactUnwindRow) -> bool {
        row.encoding.mode(self.arch) != Some(Mode::Dwarf)
    }

    /// Finds the row of a function. The error is the reason why the function keeps its FDE.
    fn row(
        &self,
        function: &Function<'_>,
        repairs: &[CompactUnwindRow],
    ) -> Result<Option<CompactUnwindRow>, &'static str> {
        let start = function.key.address();
        // In hostile input every FDE may contain all rows. Two rows are already too many, so stop there.
        let rows: Vec<_> = self.rows.range(range(function)).flat_map(|(_, rows)| rows).take(2).collect();
        match rows[..] {
            [] => Ok(None),
            [row] if row.function == start && !repairs.is_empty() => Ok(Some(*row)),
            [row] if row.encoding == Encoding::NONE => Err("row-without-unwind-information"),
            [row] if self.is_compact(row) && repairs.is_empty() => Ok(Some(*row)),
            [row] if row.function == start && u64::from(row.length) == function.size => Ok(Some(*row)),
            [_] => Err("row-of-another-range"),
            [row, next] if self.is_compact(row) && self.is_compact(next) && repairs.is_empty() => {
                Ok(Some(*row))
            }
            _ => Err("several-rows"),
        }
    }

    /// Returns the symbol of a function's personality, and counts the personality.
    fn personality(
        &mut self,
        function: &Function<'_>,
        relocations: &HashMap<u64, Relocation>,
    ) -> Result<Option<usize>, &'static str> {
        let Some(personality) = function.cie.personality else { return Ok(None) };
        let relocation = relocations.get(&personality.field.0.to_u64());
        let symbol =
            relocation.and_then(|relocation| relocation.symbol).ok_or("personality-without-symbol")?;
        let personality = Personality::of_symbol(self.editor, symbol, self.request.object);
        let personality = personality.ok_or("personality-without-symbol")?;
        let wanted = self.request.wishes.personalities;
        if !wanted.is_empty() && !wanted.contains(&personality.name) {
            return Err("other-personality");
        }
        if !self.personalities.admit(personality) {
            return Err("fourth-personality");
        }
        Ok(Some(symbol))
    }
}

/// Returns the PCs of a function. The range of a function without code has one PC.
fn range(function: &Function<'_>) -> Range<Address> {
    let start = function.key.address();
    start..Address(start.0.saturating_add(function.size.max(1)))
}

/// Returns the change of a row to an encoding without personality and LSDA.
fn change(row: &CompactUnwindRow, encoding: Encoding) -> CompactUnwindEdit {
    let CompactUnwindRow { offset, function, length, .. } = *row;
    CompactUnwindEdit { row: Some(offset), function, length, encoding, personality: None, lsda: None }
}

/// Returns the size of an FDE with its length field, or 0 for 64-bit DWARF, because no compiler writes that here.
fn fde_len(section: &[u8], function: &Function<'_>) -> u64 {
    let length = section.get(function.fde.0..).and_then(|record| record.first_chunk());
    let length = length.map(|length| u32::from_le_bytes(*length)).filter(|length| *length != u32::MAX);
    length.map_or(0, |length| 4 + u64::from(length))
}
