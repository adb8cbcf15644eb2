//! Decides for each function of an object if it gets a compact encoding.

use std::collections::{BTreeMap, HashMap};

use anyhow::Context as _;
use cfipack_cfi::{Error as CfiError, Function, Functions};
use cfipack_container::{CallFrameSection, CompactUnwindRow, File, Relocation};
use cfipack_edit::{CompactUnwindEdit, CompactUnwindEditor};
use cfipack_format::compact_unwind::{Encoding, Flags, Mode};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, SectionOffset};
use cfipack_roundtrip::unwind_info::Code;

use super::personalities::{Personalities, Personality};
use crate::compact::encodings::CompactEncoder;
use crate::compact::source;
use crate::report::reasons::MALFORMED;

/// What the user wants.
#[derive(Clone, Copy, Debug)]
pub struct Wishes<'w> {
    /// The names of the personalities that rows may have. If the list is empty, rows may have any personality.
    pub personalities: &'w [String],
    /// True if rows that contradict the CFI are replaced.
    pub repair: bool,
}

/// The planned changes of an object, and the reasons why other functions stay in DWARF mode.
#[derive(Debug, Default)]
pub struct Plan {
    /// The number of FDEs.
    pub functions: u64,
    /// The number of FDEs of functions that already have a compact row.
    pub compact: u64,
    /// The number of functions that get a compact encoding.
    pub gained: u64,
    /// The number of functions with symbols inside that have no row after the change.
    pub with_symbols: u64,
    /// The rows that are changed or added.
    pub edits: Vec<CompactUnwindEdit>,
    /// Bytes of the FDEs of functions that get a compact encoding. A linker can remove these FDEs.
    pub fde_bytes: u64,
    /// The number of functions that stay in DWARF mode, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

/// Plans the changes of an object.
struct Planner<'p, 'a> {
    editor: &'p CompactUnwindEditor<'p, 'a>,
    /// The rows by address.
    rows: BTreeMap<Address, Vec<CompactUnwindRow>>,
    /// The starts of the functions that have FDEs, each with the number of its FDEs.
    starts: HashMap<Address, u64>,
    request: &'p Request<'p>,
    personalities: &'p mut Personalities,
    plan: Plan,
}

/// What is known of an object before it is planned.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// What the user wants.
    pub wishes: Wishes<'r>,
    /// The number of the object in its file.
    pub object: u64,
    /// The functions whose rows are to be replaced, because they contradict the CFI. In ascending order.
    pub contradicted: &'r [Address],
    /// The functions that must not be divided into several rows. In ascending order.
    pub undivided: &'r [Address],
}

