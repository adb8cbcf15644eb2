//! [`Labels`]: the symbols by which linkers divide the sections of an object.

use cfipack_format::Address;
use object::macho::MH_SUBSECTIONS_VIA_SYMBOLS;

use super::headers::Headers;

/// The symbols that are defined in the sections of an object. Linkers divide the sections by them, and ld64.lld 23 takes
/// each symbol in code for a function.
#[derive(Debug)]
pub struct Labels<'f, 'a> {
    file: &'f Headers<'a>,
    /// The symbols that start subsections, with the index of their section, sorted.
    starts: Vec<(usize, Address)>,
    /// The alternative entries, sorted like `starts`.
    alternatives: Vec<(usize, Address)>,
    /// The assembler labels, sorted like `starts`.
    labels: Vec<(usize, Address)>,
}

impl<'f, 'a> Labels<'f, 'a> {
    pub(super) fn new(file: &'f Headers<'a>) -> Self {
        let (mut starts, mut alternatives, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for symbol in file.symbols.iter().filter(|symbol| symbol.is_real) {
            let Some(section) = symbol.section else { continue };
            // The start of a section always starts a subsection.
            let is_first = file.sections.get(section).is_some_and(|header| header.address == symbol.value);
            let list = if is_first || symbol.starts_subsection() {
                &mut starts
            } else if symbol.is_alternative() {
                &mut alternatives
            } else {
                &mut labels
            };
            list.push((section, Address(symbol.value)));
        }
        for list in [&mut starts, &mut alternatives, &mut labels] {
            list.sort_unstable();
        }
        Self { file, starts, alternatives, labels }
    }

    /// Returns whether symbols divide the object's sections into parts that a linker can move separately
    /// (`MH_SUBSECTIONS_VIA_SYMBOLS`).
    pub fn has_subsections(&self) -> bool {
        self.file.flags & MH_SUBSECTIONS_VIA_SYMBOLS.0 != 0
    }

    /// Returns whether a part of a section starts at this address. If so, a row can refer to the address.
    pub fn starts_subsection(&self, address: Address) -> bool {
        self.section_at(address).is_some_and(|section| is_in(&self.starts, section, address))
    }

    /// Returns the addresses of the symbols of a function after its start, in ascending order. ld64.lld gives each of
    /// them an entry without unwind information, unless a row starts there. If the function's start has another symbol
    /// that belongs to the code before the function, the first address is the start: this symbol gets such an entry in
    /// any case, and the entry hides the function's. Returns at most [`MOST_WITHIN`](Self::MOST_WITHIN) + 1 symbols.
    pub fn within(&self, start: Address, end: Address) -> Vec<Address> {
        let Some(section) = self.section_at(start) else { return Vec::new() };
        let is_hidden = self.has_subsections()
            && is_in(&self.starts, section, start)
            && is_in(&self.alternatives, section, start);
        let mut within = Vec::from_iter(is_hidden.then_some(start));
        for list in [&self.starts, &self.alternatives, &self.labels] {
            let after = list.partition_point(|&symbol| symbol <= (section, start));
            let symbols = list[after..].iter().take_while(|&&symbol| symbol < (section, end));
            within.extend(symbols.take(Self::MOST_WITHIN + 1).map(|symbol| symbol.1));
        }
        within.sort_unstable();
        within.dedup();
        within.truncate(Self::MOST_WITHIN + 1);
        within
    }

    /// The most symbols within a function that are read. Only hostile input has a function with more.
    pub const MOST_WITHIN: usize = 64;

    fn section_at(&self, address: Address) -> Option<usize> {
        self.file.locate(address).map(|place| place.section)
    }
}

fn is_in(list: &[(usize, Address)], section: usize, address: Address) -> bool {
    list.binary_search(&(section, address)).is_ok()
}
