//! The rows of a function: the rows of its CFI with every saved register, and the rows of the file's table.

use std::fmt;

use cfipack_cfi::{Change, Function, Interpreter, Registers, RowSink, State};
use cfipack_code::{FullRow, Rows, name};
use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch, FunctionOffset, Reason, Register, Row, Rule, Unsupported};
use cfipack_roundtrip::words::RuleWords;

/// Rows after this many of a function are not shown.
const MAX_ROWS: usize = 1 << 16;

/// All registers that have names and that CFI saves have lower numbers, on every architecture.
const REGISTERS: usize = 96;

/// Returns the rows of a function's CFI. If the rows end early, returns the reason too.
pub fn of_cfi(function: &Function<'_>) -> (Rows, Option<Unsupported>) {
    let mut rows = Sink(Rows::new());
    let result = Interpreter::<All>::new().run(function, &mut rows);
    (rows.0, result.err())
}

struct Sink(Rows);

impl<'a> RowSink<'a, All> for Sink {
    fn row(&mut self, state: &State<'a, All>, _: Change) -> Result<(), Reason> {
        if self.0.len() < MAX_ROWS {
            let rules = state.registers.0.iter().enumerate();
            let saved = rules.filter(|(_, rule)| **rule != Rule::SameValue);
            let saved: Vec<_> = saved.map(|(number, rule)| (Register(number as u16), *rule)).collect();
            self.0.push(state.row, &saved);
        }
        Ok(())
    }
}

/// The rules of all registers with names.
#[derive(Clone, Copy)]
struct All([Rule; REGISTERS]);

impl Registers for All {
    fn at_entry(_: Arch) -> Self {
        Self([Rule::SameValue; REGISTERS])
    }

    fn set(&mut self, register: Register, rule: Rule) -> bool {
        self.0.get_mut(usize::from(register.0)).map(|own| *own = rule).is_some()
    }

    fn ignored(&self, _: Arch) -> u64 {
        0
    }

    fn restore(&mut self, register: Register, initial: &Self) -> bool {
        let rule = initial.0.get(usize::from(register.0));
        rule.is_some_and(|rule| self.set(register, *rule))
    }
}

/// Finds rows in a file's tables; consecutive PCs of a function cost little.
pub struct TableRows<'t, 's> {
    tables: &'t [Section<'s>],
    /// The function that was found last: its start, size and repetition, and its rows.
    last: Option<(Address, u32, Option<u32>, Vec<Row>)>,
}

impl<'t, 's> TableRows<'t, 's> {
    pub fn new(tables: &'t [Section<'s>]) -> Self {
        Self { tables, last: None }
    }

    /// Returns the row for a PC, or `None` if there is none or it cannot be read.
    pub fn at(&mut self, pc: Address) -> Option<Row> {
        let offset = |start: Address| u32::try_from(pc.0.checked_sub(start.0)?).ok();
        let is_in = |start, size| offset(start).is_some_and(|offset| offset < size);
        if !self.last.as_ref().is_some_and(|last| is_in(last.0, last.1)) {
            let found = self.tables.iter().find_map(|table| table.find(pc).ok().flatten())?;
            let repeats = found.is_pc_mask().then(|| u32::from(found.rep_size()).max(1));
            let rows = found.rows().map_while(Result::ok).collect();
            self.last = Some((found.start(), found.size(), repeats, rows));
        }
        let (start, _, repeats, rows) = self.last.as_ref()?;
        let offset = offset(*start)?;
        let offset = repeats.map_or(offset, |size| offset % size);
        let after = rows.partition_point(|row| row.start <= FunctionOffset(offset));
        rows.get(after.checked_sub(1)?).copied()
    }
}

/// The rules of a row in few characters: `ra-8 rbp-16`, with `+` or `-` for a place at the CFA plus that.
pub struct RulesWords<'r>(pub Arch, pub FullRow<'r>);

impl fmt::Display for RulesWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(arch, row) = *self;
        for (index, (register, rule)) in row.rules(arch).enumerate() {
            let space = if index == 0 { "" } else { " " };
            match rule {
                Rule::Cfa(offset) => write!(f, "{space}{}@{offset:+}", name(arch, register))?,
                Rule::Undefined => write!(f, "{space}{}=undefined", name(arch, register))?,
                rule => write!(f, "{space}{}({})", name(arch, register), RuleWords(arch, rule))?,
            }
        }
        if row.row.signed { f.write_str(" (signed)") } else { Ok(()) }
    }
}
