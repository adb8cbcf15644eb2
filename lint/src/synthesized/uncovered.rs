//! Divides the code of a file that no CFI covers into functions.

use std::ops::Range;

use cfipack_container::{Elf, File, Symbols};
use cfipack_format::{Address, Arch, Endian};
use cfipack_roundtrip::cfi::Functions;

use super::jumps::Into;
use super::search::{Found, Search};
use crate::coverage::{self, Gaps};
use crate::returns::{Ends, Imports, Returns};
use crate::{Error, FileMemory};

/// A function that no CFI covers.
pub struct FunctionCode {
    /// The function's addresses.
    pub range: Range<Address>,
    /// The evidence for a function at this place.
    pub evidence: Evidence,
    /// The offsets of calls that the search knows not to return, ascending.
    pub noreturn: Vec<u32>,
}

impl FunctionCode {
    fn named(range: Range<Address>) -> Self {
        Self { range, evidence: Evidence::Symbol, noreturn: Vec::new() }
    }
}

/// The evidence for a function at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// A symbol.
    Symbol,
    /// A call that a path leads to.
    Call,
    /// A jump with a frame in place: a fragment of another function.
    Jump,
    /// The function's code alone.
    Code,
}

/// The code of a file that no CFI covers, without padding.
pub struct Uncovered {
    /// The functions, ascending, without overlap.
    pub functions: Vec<FunctionCode>,
    /// The pieces of code that belong to no known function.
    pub others: Vec<Range<Address>>,
}

impl Uncovered {
    /// Finds the functions of a file that no CFI covers.
    ///
    /// A symbol of type function starts a function. Other symbols do not, because a label can be in the middle of a
    /// function. Code without symbols is searched. If `splits` is set, this also holds for the code of a function from
    /// the first instruction on that no path leads to, if the function gets no rows because of this code. The ranges in
    /// `covered` have CFI, and have to be ascending. Also returns the ways from the functions with CFI into the other code.
    pub fn find(
        file: &File<'_>,
        memory: &FileMemory<'_>,
        symbols: &Symbols<'_>,
        covered: &[Range<Address>],
        with_cfi: &Functions<'_>,
        splits: bool,
    ) -> Result<(Self, Into), Error> {
        let merged = coverage::merged(covered.to_vec());
        let mut pieces = Vec::new();
        Gaps::new(file, &merged).for_each(|gap| pieces.push((gap.addresses, gap.is_padding)))?;
        let mut code: Vec<Range<Address>> = Vec::new();
        for (piece, is_padding) in &pieces {
            match code.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end,
                _ if *is_padding => {}
                _ => code.push(piece.clone()),
            }
        }
        let into = Into::find(file.arch(), with_cfi, memory, &code);
        // Functions that have symbols.
        let mut functions: Vec<Range<Address>> = Vec::new();
        let mut unnamed = Unnamed { symbols, pieces: Vec::new(), end: Address(0), starts: Vec::new() };
        let mut extent = Address(0);
        for (piece, is_padding) in pieces {
            // Labels and padding in the middle of a function divide it into several gaps. Join them.
            if let Some(last) =
                functions.last_mut().filter(|last| last.end == piece.start && piece.start < extent)
                && !symbols.is_function(piece.start)
            {
                last.end = piece.end.min(extent);
                unnamed.add(last.end..piece.end);
                continue;
            }
            if is_padding {
                unnamed.add_padding(&piece);
                continue;
            }
            if !symbols.is_function(piece.start) {
                unnamed.add(piece);
                continue;
            }
            extent = symbols.extent(piece.start).map_or(piece.end, |extent| extent.end);
            let end = piece.end.min(extent);
            functions.push(piece.start..end);
            unnamed.add(end..piece.end);
        }
        let Unnamed { pieces: unnamed, starts, .. } = unnamed;
        let mut uncovered = Self { functions: Vec::with_capacity(functions.len()), others: Vec::new() };
        let is_searched = !unnamed.is_empty() || splits && !functions.is_empty();
        if !is_searched {
            uncovered.functions.extend(functions.into_iter().map(FunctionCode::named));
            return Ok((uncovered, into));
        }
        let imports = Imports::find(file, symbols);
        let ends = KnownEnds { covered, functions: &functions, unnamed: &unnamed };
        let mut returns = Returns::new(memory, &ends, file.arch(), &imports);
        let mut search = Search::new(file.arch(), memory, &mut returns, unnamed.clone(), starts);
        search.enter(&into);
        let mut rest = Vec::new();
        for range in &functions {
            let mut function = FunctionCode::named(range.clone());
            if let Some((end, noreturn)) = search.follow(range).filter(|_| splits) {
                rest.push(end..range.end);
                (function.range.end, function.noreturn) = (end, noreturn);
            }
            uncovered.functions.push(function);
        }
        search.add_code(rest, |address| symbols.is_in_sized(address));
        uncovered.search(file, search)?;
        Ok((uncovered, into))
    }

    /// Searches code without symbols for functions.
    fn search(&mut self, file: &File<'_>, mut search: Search<'_, '_>) -> Result<(), Error> {
        if let Some(headers) = file.as_elf().map(Elf::headers) {
            search.follow_entry(Address(headers.file.e_entry.get(headers.endian)));
        }
        if let Some(pointers) = file.relative_pointers() {
            pointers.into_iter().for_each(|pointer| search.suggest(pointer));
        } else {
            // Any word of data may look like a pointer.
            for section in file.data_sections()? {
                for word in pointers(file.arch(), &section.bytes) {
                    if search.follows_end(word) {
                        search.suggest(word);
                    }
                }
            }
        }
        let (memory, mut rest) = (search.memory, search.code.clone());
        let found = search.run();
        for (start, found) in found {
            let range = start..found.end;
            let piece = rest.partition_point(|piece| piece.end <= start);
            if let Some(piece) = rest.get_mut(piece) {
                let before = std::mem::replace(piece, found.end..piece.end);
                self.add_other(file.arch(), memory, before.start..start);
            }
            let Found { evidence, noreturn, .. } = found;
            self.functions.push(FunctionCode { range, evidence, noreturn });
        }
        for piece in rest {
            self.add_other(file.arch(), memory, piece);
        }
        self.functions.sort_by_key(|function| function.range.start);
        Ok(())
    }

    /// Adds code that belongs to no function, unless it is padding.
    fn add_other(&mut self, arch: Arch, memory: &FileMemory<'_>, range: Range<Address>) {
        let code = memory.code(range.start, range.end.0.saturating_sub(range.start.0));
        if code.is_some_and(|(bytes, _)| !crate::padding::is_padding(arch, bytes)) {
            self.others.push(range);
        }
    }
}

