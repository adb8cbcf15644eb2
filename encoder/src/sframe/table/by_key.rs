//! Functions of a builder that are not finished, found by their keys.

use alloc::vec::Vec;

use cfipack_format::Key;
use cfipack_format::widen::ToUsize;

use crate::sframe::builder::Builder;
use crate::sframe::options::Options;
use crate::sframe::table::entries::{Entries, Entry};
use crate::sframe::table::read_back::read_back;
use crate::sframe::table::section::Section;

/// The entries that start a function, by its key: of most, those that came last are searched one by one.
#[derive(Clone, Default, Debug)]
pub(crate) struct ByKey {
    /// Keys and entries, sorted.
    sorted: Vec<(u64, u32)>,
    /// The number of entries that these are of.
    entries: usize,
}

/// Entries that are searched one by one, at most, beside a quarter of the others: then sorting is rare.
const FEW: usize = 64;

impl ByKey {
    /// The numbers of the entries that start the functions with a key, ascending.
    fn find(&mut self, entries: &Entries<'_>, key: u64) -> Vec<usize> {
        if entries.list.len() > self.entries + self.entries / 4 + FEW {
            self.sorted.clear();
            let keys = entries.list.iter().map(|entry| entry.start);
            self.sorted.extend(keys.zip(0..));
            self.sorted.sort_unstable();
            self.entries = entries.list.len();
        }
        let first = self.sorted.partition_point(|&(other, _)| other < key);
        let sorted = self.sorted[first..].iter().take_while(|&&(other, _)| other == key);
        let last = (self.entries..entries.list.len()).filter(|&number| entries.list[number].start == key);
        let found = sorted.map(|&(_, number)| number.to_usize()).chain(last);
        found.filter(|number| entries.continued.binary_search(number).is_err()).collect()
    }
}

impl Builder<'_> {
    /// The function with a key, as a section of its own, of which the function starts at address 0; none if it has not
    /// been added, or was refused. Where functions have addresses, these are their keys.
    ///
    /// A linker asks for it that writes a piece of a function elsewhere, with the rows of the place that it was moved
    /// from. A call takes a search among the builder's functions, and no more time for more of them.
    ///
    /// ```
    /// use cfipack_encoder::sframe::{Builder, EncodedRows, Options, TableFunction};
    /// use cfipack_format::{Address, Arch, Key};
    ///
    /// let mut builder = Builder::new(Arch::Amd64, Options::new())?;
    /// builder.push_table(&TableFunction::new(Key(7), 16), EncodedRows::new(&[0, 3, 8], 1))?;
    /// assert!(builder.section_of(Key(8)).is_none());
    /// let section = builder.section_of(Key(7)).expect("the function");
    /// let bytes = section.into_bytes(Address(0), Key::address)?;
    /// assert_eq!(bytes[36..], [16, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 3, 8]); // 16 bytes with one row
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn section_of(&mut self, function: Key) -> Option<Section<'static>> {
        self.flush();
        let entries = &self.draft.entries;
        let found = self.draft.by_key.find(entries, function.0);
        let options = Options { merge_functions: 0, few: true, ..self.draft.options };
        let mut alone = Builder::with_seed(self.draft.abi, options, Some(entries.blocks.seed()));
        alone.draft.entries.have_addresses = Some(true);
        let endian = self.draft.abi.arch().endian();
        for first in found {
            let mut number = first;
            // The function's other entries follow.
            while let Some(&Entry { start, size, block }) = entries.list.get(number) {
                let has_rows = entries.refused.binary_search(&number).is_err();
                let copied =
                    alone.draft.entries.blocks.copy(&entries.blocks, block).ok().filter(|_| has_rows);
                if let Some(copied) = copied {
                    let num_fres = read_back(&entries.blocks, block, endian).0.num_fres;
                    alone.draft.entries.push(start.wrapping_sub(function.0), size, copied, num_fres);
                }
                number += 1;
                if entries.continued.binary_search(&number).is_err() {
                    break;
                }
            }
        }
        if alone.draft.entries.list.is_empty() {
            return None;
        }
        let section = alone.finish();
        (section.num_fdes() != 0).then_some(section)
    }
}
