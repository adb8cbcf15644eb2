//! Checks the rules of `__compact_unwind`, row by row and function by function.

use std::collections::HashMap;
use std::fmt;

use cfipack_format::compact_unwind::Mode;
use cfipack_format::{Address, Arch, ImageOffset, SectionOffset, cfi};

use super::encoding::check;
use super::{Code, Entry, Fault, Violation};
use crate::cfi::Functions;

/// The rows of an object, and the parts of the object that they are checked against.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Rows<'a> {
    /// The architecture.
    pub arch: Arch,
    /// The rows, each with its offset in `__compact_unwind`.
    pub rows: &'a [(SectionOffset, Entry)],
    /// The code.
    pub code: &'a Code<'a>,
    /// `__eh_frame`.
    pub cfi: &'a [cfi::Section<'a>],
    /// Returns the symbols of the function between two addresses for which ld64.lld makes entries of their own, in
    /// ascending order. The start of the function is one of them if the entry of another symbol there hides the
    /// function's.
    pub symbols_within: &'a dyn Fn(Address, Address) -> Vec<Address>,
    /// The faults of the rows' pointers, each with the offset of its row. The reader of the object finds them by the
    /// relocations.
    pub pointer_faults: &'a [(SectionOffset, Fault)],
}

impl<'a> Rows<'a> {
    /// Describes an object without CFI and symbols.
    pub const fn new(arch: Arch, rows: &'a [(SectionOffset, Entry)], code: &'a Code<'a>) -> Self {
        Self { arch, rows, code, cfi: &[], symbols_within: &|_, _| Vec::new(), pointer_faults: &[] }
    }

    /// Sets [`__eh_frame`](Self::cfi).
    #[must_use]
    pub const fn with_cfi(self, cfi: &'a [cfi::Section<'a>]) -> Self {
        Self { cfi, ..self }
    }

    /// Sets the [symbols within functions](Self::symbols_within).
    #[must_use]
    pub const fn with_symbols(self, symbols_within: &'a dyn Fn(Address, Address) -> Vec<Address>) -> Self {
        Self { symbols_within, ..self }
    }

    /// Sets the [faults of pointers](Self::pointer_faults).
    #[must_use]
    pub const fn with_pointer_faults(self, pointer_faults: &'a [(SectionOffset, Fault)]) -> Self {
        Self { pointer_faults, ..self }
    }

    /// Returns all rules that the rows break. Linkers rely on these rules: lld keeps all bits of an encoding and later
    /// gives some of them another meaning, and ld64 refuses the object.
    pub fn violations(&self) -> Vec<Violation> {
        let functions = Functions::find(self.cfi);
        let mut found = Vec::new();
        for &(offset, Entry { start, encoding, lsda, .. }) in self.rows {
            let function = image_offset(start);
            let from_here = self.code.starting_at(start);
            let mut faults: Vec<_> = check(self.arch, from_here, encoding).collect();
            if encoding.personality() != 0 {
                faults.push(Fault::RowPersonality(encoding));
            }
            if encoding.has_lsda() != lsda.is_some() {
                faults.push(Fault::RowLsda(encoding));
            }
            found.extend(faults.into_iter().map(|fault| Violation::new(offset, function, fault)));
        }
        let starts: HashMap<_, _> =
            self.rows.iter().map(|(offset, row)| (*offset, image_offset(row.start))).collect();
        for &(offset, fault) in self.pointer_faults {
            found.push(Violation { offset: Some(offset), function: starts.get(&offset).copied(), fault });
        }
        let mut sorted = self.rows.to_vec();
        sorted.sort_by_key(|(_, row)| (row.start, row.end));
        self.check_overlaps(&sorted, &mut found);
        self.check_ranges(&sorted, &functions, &mut found);
        self.check_symbols(&sorted, &functions, &mut found);
        found
    }

    fn check_overlaps(&self, sorted: &[(SectionOffset, Entry)], found: &mut Vec<Violation>) {
        let mut rows = sorted.iter().filter(|(_, row)| row.start < row.end).peekable();
        while let (Some((_, before)), Some((offset, row))) = (rows.next(), rows.peek()) {
            if row.start < before.end {
                let function = image_offset(row.start);
                found.push(Violation::new(*offset, function, Fault::RowOverlap));
            }
        }
    }

    /// Checks that each row in DWARF mode has an FDE, and that the rows of a function end where the function or its next
    /// row does. Linkers remove the function's FDE, and use a row up to the next entry, whatever the row's length is.
    fn check_ranges(
        &self,
        sorted: &[(SectionOffset, Entry)],
        functions: &Functions<'_>,
        found: &mut Vec<Violation>,
    ) {
        for (at, &(offset, row)) in sorted.iter().enumerate() {
            let function = image_offset(row.start);
            let fde = functions.at(row.start);
            if row.encoding.mode(self.arch) == Some(Mode::Dwarf) {
                if fde.is_none() && row.start < row.end {
                    let record = row.encoding.dwarf_offset();
                    found.push(Violation::new(offset, function, Fault::DwarfFde { record }));
                }
                continue;
            }
            let next = sorted.get(at + 1).map_or(Address(u64::MAX), |next| next.1.start);
            let end = match fde {
                Some(fde) => fde.end,
                // Without an FDE, only the length 0 is known to be wrong, unless the function has no code.
                None if row.start == row.end => {
                    row.start.offset(self.code.starting_at(row.start).len() as i64)
                }
                None => continue,
            };
            let (length, size) = (row.end.0 - row.start.0, end.min(next).0 - row.start.0);
            if length != size {
                found.push(Violation::new(offset, function, Fault::RowLength { length, size }));
            }
        }
    }

    /// Checks that each symbol within a function has a row or an FDE of its own.
    fn check_symbols(
        &self,
        sorted: &[(SectionOffset, Entry)],
        functions: &Functions<'_>,
        found: &mut Vec<Violation>,
    ) {
        let has_row = |address| {
            let first = sorted.partition_point(|(_, row)| row.start < address);
            let mut rows = sorted[first..].iter().take_while(|(_, row)| row.start == address);
            rows.any(|(_, row)| self.is_compact(row))
        };
        let has_fde = |address| functions.at(address).is_some_and(|function| function.start == address);
        let of_rows =
            sorted.iter().filter(|(_, row)| self.is_compact(row) && functions.at(row.start).is_none());
        let of_rows = of_rows.map(|(_, row)| (row.start, row.end));
        let of_fdes = functions.as_slice().iter().map(|function| (function.start, function.end));
        for (start, end) in of_rows.chain(of_fdes) {
            let mut within = (self.symbols_within)(start, end).into_iter();
            let lost = within.find(|&symbol| symbol == start || !has_row(symbol) && !has_fde(symbol));
            if let Some(symbol) = lost {
                let fault =
                    if symbol == start { Fault::SymbolAtStart } else { Fault::SymbolInside { symbol } };
                found.push(Violation { offset: None, function: Some(image_offset(start)), fault });
            }
        }
    }

    /// Returns whether a row has unwind information of its own.
    fn is_compact(&self, row: &Entry) -> bool {
        !matches!(row.encoding.mode(self.arch), Some(Mode::Dwarf | Mode::None))
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arch, rows, .. } = self;
        f.debug_struct("Rows").field("arch", arch).field("rows", rows).finish_non_exhaustive()
    }
}

/// Returns an address in an object. No object reaches beyond 4 GiB, because its relocations have 32 bits.
fn image_offset(address: Address) -> ImageOffset {
    ImageOffset(address.0 as u32)
}