/// Collects the code without the symbol of a function.
struct Unnamed<'a> {
    symbols: &'a Symbols<'a>,
    pieces: Vec<Range<Address>>,
    /// The end of the last piece, and of padding after it.
    end: Address,
    /// The addresses at which functions may start.
    starts: Vec<Address>,
}

impl Unnamed<'_> {
    /// Adds a piece of code. A local label does not divide code, because it may be in the middle of a function. But a call
    /// from another file can arrive at a global label.
    fn add(&mut self, piece: Range<Address>) {
        if piece.start >= piece.end {
            return;
        }
        self.starts.push(piece.start);
        match self.pieces.last_mut() {
            Some(last) if self.end == piece.start && !self.symbols.is_global(piece.start) => {
                last.end = piece.end
            }
            _ => self.pieces.push(piece.clone()),
        }
        self.end = piece.end;
    }

    fn add_padding(&mut self, padding: &Range<Address>) {
        if self.end == padding.start {
            self.end = padding.end;
        }
    }
}

/// Returns the words of a section of data as addresses.
fn pointers(arch: Arch, bytes: &[u8]) -> impl Iterator<Item = Address> {
    let size = usize::from(arch.pointer_size());
    bytes.chunks_exact(size).map(move |word| {
        let value = |byte: &u8, value: u64| value << 8 | u64::from(*byte);
        Address(match arch.endian() {
            Endian::Little => word.iter().rev().fold(0, |sum, byte| value(byte, sum)),
            Endian::Big => word.iter().fold(0, |sum, byte| value(byte, sum)),
        })
    })
}

/// The functions that are known before the search, and the code without symbols.
struct KnownEnds<'k> {
    covered: &'k [Range<Address>],
    functions: &'k [Range<Address>],
    unnamed: &'k [Range<Address>],
}

impl Ends for KnownEnds<'_> {
    fn end(&self, start: Address) -> Option<Address> {
        for known in [self.covered, self.functions] {
            if let Ok(index) = known.binary_search_by_key(&start, |range| range.start) {
                return Some(known[index].end);
            }
        }
        let piece = self.unnamed.partition_point(|range| range.end <= start);
        let piece = self.unnamed.get(piece).filter(|range| range.start <= start)?;
        Some(piece.end.min(start.offset(MAX_UNNAMED)))
    }
}

/// A function without a symbol is followed for this many bytes to see whether it returns.
const MAX_UNNAMED: i64 = 1 << 12;
