//! The CIEs of a section that have been read.

use std::collections::HashMap;

use cfipack_format::widen::ToUsize;

/// The number of CIEs that are found without a search. Consecutive FDEs usually take turns with a few CIEs.
const RECENT: usize = 16;

/// A cache for the CIEs of a section, by offset.
pub(super) struct Cies<C> {
    all: Vec<C>,
    /// The places in `all`, by offset.
    places: HashMap<usize, usize>,
    /// The offsets and places of CIEs that were used recently. A hash of the offset gives the slot.
    recent: [Option<(usize, usize)>; RECENT],
}

impl<C> Cies<C> {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), places: HashMap::new(), recent: [None; RECENT] }
    }

    /// Returns the CIE at an offset. `read` reads it when it is needed for the first time.
    #[inline]
    pub(super) fn at(&mut self, offset: usize, read: impl FnOnce() -> C) -> &C {
        // The upper bits of the product depend on all bits of the offset.
        let slot = ((offset as u32).wrapping_mul(0x9e37_79b9) >> 28).to_usize();
        let place = match self.recent[slot] {
            Some((known_offset, place)) if known_offset == offset => place,
            _ => {
                let place = self.place(offset, read);
                self.recent[slot] = Some((offset, place));
                place
            }
        };
        &self.all[place]
    }

    #[cold]
    fn place(&mut self, offset: usize, read: impl FnOnce() -> C) -> usize {
        let Self { all, places, .. } = self;
        *places.entry(offset).or_insert_with(|| {
            all.push(read());
            all.len() - 1
        })
    }
}
