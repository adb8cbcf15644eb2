//! The stack frame at an instruction as a small diagram.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cfipack_code::{CfaWords, FullRow, State, Value, name as name_of};
use cfipack_format::{Arch, Cfa, Register, Rule};
use serde::Serialize;

/// The places of a frame's parts.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Frame {
    /// The instruction before which it is so.
    pub pc: String,
    /// The CFA's rule.
    pub cfa: String,
    /// Registers that are stored, from the highest address to the lowest.
    pub slots: Vec<Slot>,
    /// Registers that point into the frame, in bytes from the CFA; the stack pointer only where it is known.
    pub pointers: BTreeMap<String, i64>,
    /// Registers that are not in the frame: by their rules.
    pub elsewhere: BTreeMap<String, String>,
}

/// A stored register.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slot {
    /// Bytes from the CFA.
    pub offset: i64,
    /// The register, or `return address`.
    pub register: String,
}

impl Frame {
    /// Creates the frame that a row describes. `state` is the analysis's state at the instruction, if it is known.
    pub fn new(arch: Arch, pc: String, row: FullRow<'_>, state: Option<&State>) -> Self {
        let mut slots = Vec::new();
        let mut elsewhere = BTreeMap::new();
        if row.row.return_address == Rule::SameValue && arch.pushed_by_call() == 0 {
            elsewhere
                .insert("return address".to_string(), format!("= {}", name_of(arch, arch.return_address())));
        }
        for (register, rule) in row.rules(arch) {
            let name = match register == arch.return_address() {
                true => "return address".to_string(),
                false => name_of(arch, register),
            };
            match rule {
                Rule::Cfa(offset) => slots.push(Slot { offset, register: name }),
                rule => {
                    let words = cfipack_roundtrip::words::RuleWords(arch, rule).to_string();
                    elsewhere.insert(name, words);
                }
            }
        }
        let stack = arch.stack_pointer();
        // The register that the row counts from. For other registers, the values that the code gives.
        let base = match row.row.cfa {
            Cfa::Register { register, offset } => Some((register, -offset)),
            _ => None,
        };
        let place = |register: Register| match state.map(|state| state.get(arch, register)) {
            _ if base.is_some_and(|base| base.0 == register) => base.map(|base| base.1),
            Some(Value::Cfa(place)) => Some(i64::from(place)),
            _ => None,
        };
        if place(stack).is_none() {
            elsewhere.insert(name_of(arch, stack), "is not known from the code and the CFI".to_string());
        }
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.offset));
        let registers = [arch.stack_pointer(), arch.frame_pointer()].into_iter();
        let all = registers.chain(base.map(|base| base.0));
        let pointers = all.filter_map(|register| Some((name_of(arch, register), place(register)?))).collect();
        Self { pc, cfa: CfaWords(arch, row.row.cfa).to_string(), slots, pointers, elsewhere }
    }

    /// Draws it, higher addresses first.
    pub fn draw(&self, out: &mut dyn Write, pointer_size: i64) -> io::Result<()> {
        writeln!(out, "frame before {}:", self.pc)?;
        // The registers stored at each place, and the pointers to it.
        let mut places = BTreeMap::<i64, (Vec<&str>, Vec<String>)>::new();
        places.entry(0).or_default().1.push(format!("CFA = {}", self.cfa));
        for slot in &self.slots {
            places.entry(slot.offset).or_default().0.push(&slot.register);
        }
        for (register, place) in &self.pointers {
            places.entry(*place).or_default().1.push(register.clone());
        }
        let width = self.slots.iter().map(|slot| slot.register.len()).max().unwrap_or(0).max(16);
        let rule = format!("+{:-<1$}+", "", width + 2);
        let mut end: Option<i64> = None;
        for (place, (registers, pointers)) in places.iter().rev() {
            if let Some(gap) =
                end.map(|end| end - place - if registers.is_empty() { 0 } else { pointer_size })
                && gap > 0
            {
                writeln!(out, "  {:>10} | {:width$} |", "", format!("({gap} bytes)"))?;
            }
            let arrow = match pointers.is_empty() {
                true => String::new(),
                false => format!("  <- {}", pointers.join(", ")),
            };
            let label = if *place == 0 { "CFA".to_string() } else { format!("CFA{place:+}") };
            // Draw a box for the registers at this place, from here to higher addresses. Without registers, draw only a
            // line.
            match registers.is_empty() {
                true => writeln!(out, "  {label:>10} {rule}{arrow}")?,
                false => {
                    let registers = registers.join(", ");
                    writeln!(out, "  {label:>10} | {registers:width$} |{arrow}")?;
                }
            }
            end = Some(*place);
        }
        let has_line = places.first_key_value().is_some_and(|(_, (registers, _))| registers.is_empty());
        if !has_line {
            writeln!(out, "  {:>10} {rule}", "")?;
        }
        self.elsewhere.iter().try_for_each(|(register, rule)| writeln!(out, "  {:>10} {register} {rule}", ""))
    }
}
