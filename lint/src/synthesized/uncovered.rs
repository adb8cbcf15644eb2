//! Divides the code of a file that no CFI covers into functions.

use std::collections::BTreeSet;
use std::ops::Range;

use cfipack_code::{Analysis, Code, Flow, Instructions, State, Ways};
use cfipack_container::{CallFrameSection, File};
use cfipack_format::{Address, Arch};

use crate::coverage::{self, Gaps};
use crate::{Error, FileMemory};

/// The code of a file that no CFI covers, without padding.
pub struct Uncovered {
    /// The functions, found by their symbols and by calls to them. Ascending, without overlap.
    pub functions: Vec<Range<Address>>,
    /// The starts of the functions that have no symbol.
    pub without_symbol: BTreeSet<Address>,
    /// The number of pieces of code that have neither a symbol nor a call to them.
    pub others: u64,
}

impl Uncovered {
    /// Finds the functions of a file that no CFI covers.
    ///
    /// A symbol of type function starts a function. Other symbols do not, because a label can be in the middle of a
    /// function. In code without symbols, the target of a direct call starts a function. The function ends after the
    /// last instruction that execution can reach from its start, and before the next target of a call.
    pub fn find(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        memory: &FileMemory<'_>,
    ) -> Result<Self, Error> {
        let covered = coverage::merged(coverage::of_cfi(sections)?);
        let mut pieces = Vec::new();
        Gaps::new(file, &covered).for_each(|gap| pieces.push((gap.addresses, gap.is_padding)))?;
        let symbols = file.symbols()?;
        // Functions that have symbols.
        let mut functions: Vec<Range<Address>> = Vec::new();
        let mut unnamed = Vec::new();
        let mut extent = Address(0);
        for (piece, is_padding) in pieces {
            // Labels and padding in the middle of a function divide it into several gaps. Join them.
            if let Some(last) =
                functions.last_mut().filter(|last| last.end == piece.start && piece.start < extent)
                && !symbols.is_function(piece.start)
            {
                last.end = piece.end.min(extent);
                continue;
            }
            if is_padding {
                continue;
            }
            if !symbols.is_function(piece.start) {
                unnamed.push(piece);
                continue;
            }
            extent = symbols.extent(piece.start).map_or(piece.end, |extent| extent.end);
            functions.push(piece);
        }
        let mut uncovered = Self { functions, without_symbol: BTreeSet::new(), others: 0 };
        if !unnamed.is_empty() {
            let targets = called(file.arch(), memory, [&covered, &uncovered.functions, &unnamed]);
            for piece in &unnamed {
                uncovered.divide(file.arch(), memory, piece, &targets);
            }
            uncovered.functions.sort_by_key(|range| range.start);
        }
        Ok(uncovered)
    }

    /// Finds functions in a piece of code without symbols.
    fn divide(
        &mut self,
        arch: Arch,
        memory: &FileMemory<'_>,
        piece: &Range<Address>,
        targets: &BTreeSet<Address>,
    ) {
        let mut end = piece.start;
        let mut has_others = false;
        let mut inside = targets.range(piece.clone()).peekable();
        while let Some(start) = inside.next() {
            has_others |= is_code(arch, memory, end..*start);
            let next = inside.peek().map_or(piece.end, |next| **next);
            end = self::end(arch, memory, *start..next);
            if end > *start {
                self.functions.push(*start..end);
                self.without_symbol.insert(*start);
            }
        }
        has_others |= is_code(arch, memory, end..piece.end);
        self.others += u64::from(has_others);
    }
}

/// Returns the targets of direct calls in code.
fn called(arch: Arch, memory: &FileMemory<'_>, code: [&[Range<Address>]; 3]) -> BTreeSet<Address> {
    let mut targets = BTreeSet::new();
    let mut instructions = Instructions::default();
    for range in code.into_iter().flatten() {
        let Some((bytes, relocated)) = memory.code(range.start, range.end.0 - range.start.0) else {
            continue;
        };
        instructions.decode(&Code { arch, start: range.start, bytes, relocated: &relocated });
        targets.extend(instructions.as_slice().iter().filter_map(|instruction| match instruction.flow {
            Flow::Call(target) => target,
            _ => None,
        }));
    }
    targets
}

/// Returns the end of the last instruction that execution can reach from the start of the range. Returns the start if
/// there is no code.
fn end(arch: Arch, memory: &FileMemory<'_>, range: Range<Address>) -> Address {
    let Some((bytes, relocated)) = memory.code(range.start, range.end.0 - range.start.0) else {
        return range.start;
    };
    let code = Code { arch, start: range.start, bytes, relocated: &relocated };
    let instructions = Instructions::new(&code);
    let entry = State::at_entry(arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
    let mut end = 0;
    Analysis::new(code, &instructions, memory, ways).for_each(|_, instruction, state| {
        if state.is_some() {
            end = instruction.offset + u32::from(instruction.len);
        }
    });
    range.start.offset(end.into())
}

/// Returns whether a range has code that is not padding.
fn is_code(arch: Arch, memory: &FileMemory<'_>, range: Range<Address>) -> bool {
    let code = memory.code(range.start, range.end.0.saturating_sub(range.start.0));
    code.is_some_and(|(bytes, _)| !crate::padding::is_padding(arch, bytes))
}
