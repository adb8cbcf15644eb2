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
    // Neighbours use the same one, as a rule.
    let mut run: Option<(NonZeroU32, Uses)> = None;
    let mut end_run = |run: Option<(NonZeroU32, Uses)>| {
        if let Some((personality, run)) = run {
            let uses = uses.entry(personality).or_default();
            uses.compact += run.compact;
            uses.dwarf += run.dwarf;
        }
    };
    for entry in entries.iter().filter(|entry| entry.encoding.mode_number() != 0) {
        let Some(personality) = entry.personality else { continue };
        let dwarf = is_dwarf(entry.encoding, arch);
        if dwarf && layout != Layout::LdPrime {
            continue;
        }
        let (_, uses) = match &mut run {
            Some(run) if run.0 == personality => run,
            _ => {
                end_run(run);
                run.insert((personality, Uses::default()))
            }
        };
        if dwarf { uses.dwarf += 1 } else { uses.compact += 1 }
    }
    end_run(run);
    let mut ranked: Vec<_> = uses.into_iter().collect();
    ranked.sort_by_key(|&(personality, uses)| (Reverse(uses), personality));
    ranked.truncate(MAX_PERSONALITIES);
    ranked.into_iter().map(|(personality, _)| personality).collect()
}
