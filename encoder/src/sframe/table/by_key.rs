//! Finds functions of an unfinished builder by their keys.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use cfipack_format::Key;
use cfipack_format::widen::ToUsize;

use crate::sframe::builder::Builder;
use crate::sframe::options::Options;
use crate::sframe::table::entries::{Entries, Entry};
use crate::sframe::table::read_back::read_back;
use crate::sframe::table::section::Section;

/// An index of entries by the keys of their functions.
#[derive(Clone, Default, Debug)]
pub(crate) struct ByKey {
    /// The keys of the first entries, with the numbers of these entries.
    numbers: BTreeSet<(u64, u32)>,
}

impl ByKey {
    /// Returns the numbers of the entries that start functions with this key, ascending.
    fn find(&mut self, entries: &Entries<'_>, key: u64) -> Vec<usize> {
        let known = self.numbers.len();
        let new = entries.list.get(known..).unwrap_or_default();
        self.numbers.extend(new.iter().map(|entry| entry.start).zip(known as u32..));
        let found = self.numbers.range((key, 0)..=(key, u32::MAX)).map(|&(_, number)| number.to_usize());
        found.filter(|number| entries.continued.binary_search(number).is_err()).collect()
    }
}

impl Builder<'_> {
    /// Returns a section with a single function, which starts at address 0. Returns `None` if the function was
    /// not added or was refused. If functions have addresses, the addresses are their keys.
    ///
    /// Use this function if your linker moves a piece of a function, to get the rows of the piece's old place.
    /// A call searches the builder's functions, and its time hardly grows with their number.
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
        self.draft.flush();
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
                if let Ok(copied) = alone.draft.entries.blocks.copy(&entries.blocks, block)
                    && has_rows
                {
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
