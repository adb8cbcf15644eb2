//! Chooses the personalities of a table.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_format::unwind_info::MAX_PERSONALITIES;

/// How often a personality is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Uses {
    /// By entries that need its number in the table.
    compact: u32,
    /// By entries in DWARF mode. Their FDEs refer to the personality, too.
    dwarf: u32,
}

/// Counts how often each personality is used.
#[derive(Clone, Default, Debug)]
pub(super) struct Personalities {
    uses: BTreeMap<NonZeroU32, Uses>,
    /// The last personality, and how often it was used without another in between. Neighbours mostly use the same
    /// personality.
    run: Option<(NonZeroU32, Uses)>,
}

/// The personalities that get a number in the table.
pub(super) struct MostUsed {
    pub(super) numbers: Vec<NonZeroU32>,
    /// True if the entries use more personalities than these.
    pub(super) more: bool,
}

impl Personalities {
    pub(super) const fn new() -> Self {
        Self { uses: BTreeMap::new(), run: None }
    }

    /// Counts one more use.
    #[inline]
    pub(super) fn count(&mut self, personality: NonZeroU32, dwarf: bool) {
        if self.run.is_none_or(|run| run.0 != personality) {
            self.end_run();
        }
        let (_, uses) = self.run.get_or_insert((personality, Uses::default()));
        if dwarf { uses.dwarf += 1 } else { uses.compact += 1 }
    }

    fn end_run(&mut self) {
        if let Some((personality, uses)) = self.run.take() {
            self.add(personality, uses);
        }
    }

    fn add(&mut self, personality: NonZeroU32, uses: Uses) {
        let sum = self.uses.entry(personality).or_default();
        sum.compact += uses.compact;
        sum.dwarf += uses.dwarf;
    }

    pub(super) fn absorb(&mut self, mut other: Self) {
        other.end_run();
        for (personality, uses) in other.uses {
            self.add(personality, uses);
        }
    }

    /// Returns at most three personalities. The personalities that most compact entries use come first, then
    /// personalities that most entries in DWARF mode use. Of two equals, the lower number comes first.
    pub(super) fn most_used(mut self) -> MostUsed {
        self.end_run();
        let mut ranked: Vec<_> = self.uses.into_iter().collect();
        ranked.sort_by_cached_key(|&(_, uses)| u64::from(!uses.compact) << 32 | u64::from(!uses.dwarf));
        let more = ranked.len() > MAX_PERSONALITIES;
        ranked.truncate(MAX_PERSONALITIES);
        MostUsed { numbers: ranked.into_iter().map(|(personality, _)| personality).collect(), more }
    }
}
