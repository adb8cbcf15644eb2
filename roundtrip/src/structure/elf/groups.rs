//! Compares sections that list sections or symbols by index.

use cfipack_format::widen::{ToU64, ToUsize};
use object::{Bytes, elf};

use super::Check;
use super::error::StructureError;
use super::pairs::Pair;
use super::symbols::SymbolMap;

/// The type of `.llvm_addrsig`.
pub(super) const SHT_LLVM_ADDRSIG: elf::SectionType = elf::SectionType(0x6fff_4c03);

/// Compares a group: its flags, then the indexes of its members.
pub(super) fn check_group(check: &Check<'_>, pair: Pair) -> Result<(), StructureError> {
    let Check { old, new, pairs } = check;
    let (from, to) = (old.contents(pair.old), new.contents(pair.new));
    if from.len() % 4 != 0 || to.len() % 4 != 0 || from.is_empty() {
        return check.same_bytes(pair);
    }
    let mut members = to.chunks_exact(4).map(|member| new.u32(member, 0));
    for (index, member) in from.chunks_exact(4).enumerate() {
        let member = old.u32(member, 0);
        let section = (index != 0 && member.to_usize() < old.sections.len()).then_some(member.to_usize());
        let expected = match section.map(|section| pairs.new_of(section)) {
            None => member,
            Some(Some(new)) => new as u32,
            // A table that has left the group.
            Some(None) => continue,
        };
        same(pair, index, "member of a group", Some(expected.into()), members.next().map(u64::from))?;
    }
    same(pair, from.len() / 4, "member of a group", None, members.next().map(u64::from))
}

/// Compares `.llvm_addrsig`: numbers of symbols in ULEB128.
pub(super) fn check_addrsig(check: &Check<'_>, pair: Pair, map: &SymbolMap) -> Result<(), StructureError> {
    let [mut from, mut to] = [check.old.contents(pair.old), check.new.contents(pair.new)].map(Bytes);
    let mut index = 0;
    while !from.is_empty() {
        let Ok(symbol) = from.read_uleb128() else { return check.same_bytes(pair) };
        let expected = map.new_of(symbol.to_usize()).unwrap_or(usize::MAX).to_u64();
        same(pair, index, "symbol", Some(expected), to.read_uleb128().ok())?;
        index += 1;
    }
    let more = (!to.is_empty()).then(|| to.read_uleb128().unwrap_or(0));
    same(pair, index, "symbol", None, more)
}

fn same(
    pair: Pair,
    index: usize,
    field: &'static str,
    old: Option<u64>,
    new: Option<u64>,
) -> Result<(), StructureError> {
    if old == new {
        return Ok(());
    }
    let (old, new) = (old.unwrap_or(u64::MAX), new.unwrap_or(u64::MAX));
    Err(StructureError::Item { section: pair.new, index, field, old, new })
}
