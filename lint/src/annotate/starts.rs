//! Finds the place where a function starts in a source.

use std::ops::Range;

use cfipack_format::Address;
use cfipack_format::widen::ToUsize;

use super::Omission;
use super::lines::name_of_label;
use super::places::{Place, Source};
use super::statements::{Preprocessor, data_len, is_alignment, is_directive, makes_bytes, preprocessor};

impl Source<'_> {
    /// Returns the place at the start of a function. `name` is the function's symbol.
    ///
    /// The line table does not mention instructions that are written as data, for example `endbr64` as `.byte`. If the
    /// function begins with data, its label is the place.
    ///
    /// # Errors
    /// The place is not certain.
    pub fn start(&self, function: &Range<Address>, name: &[u8]) -> Result<Place, Omission> {
        let next = self.code.partition_point(|line| line.addresses.start < function.start.0);
        if self.code.get(next).is_some_and(|line| line.addresses.start == function.start.0) {
            return self.place(function.start);
        }
        match self.after_label(function, name, next) {
            Some(place) => Ok(place),
            None => self.place(function.start),
        }
    }

    /// Returns the place after the label of a function whose first line in the line table is the piece `next`.
    ///
    /// Between the label and this line, the text must have no code but data. Data of known size must fill the distance.
    fn after_label(&self, function: &Range<Address>, name: &[u8], next: usize) -> Option<Place> {
        let piece = self.code.get(next).filter(|piece| piece.addresses.start < function.end.0)?;
        if !self.is_own[piece.file] || self.pieces.get(&piece.line) != Some(&1) {
            return None;
        }
        let last = self.line(next).ok()?;
        let before = self.pieces.range(..piece.line).next_back().map_or(0, |before| before.0.to_usize());
        let lines = self.lines.get(before..=last)?;
        let section = self.sections.at(self.lines[last].statements.first()?.start);
        let labels: Vec<_> = lines
            .iter()
            .flat_map(|line| &line.labels)
            .filter(|label| self.sections.at(label.end) == section)
            .map(|label| (name_of_label(&self.text[label.clone()]), label.end))
            .collect();
        // The preprocessor can give the function another name.
        let named = labels.iter().rfind(|label| label.0 == name);
        let only = || {
            let mut global = labels.iter().filter(|label| !is_local(label.0));
            global.next().filter(|_| global.next().is_none())
        };
        let label = named.or_else(only)?.1;
        let first = self.lines.partition_point(|line| line.range.end < label);
        let (mut size, mut is_known) = (0, true);
        for line in &self.lines[first..=last] {
            if line.starts_in_comment {
                return None;
            }
            if let Some(directive) = preprocessor(&self.text[line.range.clone()]) {
                is_known &= directive == Preprocessor::Other;
            }
            for statement in line.statements.iter().filter(|statement| statement.start >= label) {
                let text = &self.text[statement.clone()];
                match data_len(self.arch, text) {
                    _ if self.sections.at(statement.start) != section => {}
                    _ if statement.start >= self.lines[last].range.start => {}
                    Some(len) => size += len,
                    None if is_alignment(text) || makes_bytes(text) => return None,
                    None => is_known &= is_directive(text),
                }
            }
        }
        if is_known && function.start.offset(size).0 != piece.addresses.start {
            return None;
        }
        self.behind(first, label)
    }
}

/// Returns whether a label is no symbol of a function: a number, or a label that stays out of the symbol table.
fn is_local(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_digit) || name.starts_with(b".L")
}
