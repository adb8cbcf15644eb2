//! Reads `llvm-dwarfdump --eh-frame`, which prints `.debug_frame` too, with the rows below each FDE.
//!
//! It prints no rows of an FDE that it cannot interpret, and no record at all if one has an unknown augmentation. It
//! prints one thing wrongly: it keeps the CFA's offset in 32 bits ([`compare`](super::compare)).

use cfipack_format::{Arch, Cfa, Rule};

use super::{Column, Fde, Fdes, Printed, hexadecimal, registers, signed};

/// Parses the output. Returns the sections with their names, in order. If several have one name, the tool prints one of
/// them.
pub fn parse(text: &str, arch: Arch) -> Vec<(String, Fdes)> {
    let mut sections: Vec<(String, Fdes)> = Vec::new();
    let mut present = None;
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(" contents:") {
            sections.push((name.to_owned(), Fdes::new()));
            present = None;
            continue;
        }
        let Some((_, fdes)) = sections.last_mut() else { continue };
        if let Some((head, about)) = line.split_once(" FDE cie=") {
            let offset = head.split(' ').next().and_then(hexadecimal).expect("an offset");
            let start =
                about.split_once("pc=").and_then(|(_, range)| hexadecimal(range.split_once("...")?.0));
            fdes.insert(offset, Fde { start: start.expect("a range of PCs"), rows: Vec::new() });
            present = Some(offset);
        } else if line.contains(" CIE") && !line.starts_with(' ') {
            present = None;
        } else if let Some(fde) = present.and_then(|offset| fdes.get_mut(&offset))
            && let Some((loc, rest)) = line.strip_prefix("  0x").and_then(|row| row.split_once(": CFA="))
        {
            let at = hexadecimal(loc).expect("an address").wrapping_sub(fde.start);
            fde.rows.push(row(at, rest, arch));
        }
    }
    for (_, fdes) in &mut sections {
        fdes.retain(|_, fde| !fde.rows.is_empty());
    }
    sections
}

fn row(at: u64, text: &str, arch: Arch) -> Printed {
    let (cfa, registers) = text.split_once(": ").unwrap_or((text, ""));
    // A register that is not mentioned has the ABI's rule. x86's call pushes the return address.
    let pushed = if arch == Arch::Amd64 { Rule::Cfa(-8) } else { Rule::SameValue };
    let mut row = Printed {
        at,
        cfa: self::cfa(cfa, arch),
        return_address: Column::Is(pushed),
        frame_pointer: Column::Is(Rule::SameValue),
        signed: Some(false),
        narrow: true,
    };
    for (name, value) in cells(registers) {
        let register = registers::number(arch, name);
        if register == Some(arch.return_address()) {
            row.return_address = rule(&value, arch);
        } else if register == Some(arch.frame_pointer()) {
            row.frame_pointer = rule(&value, arch);
        } else if arch.is_aarch64() && name == "reg34" {
            row.signed = Some(value == "1");
        }
    }
    row
}

/// Splits `RBP=[CFA-16], RIP=[DW_OP_breg7 RSP+8, DW_OP_deref]` into names and values.
fn cells(text: &str) -> Vec<(&str, String)> {
    let mut cells: Vec<(&str, String)> = Vec::new();
    for part in text.split(", ") {
        match part.split_once('=') {
            Some((name, value)) => cells.push((name, value.to_owned())),
            None => {
                if let Some((_, value)) = cells.last_mut() {
                    *value += ", ";
                    *value += part;
                }
            }
        }
    }
    cells
}

fn cfa(text: &str, arch: Arch) -> Column<Cfa> {
    if text.starts_with("DW_OP") {
        return Column::Expression(text.to_owned());
    }
    if text == "unspecified" {
        return Column::Unset;
    }
    let (name, offset) = sum(text);
    let register = registers::number(arch, name);
    // No table can represent this register.
    register.map_or(Column::Hidden, |register| Column::Is(Cfa::Register { register, offset }))
}

fn rule(text: &str, arch: Arch) -> Column<Rule> {
    let (text, is_stored) = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(inner) => (inner, true),
        None => (text, false),
    };
    if text.starts_with("DW_OP") {
        let text = text.to_owned();
        return if is_stored { Column::Expression(text) } else { Column::Value(text) };
    }
    let (name, offset) = sum(text);
    Column::Is(match (name, is_stored) {
        ("undefined", _) => Rule::Undefined,
        ("same", _) => Rule::SameValue,
        ("CFA", true) => Rule::Cfa(offset),
        ("CFA", false) => Rule::ValCfa(offset),
        _ => match (registers::number(arch, name), is_stored) {
            (Some(register), false) => Rule::Register { register, offset },
            (Some(register), true) => Rule::Memory { register, offset },
            (None, _) => return Column::Hidden,
        },
    })
}

/// Splits `RSP+8`.
fn sum(text: &str) -> (&str, i64) {
    let sign = text.rfind(['+', '-']).unwrap_or(text.len());
    (&text[..sign], signed(&text[sign..]).unwrap_or(0))
}
