//! Compares the section with the names of sections. It may gain or lose names.

use cfipack_format::widen::{ToU64, ToUsize};

use super::Check;
use super::error::StructureError;
use super::pairs::Pair;

/// Checks that each byte of the section is the same as in the original, or belongs to the name of a section.
pub(super) fn check(check: &Check<'_>, pair: Pair) -> Result<(), StructureError> {
    let Check { old, new, .. } = check;
    let (from, to) = (old.contents(pair.old), new.contents(pair.new));
    if from.last() == Some(&0) && to.last() != Some(&0) {
        return check.same_bytes(pair);
    }
    let mut names: Vec<_> = new.sections.iter().map(|section| section.name.to_usize()).collect();
    names.sort_unstable();
    names.dedup();
    let mut end = 0;
    for start in names.into_iter().chain([to.len()]) {
        // A name may be the end of another name.
        if start < end {
            continue;
        }
        let start = start.min(to.len());
        check_kept(pair, from, to, end, start)?;
        let name = to[start..].iter().position(|&byte| byte == 0);
        end = name.map_or(to.len(), |length| start + length + 1);
    }
    // The section may also hold the names of symbols.
    let has_symbols =
        old.sections.iter().any(|section| section.link.to_usize() == pair.old && section.entsize != 0);
    if has_symbols {
        let end = to.len().min(from.len());
        check_kept(pair, from, &to[..end], 0, end)?;
    }
    Ok(())
}

/// Checks that each byte is zero, or the same as in the original.
fn check_kept(pair: Pair, from: &[u8], to: &[u8], start: usize, end: usize) -> Result<(), StructureError> {
    let kept = from.get(start..end.min(from.len())).unwrap_or_default();
    let bytes = &to[start..end];
    if bytes.starts_with(kept) && bytes[kept.len()..].iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    for (at, &new) in bytes.iter().enumerate() {
        let old = kept.get(at).copied().unwrap_or(0);
        if new != 0 && new != old {
            let offset = (start + at).to_u64();
            return Err(StructureError::SectionByte { index: pair.new, offset, old, new });
        }
    }
    Ok(())
}
