//! Finds the statement of each instruction of a function without the line table: from the function's label, each statement
//! makes the next instruction.

use std::ops::Range;

use cfipack_format::Address;

use super::places::{Place, Source};
use super::statements::{
    agrees, called_macro, data_len, is_alignment, is_directive, makes_bytes, makes_other_statements,
    preprocessor,
};

/// The places of the instructions of a function.
pub struct Walk {
    /// The address of each instruction, ascending, and the place before it.
    places: Vec<(Address, Place)>,
    /// The place after the function's last instruction.
    pub end: Place,
}

impl Walk {
    /// Returns the place before the instruction at an address.
    pub fn place(&self, address: Address) -> Option<Place> {
        let index = self.places.binary_search_by_key(&address, |(at, _)| *at).ok()?;
        Some(self.places[index].1)
    }
}

impl Source<'_> {
    /// Goes over the statements from a function's label on, and over its instructions up to `last`.
    ///
    /// Each statement must have the name of the next instruction, or be data with the size of its instructions. Returns
    /// `None` if this is not so, for example because of a macro, a loop or a condition.
    pub fn walk(&self, function: &Range<Address>, name: &[u8], last: Address) -> Option<Walk> {
        let label = self.label(name)?;
        let section = self.sections.at(label.end);
        let first = self.lines.partition_point(|line| line.range.end < label.end);
        let mut instructions = self.instructions(&(function.start.0..function.end.0))?.into_iter().peekable();
        let mut places = Vec::new();
        for (number, line) in self.lines.iter().enumerate().skip(first) {
            if preprocessor(&self.text[line.range.clone()]).is_some() {
                return None;
            }
            for (index, statement) in line.statements.iter().enumerate() {
                let text = &self.text[statement.clone()];
                if statement.start < label.end || self.sections.at(statement.start) != section {
                    continue;
                }
                let leads = index == 0 && !line.starts_in_comment && !self.is_continued(number);
                let at = if leads { line.range.start } else { statement.start };
                let place = Place { at, line: number, is_inside: !leads };
                let len = data_len(self.arch, text);
                if is_alignment(text) {
                    while let Some(padding) = instructions.next_if(|one| one.is_padding) {
                        places.push((padding.address, place));
                    }
                    continue;
                }
                if is_directive(text) && len.is_none() {
                    if makes_bytes(text) || makes_other_statements(text) {
                        return None;
                    }
                    continue;
                }
                let own = instructions.next()?;
                if len.is_none()
                    && (self.macros.contains(called_macro(text)) || !agrees(self.arch, text, &own.mnemonic))
                {
                    return None;
                }
                let end = len.map(|len| own.address.offset(len));
                let mut reached = own.address;
                while let Some(more) = instructions.next_if(|one| end.is_some_and(|end| one.address < end)) {
                    reached = more.address;
                }
                if end.is_some_and(|end| instructions.peek().is_some_and(|next| next.address != end)) {
                    return None;
                }
                places.push((own.address, place));
                if reached == last {
                    let next = line.statements.get(index + 1);
                    let end = match next {
                        Some(next) => Place { at: next.start, line: number, is_inside: true },
                        None => self.after(number).ok()?,
                    };
                    return Some(Walk { places, end });
                }
            }
        }
        None
    }
}
