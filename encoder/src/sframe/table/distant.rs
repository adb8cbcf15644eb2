//! Functions that version 2 cannot reach.

use alloc::vec::Vec;

use cfipack_format::{Address, Key};

use crate::sframe::table::entries::Entries;
use crate::sframe::table::rebuilt::Rebuilt;
use crate::sframe::table::section::Section;
use crate::{Reason, Unsupported};

impl Section<'_> {
    /// Omits the functions that version 2 cannot reach from `address`, where the section will lie. Version 2
    /// stores starts in 32 bits; version 3 reaches all functions. Afterwards [`Self::omitted`] lists the
    /// functions with [`Reason::StartTooFar`], and [`Self::len`] is smaller. Pass the same `address_of` as to
    /// [`Self::write`], which otherwise refuses the whole section.
    pub fn omit_distant(&mut self, address: Address, address_of: impl Fn(Key) -> Address) {
        if self.options.version.reaches(i64::MAX) {
            return;
        }
        let mut far = Vec::new();
        for place in self.places.iter(0, &self.entries) {
            let distance = place.address(&address_of).distance_from(address);
            if !self.options.version.reaches(distance) {
                let start = place.start();
                let merged = self.merged.partition_point(|(first, _)| first.start() < start);
                let merged = self.merged[merged..].iter().take_while(|(first, _)| first.start() == start);
                let places = [place].into_iter().chain(merged.map(|&(_, other)| other));
                far.extend(places.map(|place| (place.function, distance)));
            }
        }
        if far.is_empty() {
            return;
        }
        far.sort_unstable();
        far.dedup_by_key(|far| far.0);
        let places = self.places.iter(0, &self.entries);
        let is_kept: Vec<_> =
            places.map(|place| far.binary_search_by_key(&place.function, |far| far.0).is_err()).collect();
        let mut rebuilt = Rebuilt::new(&self.blocks, self.abi.arch(), self.options);
        for (entry, _) in self.entries.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept) {
            // There is room: all these blocks were there.
            let _ = rebuilt.keep(*entry);
        }
        let Entries { list, blocks, num_fres, .. } = rebuilt.finish();
        for (function, distance) in far {
            self.omitted.push(Unsupported::function(function, Reason::StartTooFar(distance)));
        }
        self.places.retain(&is_kept);
        (self.entries, self.blocks, self.num_fres) = (list, blocks, num_fres);
        let mut starts: Vec<_> = self.entries.iter().map(|entry| entry.start).collect();
        starts.sort_unstable();
        self.merged.retain(|(first, _)| starts.binary_search(&first.start()).is_ok());
    }
}
