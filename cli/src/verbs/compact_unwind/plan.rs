//! Decides for each function of an object if it gets a compact encoding.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Context as _;
use cfipack_cfi::{Error as CfiError, Function, Functions};
use cfipack_container::{CallFrameSection, CompactUnwind, CompactUnwindRow, File, Relocation};
use cfipack_edit::{CompactUnwindEdit, CompactUnwindEditor};
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Mode};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, SectionOffset};
use cfipack_roundtrip::unwind_info::Code;

use crate::compact::encodings::CompactEncoder;
use crate::compact::source;
use crate::report::reasons::MALFORMED;

/// How many personalities a linked file can have.
const MAX_PERSONALITIES: usize = 3;

/// The planned changes of an object, and the reasons why other functions stay in DWARF mode.
#[derive(Debug, Default)]
pub struct Plan {
    /// The number of FDEs.
    pub functions: u64,
    /// The number of FDEs of functions that already have a compact row.
    pub compact: u64,
    /// The rows that are changed or added.
    pub edits: Vec<CompactUnwindEdit>,
    /// Bytes of the FDEs of `edits`. A linker can remove these FDEs.
    pub fde_bytes: u64,
    /// The number of functions that stay in DWARF mode, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The personalities of compact rows, old and new.
    pub personalities: BTreeSet<String>,
}

/// Plans the changes of an object.
struct Planner<'p, 'a> {
    editor: &'p CompactUnwindEditor<'p, 'a>,
    /// The rows by address.
    rows: BTreeMap<Address, Vec<CompactUnwindRow>>,
    /// Names of the personalities that may be used. If the list is empty, any personality may be used.
    wanted: &'p [String],
    plan: Plan,
}

impl Plan {
    /// Decides for every function of an object. `wanted` has the names of the personalities that rows may have. If it
    /// is empty, rows may have any personality.
    pub fn for_object(
        file: &File<'_>,
        editor: &CompactUnwindEditor<'_, '_>,
        wanted: &[String],
    ) -> anyhow::Result<Self> {
        let compact = source::rows(file)?;
        let mut planner = Planner { editor, rows: BTreeMap::new(), wanted, plan: Self::default() };
        for row in compact.iter().flat_map(|compact| &compact.rows) {
            planner.rows.entry(row.function).or_default().push(*row);
        }
        planner.plan.personalities = personalities(file, compact.as_ref());
        let code_sections = file.code_sections()?;
        let code = Code::new(code_sections.iter().map(|section| (section.address, &section.bytes[..])));
        let sections = file.call_frame_sections()?;
        let mut encoder = CompactEncoder::new(file.arch(), code)?;
        for section in &sections {
            let planned = planner.section(file, section, &mut encoder);
            planned.with_context(|| format!("section {}", section.section.name))?;
        }
        Ok(planner.plan)
    }

    /// Returns the number of functions that get a compact encoding.
    pub fn gained(&self) -> u64 {
        self.edits.len().to_u64()
    }

    /// Returns the number of rows that are added.
    pub fn added(&self) -> u64 {
        self.edits.iter().filter(|edit| edit.row.is_none()).count().to_u64()
    }

    /// Adds the counts of another object.
    pub fn absorb(&mut self, other: Self) {
        self.functions += other.functions;
        self.compact += other.compact;
        self.edits.extend(other.edits);
        self.fde_bytes += other.fde_bytes;
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self.personalities.extend(other.personalities);
    }
}

/// Returns the names of the personalities of compact rows.
fn personalities(file: &File<'_>, compact: Option<&CompactUnwind<'_>>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Some(compact) = compact else { return names };
    for row in &compact.rows {
        let field = SectionOffset(row.offset.0 + Row::personality_at(file.arch().pointer_size()));
        if row.encoding.mode(file.arch()) != Some(Mode::Dwarf)
            && let Some(referent) = compact.referent(field)
        {
            names.insert(referent.name.clone().into_owned());
        }
    }
    names
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
        let mut starts = HashMap::new();
        for function in functions.iter().flatten() {
            *starts.entry(function.key.address()).or_insert(0_u64) += 1;
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
            if starts.get(&function.key.address()).is_some_and(|count| *count > 1) {
                self.keep("several-fdes");
                continue;
            }
            match self.function(file, &function, &relocations, encoder) {
                Ok(Some(edit)) => {
                    self.plan.edits.push(edit);
                    self.plan.fde_bytes += fde_len(&section.section.bytes, &function);
                }
                Ok(None) => self.plan.compact += 1,
                Err(reason) => self.keep(reason),
            }
        }
        Ok(())
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
        let row = self.row(file, function)?;
        if row.is_some_and(|row| row.encoding.mode(file.arch()) != Some(Mode::Dwarf)) {
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
        let personality = self.personality(function, relocations)?;
        let row = row.map(|row| row.offset);
        Ok(Some(CompactUnwindEdit { row, function: start, length, encoding, personality, lsda }))
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
        match rows[..] {
            [] => Ok(None),
            [row] if row.encoding == Encoding::NONE => Err("row-without-unwind-information"),
            [row] if row.encoding.mode(file.arch()) != Some(Mode::Dwarf) => Ok(Some(*row)),
            [row] if row.function == start && u64::from(row.length) == function.size => Ok(Some(*row)),
            [_] => Err("row-of-another-range"),
            _ => Err("several-rows"),
        }
    }

    /// Returns the symbol of a function's personality, and adds its name to the plan's personalities.
    fn personality(
        &mut self,
        function: &Function<'_>,
        relocations: &HashMap<u64, Relocation>,
    ) -> Result<Option<usize>, &'static str> {
        let Some(personality) = function.cie.personality else { return Ok(None) };
        let relocation = relocations.get(&personality.field.0.to_u64());
        let symbol =
            relocation.and_then(|relocation| relocation.symbol).ok_or("personality-without-symbol")?;
        let name = self.editor.symbol_name(symbol).ok_or("personality-without-symbol")?;
        if !self.wanted.is_empty() && !self.wanted.iter().any(|wanted| *wanted == name) {
            return Err("other-personality");
        }
        let known = &mut self.plan.personalities;
        if !known.contains(&*name) && known.len() >= MAX_PERSONALITIES {
            return Err("fourth-personality");
        }
        known.insert(name.into_owned());
        Ok(Some(symbol))
    }
}

/// Returns the size of an FDE with its length field, or 0 for 64-bit DWARF, because no compiler writes that here.
fn fde_len(section: &[u8], function: &Function<'_>) -> u64 {
    let length = section.get(function.fde.0..).and_then(|record| record.first_chunk());
    let length = length.map(|length| u32::from_le_bytes(*length)).filter(|length| *length != u32::MAX);
    length.map_or(0, |length| 4 + u64::from(length))
}
