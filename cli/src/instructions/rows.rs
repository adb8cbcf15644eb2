//! The rows of a function: the rows of its CFI with every saved register, and the rows of the file's table.

use std::fmt;

use cfipack_cfi::{Change, Function, Interpreter, Registers, RowSink, State};
use cfipack_code::{FullRow, Rows, name};
use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch, FunctionOffset, Reason, Register, Row, Rule, RuleWords, Unsupported};

/// A listing shows at most this many rows of a function.
const MAX_ROWS: usize = 1 << 16;

/// On every architecture, registers that have names and that CFI saves have numbers below this.
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

/// Finds rows in a file's tables. It keeps the rows of one function, so that consecutive PCs cost little.
pub struct TableRows<'t, 's> {
    tables: &'t [Section<'s>],
    /// The last function: its start and size, the size of a PLT's stub after which its rows repeat, and its rows.
    last: Option<(Address, u32, Option<u32>, Vec<Row>)>,
}

impl<'t, 's> TableRows<'t, 's> {
    pub fn new(tables: &'t [Section<'s>]) -> Self {
        Self { tables, last: None }
    }

    /// Returns the row for a PC, or `None` if there is none or it cannot be read.
    pub fn at(&mut self, pc: Address) -> Option<Row> {
        let offset = |start: Address| u32::try_from(pc.0.checked_sub(start.0)?).ok();
        let last = self.last.as_ref();
        let is_in = last.is_some_and(|(start, size, ..)| offset(*start).is_some_and(|offset| offset < *size));
        if !is_in {
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

/// Prints the rules of a row in few characters. For example, `ra@-8`: the return address is stored at CFA-8.
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
