//! Which personalities a table names.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::num::NonZeroU32;

use cfipack_format::Arch;
use cfipack_format::unwind_info::MAX_PERSONALITIES;

use super::{Entry, Layout, is_dwarf};

/// How often a personality is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Uses {
    /// By entries that need it in the table.
    compact: u32,
    /// By DWARF-mode entries, whose FDEs name it too.
    dwarf: u32,
}

/// The up to three personalities that the table names: those that most compact entries use, and
/// in [`Layout::LdPrime`], if there is room, those of DWARF-mode entries. Ties: the lower number.
pub(super) fn most_used(entries: &[Entry], arch: Arch, layout: Layout) -> Vec<NonZeroU32> {
    let mut uses = BTreeMap::<NonZeroU32, Uses>::new();
    for entry in entries.iter().filter(|entry| entry.encoding.mode_number() != 0) {
        let Some(personality) = entry.personality else { continue };
        if !is_dwarf(entry.encoding, arch) {
            uses.entry(personality).or_default().compact += 1;
        } else if layout == Layout::LdPrime {
            uses.entry(personality).or_default().dwarf += 1;
        }
    }
    let mut ranked: Vec<_> = uses.into_iter().collect();
    ranked.sort_by_key(|&(personality, uses)| (Reverse(uses), personality));
    ranked.truncate(MAX_PERSONALITIES);
    ranked.into_iter().map(|(personality, _)| personality).collect()
}
