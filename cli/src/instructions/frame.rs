//! Draws the stack frame at an instruction as a small diagram.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cfipack_code::{FullRow, State, Value, name as name_of};
use cfipack_format::{Arch, Cfa, CfaWords, Register, Rule, RuleWords};
use serde::Serialize;

/// The stack frame before an instruction: where its registers are.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Frame {
    /// The place of the instruction.
    pub pc: String,
    /// The rule of the CFA.
    pub cfa: String,
    /// The registers that are stored in the frame, from the highest address to the lowest.
    pub slots: Vec<Slot>,
    /// The registers that point into the frame, if their values are known: the distance of each from the CFA in bytes.
    pub pointers: BTreeMap<String, i64>,
    /// The registers that are not in the frame, each with its rule in words.
    pub elsewhere: BTreeMap<String, String>,
}

/// A register that is stored in the frame.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slot {
    /// The distance from the CFA in bytes.
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
            let is_return_address = register == arch.return_address();
            let name = if is_return_address { "return address".to_string() } else { name_of(arch, register) };
            match rule {
                Rule::Cfa(offset) => slots.push(Slot { offset, register: name }),
                rule => _ = elsewhere.insert(name, RuleWords(arch, rule).to_string()),
            }
        }
        let stack = arch.stack_pointer();
        // The row gives the place of the CFA's register, and the state of the code gives the places of other registers.
        let base = match row.row.cfa {
            Cfa::Register { register, offset } => Some((register, -offset)),
            _ => None,
        };
        let place = |register: Register| -> Option<i64> {
            if let Some((base, place)) = base
                && base == register
            {
                return Some(place);
            }
            match state?.get(arch, register) {
                Value::Cfa(place) => Some(i64::from(place)),
                _ => None,
            }
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

    /// Draws the frame, with higher addresses first.
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
            let size = if registers.is_empty() { 0 } else { pointer_size };
            let gap = end.map_or(0, |end| end - place - size);
            if gap > 0 {
                writeln!(out, "  {:>10} | {:width$} |", "", format!("({gap} bytes)"))?;
            }
            let arrow =
                if pointers.is_empty() { String::new() } else { format!("  <- {}", pointers.join(", ")) };
            let label = if *place == 0 { "CFA".to_string() } else { format!("CFA{place:+}") };
            // Draw a box for the registers at this place, from here to higher addresses. Without registers, draw only a
            // line.
            if registers.is_empty() {
                writeln!(out, "  {label:>10} {rule}{arrow}")?;
            } else {
                let registers = registers.join(", ");
                writeln!(out, "  {label:>10} | {registers:width$} |{arrow}")?;
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