impl Plan {
    /// Decides for every function of an object.
    pub fn for_object(
        file: &File<'_>,
        editor: &CompactUnwindEditor<'_, '_>,
        request: &Request<'_>,
        personalities: &mut Personalities,
    ) -> anyhow::Result<Self> {
        let compact = source::rows(file)?;
        let mut rows: BTreeMap<Address, Vec<CompactUnwindRow>> = BTreeMap::new();
        if let Some(compact) = &compact {
            personalities.add_rows(file, editor, compact, request.object)?;
            for row in &compact.rows {
                rows.entry(row.function).or_default().push(*row);
            }
        }
        let starts = HashMap::new();
        let mut planner = Planner { editor, rows, starts, request, personalities, plan: Self::default() };
        let code_sections = file.code_sections()?;
        let code = Code::new(code_sections.iter().map(|section| (section.address, &section.bytes[..])));
        let sections = file.call_frame_sections()?;
        let mut encoder = CompactEncoder::new(file.arch(), code)?;
        for section in &sections {
            let planned = planner.section(file, section, &mut encoder);
            planned.with_context(|| format!("section {}", section.section.name))?;
        }
        planner.count_symbols_without_fde(file.arch());
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
        self.with_symbols += other.with_symbols;
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
            let encoded = self.function(file, &function, &relocations, encoder);
            match encoded {
                Ok(Some(edit)) => {
                    self.plan.gained += 1;
                    self.plan.fde_bytes += fde_len(&section.section.bytes, &function);
                    self.divide(edit);
                }
                Ok(None) => self.plan.compact += 1,
                Err(reason) => {
                    if let Some(row) = self.row_to_repair(&function) {
                        self.plan.edits.push(change(row, Encoding::dwarf(file.arch(), 0)));
                    }
                    self.keep(reason);
                }
            }
        }
        Ok(())
    }

    /// Adds the rows of a function: a row from its start, and a row from each symbol inside it.
    fn divide(&mut self, edit: CompactUnwindEdit) {
        let end = edit.function.offset(edit.length.into());
        let mut starts = self.editor.symbols_within(edit.function, end);
        self.plan.with_symbols -= u64::from(!starts.is_empty());
        starts.insert(0, edit.function);
        for (number, &function) in starts.iter().enumerate() {
            let next = starts.get(number + 1).copied().unwrap_or(end);
            let length = (next.0 - function.0) as u32;
            let (row, encoding) = match number {
                0 => (edit.row, edit.encoding),
                _ => (None, edit.encoding.with_flags(Flags::NOT_FUNCTION_START)),
            };
            self.plan.edits.push(CompactUnwindEdit { row, function, length, encoding, ..edit });
        }
    }

    /// Returns the row to replace because it contradicts the CFI.
    fn row_to_repair(&self, function: &Function<'_>) -> Option<CompactUnwindRow> {
        let start = function.key.address();
        self.request.contradicted.binary_search(&start).ok()?;
        match self.rows.get(&start)?[..] {
            [row] if u64::from(row.length) == function.size => Some(row),
            _ => None,
        }
    }

    fn keep(&mut self, reason: &'static str) {
        *self.plan.reasons.entry(reason).or_default() += 1;
    }

    /// Returns the row that a function gets, or `None` if it already has a compact row. The error is the reason why the
    /// function keeps its FDE.
    fn function<'f>(
        &mut self,
        file: &File<'_>,
        function: &Function<'f>,
        relocations: &HashMap<u64, Relocation>,
        encoder: &mut CompactEncoder<'_, 'f>,
    ) -> Result<Option<CompactUnwindEdit>, &'static str> {
        let start = function.key.address();
        let end = Address(start.0.saturating_add(function.size));
        let within = self.editor.symbols_within(start, end);
        let is_divided = self.lacks_rows(&within);
        self.plan.with_symbols += u64::from(is_divided);
        let row = self.row(file, function)?;
        if let Some(row) = row
            && is_compact(file.arch(), &row)
            && self.row_to_repair(function).is_none()
        {
            let is_own = row.function == start && u64::from(row.length) == function.size;
            let is_alone = row.personality.is_none() && row.lsda.is_none();
            if is_divided && is_own && is_alone && self.may_divide(file.arch(), start, &within, row.encoding)
            {
                self.divide(change(row, row.encoding));
            }
            return Ok(None);
        }
        let encoding = encoder.encode(function).map_err(|unsupported| unsupported.reason.name())?;
        if !self.editor.has_subsections() {
            return Err("no-subsections");
        }
        let is_defined = |field: Option<SectionOffset>| {
            let relocation = field.and_then(|field| relocations.get(&field.0.to_u64()));
            relocation.is_none_or(|relocation| relocation.section.is_some())
        };
        if !is_defined(Some(function.start_field)) || !self.editor.starts_subsection(start) {
            return Err("function-without-symbol");
        }
        let lsda = function.lsda().map_err(|reason| reason.name())?;
        if lsda.is_some_and(|lsda| !is_defined(function.lsda_field()) || !self.editor.starts_subsection(lsda))
        {
            return Err("lsda-without-symbol");
        }
        let length = u32::try_from(function.size).map_err(|_| "function-size")?;
        let is_alone = lsda.is_none() && function.cie.personality.is_none();
        if is_divided && !(is_alone && self.may_divide(file.arch(), start, &within, encoding)) {
            return Err("symbol-inside");
        }
        let personality = self.personality(function, relocations)?;
        let row = row.map(|row| row.offset);
        Ok(Some(CompactUnwindEdit { row, function: start, length, encoding, personality, lsda }))
    }

    /// Returns whether one of the symbols inside a function has no row.
    fn lacks_rows(&self, within: &[Address]) -> bool {
        within.iter().any(|symbol| !self.rows.contains_key(symbol))
    }

    /// Counts functions without an FDE that have symbols inside. Their rows cannot be judged, so they stay.
    fn count_symbols_without_fde(&mut self, arch: Arch) {
        for row in self.rows.values().flatten() {
            let end = row.function.offset(row.length.into());
            if is_compact(arch, row) && !self.starts.contains_key(&row.function) {
                let is_divided = self.lacks_rows(&self.editor.symbols_within(row.function, end));
                self.plan.with_symbols += u64::from(is_divided);
            }
        }
    }

    /// Returns whether a function may have a row for each symbol inside it. A personality and an LSDA belong to the start
    /// of a function, so its callers exclude these.
    fn may_divide(&self, arch: Arch, start: Address, within: &[Address], encoding: Encoding) -> bool {
        !encoding.depends_on_start(arch)
            && within.len() <= CompactUnwindEditor::MOST_WITHIN
            && self.request.undivided.binary_search(&start).is_err()
    }

    /// Finds the row of a function. The error is the reason why the function keeps its FDE.
    fn row(
        &self,
        file: &File<'_>,
        function: &Function<'_>,
    ) -> Result<Option<CompactUnwindRow>, &'static str> {
        let start = function.key.address();
        let end = Address(start.0.saturating_add(function.size.max(1)));
        // In hostile input every FDE may contain all rows. Two rows are already too many, so stop there.
        let rows: Vec<_> = self.rows.range(start..end).flat_map(|(_, rows)| rows).take(2).collect();
        let is_compact = |row| is_compact(file.arch(), row);
        match rows[..] {
            [] => Ok(None),
            [row] if self.row_to_repair(function) == Some(*row) => Ok(Some(*row)),
            [row] if row.encoding == Encoding::NONE => Err("row-without-unwind-information"),
            [row] if is_compact(row) => Ok(Some(*row)),
            [row] if row.function == start && u64::from(row.length) == function.size => Ok(Some(*row)),
            [_] => Err("row-of-another-range"),
            [row, next] if is_compact(row) && is_compact(next) => Ok(Some(*row)),
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

/// Returns whether a row is not in DWARF mode.
fn is_compact(arch: Arch, row: &CompactUnwindRow) -> bool {
    row.encoding.mode(arch) != Some(Mode::Dwarf)
}

/// Returns the change of a row to an encoding without personality and LSDA.
fn change(row: CompactUnwindRow, encoding: Encoding) -> CompactUnwindEdit {
    let CompactUnwindRow { offset, function, length, .. } = row;
    CompactUnwindEdit { row: Some(offset), function, length, encoding, personality: None, lsda: None }
}

/// Returns the size of an FDE with its length field, or 0 for 64-bit DWARF, because no compiler writes that here.
fn fde_len(section: &[u8], function: &Function<'_>) -> u64 {
    let length = section.get(function.fde.0..).and_then(|record| record.first_chunk());
    let length = length.map(|length| u32::from_le_bytes(*length)).filter(|length| *length != u32::MAX);
    length.map_or(0, |length| 4 + u64::from(length))
}
