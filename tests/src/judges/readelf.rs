//! Reads `readelf -wF`, which prints interpreted frames.
//!
//! These are the limits of its output:
//! - The expression that gives a CFA (`exp`) or a register (`exp`, `vexp`) is not printed.
//! - `u` stands for a register that is not mentioned, and for one that `DW_CFA_undefined` makes undefined.
//! - If there is no CFA, it prints register 0 plus 0.
//! - If all instructions of an FDE are `DW_CFA_nop`, it prints no rows: the CIE's rows apply.
//!
//! In a 64-bit record of `.eh_frame`, it reads 8 instead of 4 bytes for the CIE pointer.

use std::collections::BTreeMap;

use cfipack_format::{Arch, Cfa, Register, Rule};

use super::{Column, Fde, Fdes, Printed, hexadecimal, registers, signed};

/// Parses the output. Returns the sections with their names, in order.
pub fn parse(text: &str, arch: Arch) -> Vec<(String, Fdes)> {
    let mut sections = Vec::new();
    let mut records = Records::default();
    for line in text.lines() {
        if let Some(name) =
            line.strip_prefix("Contents of the ").and_then(|rest| rest.strip_suffix(" section:"))
        {
            records = Records::default();
            sections.push((name.to_owned(), Fdes::new()));
            continue;
        }
        let Some((_, fdes)) = sections.last_mut() else { continue };
        records.line(line, arch, fdes);
    }
    for (_, fdes) in &mut sections {
        fdes.retain(|_, fde| !fde.rows.is_empty());
    }
    sections
}

/// The record to which the next rows belong.
#[derive(Default)]
struct Records {
    cies: BTreeMap<u64, Vec<Printed>>,
    /// Offset of the current CIE.
    cie: Option<u64>,
    /// Offset of the current FDE.
    fde: Option<u64>,
    /// True if the current FDE has rows of its own.
    has_rows: bool,
    /// Names of the columns after LOC and CFA.
    columns: Vec<String>,
}

impl Records {
    fn line(&mut self, line: &str, arch: Arch, fdes: &mut Fdes) {
        let mut tokens = line.split_ascii_whitespace();
        let (Some(first), second) = (tokens.next(), tokens.next()) else { return };
        if first == "LOC" {
            self.columns = tokens.map(str::to_owned).collect();
        } else if let Some((_, about)) = line.split_once(" FDE cie=") {
            let offset = hexadecimal(first);
            let cie = about.split_ascii_whitespace().next().and_then(hexadecimal);
            let start = about.split_once("pc=").and_then(|(_, range)| hexadecimal(range.split_once("..")?.0));
            let (Some(offset), Some(start)) = (offset, start) else { panic!("readelf: {line}") };
            let rows = cie.and_then(|cie| self.cies.get(&cie)).cloned().unwrap_or_default();
            fdes.insert(offset, Fde { start, rows });
            (self.cie, self.fde, self.has_rows) = (None, Some(offset), false);
        } else if line.contains(" CIE \"") {
            (self.cie, self.fde) = (hexadecimal(first), None);
            self.cies.insert(self.cie.expect("an offset"), Vec::new());
        } else if let (Some(loc), Some(cfa)) = (hexadecimal(first).filter(|_| first.len() == 16), second) {
            self.row(loc, cfa, tokens, arch, fdes);
        }
    }

    fn row<'t>(
        &mut self,
        loc: u64,
        cfa: &str,
        rest: impl Iterator<Item = &'t str>,
        arch: Arch,
        fdes: &mut Fdes,
    ) {
        let mut row = Printed {
            at: loc,
            cfa: self::cfa(cfa, arch),
            return_address: Column::Unset,
            frame_pointer: Column::Unset,
            signed: None,
            narrow: false,
        };
        // A register is followed by its name in brackets.
        let cells = rest.filter(|token| !token.starts_with('('));
        for (column, cell) in self.columns.iter().zip(cells) {
            if column == "ra" {
                row.return_address = rule(cell);
            } else if registers::number(arch, column) == Some(arch.frame_pointer()) {
                row.frame_pointer = rule(cell);
            }
        }
        if let Some(cie) = self.cie {
            self.cies.entry(cie).or_default().push(row);
        } else if let Some(fde) = self.fde.and_then(|fde| fdes.get_mut(&fde)) {
            // The first row of the FDE itself replaces the CIE's rows.
            if !std::mem::replace(&mut self.has_rows, true) {
                fde.rows.clear();
            }
            row.at = loc.wrapping_sub(fde.start);
            fde.rows.push(row);
        }
    }
}

fn cfa(cell: &str, arch: Arch) -> Column<Cfa> {
    if cell == "exp" {
        return Column::Hidden;
    }
    let parsed = cell.rfind(['+', '-']).and_then(|sign| {
        let register = registers::number(arch, &cell[..sign])?;
        Some(Cfa::Register { register, offset: signed(&cell[sign..])? })
    });
    match parsed {
        Some(Cfa::Register { register: Register(0), offset: 0 }) => Column::Unset,
        Some(cfa) => Column::Is(cfa),
        // No table can represent this register.
        None => Column::Hidden,
    }
}

fn rule(cell: &str) -> Column<Rule> {
    let number = || signed(&cell[1..]);
    match cell.as_bytes()[0] {
        b'c' => Column::Is(Rule::Cfa(number().expect(cell))),
        b'v' if cell != "vexp" => Column::Is(Rule::ValCfa(number().expect(cell))),
        b'r' => Column::Is(Rule::Register { register: Register(cell[1..].parse().expect(cell)), offset: 0 }),
        b's' => Column::Is(Rule::SameValue),
        b'u' => Column::Unset,
        _ => Column::Hidden,
    }
}
