//! The rows of one function: those of its CFI, with every register that is saved, and those of the file's table.

use std::fmt;
use std::rc::Rc;

use cfipack_cfi::{Change, Function, Interpreter, Registers, RowSink, State};
use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Reason, Register, Row, Rule, Unsupported};
use cfipack_roundtrip::words::{Name, RuleWords};

/// Rows after this many of a function are not shown.
const MAX_ROWS: usize = 1 << 16;

/// The registers that have names and that CFI saves: those of every architecture have lower numbers.
const REGISTERS: usize = 96;

/// A row of CFI.
#[derive(Clone, Debug)]
pub struct CfiRow {
    pub row: Row,
    /// The rules of registers beside the return address and the frame pointer, ascending.
    pub saved: Rc<[(Register, Rule)]>,
}

impl CfiRow {
    /// The rule of a register.
    pub fn rule(&self, arch: Arch, register: Register) -> Rule {
        if register == arch.frame_pointer() {
            return self.row.frame_pointer;
        }
        if register == arch.return_address() {
            return self.row.return_address;
        }
        let found = self.saved.iter().find(|(saved, _)| *saved == register);
        found.map_or(Rule::SameValue, |(_, rule)| *rule)
    }

    /// The return address, the frame pointer and the others, without those that have the same value.
    pub fn rules(&self, arch: Arch) -> impl Iterator<Item = (Register, Rule)> {
        let named = [
            (arch.return_address(), self.row.return_address),
            (arch.frame_pointer(), self.row.frame_pointer),
        ];
        named.into_iter().chain(self.saved.iter().copied()).filter(|(_, rule)| *rule != Rule::SameValue)
    }
}

/// The rows of a function's CFI, and why they end early.
pub fn of_cfi(function: &Function<'_>) -> (Vec<CfiRow>, Option<Unsupported>) {
    let mut rows = Rows(Vec::new());
    let result = Interpreter::<All>::new().run(function, &mut rows);
    (rows.0, result.err())
}

struct Rows(Vec<CfiRow>);

impl<'a> RowSink<'a, All> for Rows {
    fn row(&mut self, state: &State<'a, All>, _: Change) -> Result<(), Reason> {
        if self.0.len() < MAX_ROWS {
            let rules = state.registers.0.iter().enumerate();
            let saved = rules.filter(|(_, rule)| **rule != Rule::SameValue);
            let saved: Rc<[_]> = saved.map(|(number, rule)| (Register(number as u16), *rule)).collect();
            // Most rows change the CFA alone.
            let same = self.0.last().filter(|last| last.saved == saved).map(|last| Rc::clone(&last.saved));
            self.0.push(CfiRow { row: state.row, saved: same.unwrap_or(saved) });
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

/// The index of the row in force at an offset.
pub fn index_at(rows: &[CfiRow], offset: u32) -> Option<usize> {
    rows.partition_point(|row| row.row.start.0 <= offset).checked_sub(1)
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

    /// The row for a PC; what cannot be read is none.
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

/// A CFA in few characters: `rsp+16`.
pub struct CfaWords(pub Arch, pub Cfa);

impl fmt::Display for CfaWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Cfa::Undefined => f.write_str("undefined"),
            Cfa::Register { register, offset } => write!(f, "{}{offset:+}", Name(self.0, register)),
            Cfa::Memory { register, offset } => write!(f, "*({}{offset:+})", Name(self.0, register)),
            Cfa::Expression => f.write_str("expression"),
        }
    }
}

/// A register's name; the return address of x86 has none.
pub fn name(arch: Arch, register: Register) -> String {
    match arch.pushed_by_call() {
        1.. if register == arch.return_address() => "ra".to_string(),
        _ => Name(arch, register).to_string(),
    }
}

/// The rules of a row in few characters: `ra-8 rbp-16`, with `+` or `-` for a place at the CFA plus that.
pub struct RulesWords<'r>(pub Arch, pub &'r CfiRow);

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
