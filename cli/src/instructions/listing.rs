//! Lists a function's instructions beside its rows, with marks where they disagree, and draws the frame at one of them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cfipack_cfi::Function;
use cfipack_code::{Analysis, Code, Disassembler, FullRow, Instruction, Instructions, State, Ways, name};
use cfipack_container::{CallFrameSection, File};
use cfipack_decoder::sframe::Section;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Cfa, CfaWords, Row, RuleWords};
use cfipack_lint::{FileMemory, lint_function};
use cfipack_roundtrip::same_row;
use cfipack_roundtrip::words::Words;
use serde::Serialize;

use super::frame::Frame;
use super::marks::{self, Mark, TABLE};
use super::rows::{self, RulesWords, TableRows};
use super::with_target;
use crate::report::count::Number;
use crate::report::escaped::Escaped;
use crate::report::place::Places;
use crate::report::row::RowJson;
use crate::report::style;

/// The listing of a function.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listing {
    /// The instructions in order.
    instructions: Vec<Line>,
    /// The number of instructions that have marks.
    marked: u64,
    /// The frame before the instruction at ADDRESS. Null if the CFI has no row there.
    frame: Option<Frame>,
    /// Descriptions of the parts of the function that the listing lacks.
    notes: Vec<String>,
    #[serde(skip)]
    arch: Arch,
}

/// An instruction with the rows in force before it.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Line {
    pc: String,
    bytes: String,
    /// Null if the architecture has no disassembler.
    text: Option<String>,
    /// True for the instruction that contains ADDRESS.
    here: bool,
    /// True if the row starts at this instruction.
    changed: bool,
    row: Option<LineRow>,
    /// The row of the file's own table, or null if the table has no row here. Absent if the file has no table.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<Option<RowJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table_differs: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<Mark>,
    #[serde(skip)]
    cells: Option<Cells>,
}

/// A row of the CFI.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LineRow {
    #[serde(flatten)]
    row: RowJson,
    /// The rules of other saved registers, by name.
    saved: BTreeMap<String, String>,
}

/// The columns of the row: the text, and true if the text differs from the row of the instruction before.
#[derive(Debug)]
struct Cells {
    cfa: (String, bool),
    rules: (String, bool),
}

/// Code beyond this many bytes of a function is not disassembled.
const MAX_CODE: u64 = 1 << 20;

/// At most this many instructions are listed, around the instruction at ADDRESS. A listed instruction takes about a
/// kilobyte of memory.
const MAX_LINES: usize = 1 << 14;

impl Listing {
    /// Lists a function. Returns `None` if the file does not have its code.
    pub fn new(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        function: &Function<'_>,
        tables: &[Section<'_>],
        address: Address,
        places: &Places<'_, '_>,
    ) -> anyhow::Result<Option<Self>> {
        let (start, arch) = (function.key.address(), file.arch());
        let memory = FileMemory::new(file)?;
        let Some((bytes, relocated)) = memory.code(start, function.size.min(MAX_CODE)) else {
            return Ok(None);
        };
        let code = Code { arch, start, bytes, relocated: &relocated };
        let instructions = Instructions::new(&code);
        let (rows, failed) = rows::of_cfi(function);
        let around = address.0.checked_sub(start.0).and_then(|offset| u32::try_from(offset).ok());
        let here = around.and_then(|offset| instructions.index_around(offset));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut marks = marks::by_instruction(lint_function(file, sections, threads, start)?);
        let mut table_rows = TableRows::new(tables);
        let mut disassembler = Disassembler::new();
        let (mut lines, mut last, mut before) = (Vec::new(), None, None);
        let row_at = |offset| rows.get(rows.index_at(offset)?);
        let first = here.unwrap_or(0).saturating_sub(MAX_LINES / 2);
        for (index, instruction) in instructions.iter_from(first).take(MAX_LINES).enumerate() {
            let index = first + index;
            let is_known = failed.as_ref().is_none_or(|failed| u64::from(instruction.offset) < failed.offset);
            let row = row_at(instruction.offset).filter(|_| is_known);
            let pc = start.offset(instruction.offset.into());
            let table = (!tables.is_empty()).then(|| table_rows.at(pc));
            let text = with_target(disassembler.text(&code, instruction.offset), places);
            let mut line = Line::new(&code, &instruction, text, row, places.offset(pc).to_string());
            line.here = here == Some(index);
            line.marks = marks.remove(&pc).unwrap_or_default();
            line.compare(arch, row, table, &mut last);
            line.cells = row.map(|row| Cells::new(arch, row, before));
            before = row_at(instruction.offset);
            lines.push(line);
        }
        let frame = here.and_then(|index| {
            let offset = instructions.offset(index);
            let row = row_at(offset)?;
            let pc = places.offset(start.offset(offset.into())).to_string();
            Some(Frame::new(arch, pc, row, state_at(&memory, code, &instructions, index).as_ref()))
        });
        let mut notes = Vec::new();
        if let Some(failed) = failed {
            notes.push(format!("the CFI cannot be read from +{:#x} on: {}", failed.offset, failed.reason));
        }
        if lines.len() < instructions.len() {
            notes.push(format!("only {} of the {} instructions are listed", lines.len(), instructions.len()));
        }
        if function.size > MAX_CODE {
            notes.push(format!("only the first {MAX_CODE} bytes are disassembled"));
        }
        let marked = lines.iter().filter(|line| !line.marks.is_empty()).count().to_u64();
        Ok(Some(Self { instructions: lines, marked, frame, notes, arch }))
    }

    /// Prints the listing as text.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let highlighted = |text: &str, style, is_special| {
            if is_special { style::on(&io::stdout(), style, text) } else { text.to_owned() }
        };
        let text = |line: &Line| line.text.as_ref().map_or(line.bytes.len(), |text| text.chars().count());
        // A few very long instructions may be wider than the column.
        let width = self.instructions.iter().map(text).max().unwrap_or(0).clamp(12, 44);
        let pcs = self.instructions.iter().map(|line| line.pc.len()).max().unwrap_or(0);
        let cfas = self.instructions.iter().filter_map(|line| Some(line.cells.as_ref()?.cfa.0.len()));
        let cfas = cfas.max().unwrap_or(0).max(3);
        let head = format!("{:pcs$}   {:width$}   {:cfas$}  registers at CFA", "", "", "CFA");
        writeln!(out, "   {}", head.trim_end())?;
        for line in &self.instructions {
            let here = if line.here { '>' } else { ' ' };
            let changed = if line.changed { '*' } else { ' ' };
            let text = line.text.as_ref().unwrap_or(&line.bytes);
            write!(out, "{here}  {:>pcs$}  {:width$} {changed} ", line.pc, Escaped(text).to_string())?;
            if let Some(Cells { cfa, rules }) = &line.cells {
                write!(out, "{}", highlighted(&cfa.0, style::BOLD, cfa.1))?;
                if !rules.0.is_empty() {
                    write!(out, "{:1$}", "", cfas - cfa.0.len() + 2)?;
                    write!(out, "{}", highlighted(&rules.0, style::BOLD, rules.1))?;
                }
            } else {
                write!(out, "no row")?;
            }
            writeln!(out)?;
            for mark in &line.marks {
                writeln!(out, "   {}", highlighted(&format!("! {}", mark.words), style::RED, true))?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(out, "  {note}"))?;
        if self.marked != 0 {
            writeln!(out, "  {} with disagreements", Number(self.marked, "instruction"))?;
        }
        match &self.frame {
            Some(frame) => frame.draw(out, self.arch.pointer_size().into()),
            None => Ok(()),
        }
    }
}

