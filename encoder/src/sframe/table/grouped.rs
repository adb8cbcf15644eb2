//! Sorts items into groups, by counting.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::widen::ToUsize;

/// Items in the order of their groups. The items of a group keep their order.
#[derive(Debug)]
pub(crate) struct Grouped<T> {
    pub(crate) items: Vec<T>,
    /// The end of each group.
    ends: Vec<u32>,
}

impl<T: Copy + Default> Grouped<T> {
    /// Takes items, each with its group.
    #[inline(always)]
    pub(crate) fn new(groups: usize, items: impl Iterator<Item = (usize, T)> + Clone) -> Self {
        let (mut ends, mut count) = (vec![0u32; groups], 0);
        items.clone().for_each(|(group, _)| ends[group] += 1);
        for end in &mut ends {
            count += core::mem::replace(end, count);
        }
        let mut sorted = vec![T::default(); count.to_usize()];
        items.for_each(|(group, item)| {
            let at = &mut ends[group];
            sorted[at.to_usize()] = item;
            *at += 1;
        });
        Self { items: sorted, ends }
    }

    /// Returns the items of each group.
    pub(crate) fn groups(&mut self) -> impl Iterator<Item = &mut [T]> {
        let (mut rest, mut at) = (&mut self.items[..], 0);
        self.ends.iter().map(move |&end| {
            let group = rest.split_off_mut(..(end - at).to_usize()).unwrap_or_default();
            at = end;
            group
        })
    }
}
