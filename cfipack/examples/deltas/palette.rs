//! The palette: each rule of all files once.

use std::collections::HashMap;

use cfipack::decoder::sframe::Frame;
use cfipack::format::{self, Cfa};

/// Describes how to find the caller of a frame. An eBPF program has this for each number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rule {
    pub cfa: Cfa,
    pub return_address: format::Rule,
    pub frame_pointer: format::Rule,
    /// AArch64: true if the return address has a signature, which you have to remove.
    pub signed: bool,
    /// True if a signal interrupted the caller: its PC is an instruction that has not run yet.
    pub is_signal_frame: bool,
}

/// The rules by number. Number 0 is for addresses without a row.
pub struct Palette {
    rules: Vec<Option<Rule>>,
    numbers: HashMap<Rule, u16>,
}

impl Rule {
    pub fn of_frame(frame: &Frame) -> Self {
        let Frame { row, is_signal_frame, .. } = *frame;
        Self::of_row(&row, is_signal_frame)
    }

    pub fn of_row(row: &format::Row, is_signal_frame: bool) -> Self {
        let format::Row { cfa, return_address, frame_pointer, signed, start: _ } = *row;
        Self { cfa, return_address, frame_pointer, signed, is_signal_frame }
    }
}

impl Palette {
    pub const NO_ROW: u16 = 0;

    pub fn new() -> Self {
        Self { rules: vec![None], numbers: HashMap::new() }
    }

    /// Returns the number of a rule, or an error after 65535 rules. A new rule gets the next number.
    pub fn number(&mut self, rule: Rule) -> Result<u16, String> {
        if let Some(number) = self.numbers.get(&rule) {
            return Ok(*number);
        }
        let number = u16::try_from(self.rules.len()).map_err(|_| "more than 65535 rules".to_string())?;
        self.rules.push(Some(rule));
        self.numbers.insert(rule, number);
        Ok(number)
    }

    pub fn rule(&self, number: u16) -> Option<Rule> {
        self.rules[usize::from(number)]
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }
}