/// Returns the state before an instruction, or `None` if no path leads to it.
fn state_at(
    memory: &FileMemory<'_>,
    code: Code<'_>,
    instructions: &Instructions,
    wanted: usize,
) -> Option<State> {
    let entry = State::at_entry(code.arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
    let mut found = None;
    Analysis::new(code, instructions, memory, ways).for_each(|index, _, state| {
        if index == wanted {
            found = state.cloned();
        }
    });
    found
}

impl Line {
    fn new(
        code: &Code<'_>,
        instruction: &Instruction,
        text: String,
        row: Option<FullRow<'_>>,
        pc: String,
    ) -> Self {
        let start = instruction.offset.to_usize();
        let bytes = &code.bytes[start..start + usize::from(instruction.len)];
        let text = Some(text).filter(|text| !text.is_empty());
        Self {
            pc,
            bytes: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            text,
            changed: row.is_some_and(|row| row.row.start.0 == instruction.offset),
            ..Self::default()
        }
    }

    /// Adds the rows of the CFI and of the file's table, with a mark if they differ. `last` is the difference at the
    /// instruction before: the same difference gets no second mark.
    fn compare(
        &mut self,
        arch: Arch,
        row: Option<FullRow<'_>>,
        table: Option<Option<Row>>,
        last: &mut Option<String>,
    ) {
        self.row = row.map(|row| LineRow {
            row: RowJson::new(arch, &row.row),
            saved: row
                .saved
                .iter()
                .map(|(register, rule)| (name(arch, *register), RuleWords(arch, *rule).to_string()))
                .collect(),
        });
        let Some(table) = table else { return };
        let differs = match (row, table) {
            // A PLT has this expression. `verify` evaluates it, and the listing does not.
            (Some(row), Some(_)) if row.row.cfa == Cfa::Expression => false,
            (Some(row), Some(table)) => !same_row(&row.row, &table, arch),
            (None, None) => false,
            _ => true,
        };
        self.table = Some(table.map(|row| RowJson::new(arch, &row)));
        self.table_differs = Some(differs);
        let words = differs.then(|| match table {
            Some(table) => format!("the table differs: {}", Words(arch, table)),
            None => "the table has no row".to_string(),
        });
        if words != *last
            && let Some(words) = &words
        {
            self.marks.push(Mark { kind: TABLE, words: words.clone() });
        }
        *last = words;
    }
}

impl Cells {
    fn new(arch: Arch, row: FullRow<'_>, before: Option<FullRow<'_>>) -> Self {
        let words =
            |row: FullRow<'_>| (CfaWords(arch, row.row.cfa).to_string(), RulesWords(arch, row).to_string());
        let (cfa, rules) = words(row);
        let (cfa_changed, rules_changed) = match before.map(words) {
            Some(before) => (before.0 != cfa, before.1 != rules),
            None => (false, false),
        };
        Self { cfa: (cfa, cfa_changed), rules: (rules, rules_changed) }
    }
}
