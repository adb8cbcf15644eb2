//! Puts a `.sframe` into a linked file: a loaded section with a `PT_GNU_SFRAME`.
//!
//! No section index changes, and the program headers stay at the start of the file. Strip tools write a file by its
//! sections, and loaders look for the program headers near the file's first address. Sections move to make room for
//! more program headers only if every reference to them is known ([`movable`]).
//!
//! - `source`, `header`: the old file and its headers.
//! - `existing`, `evict`, `prepend`: the ways to make room. [`way`] lists them. `strip` and `restore` undo them.
//! - `hole`: the place of the new segment in the file.
//! - `movable`, `neighbours`: which sections can move, and which must move together.
//! - `references`, `relocations`, `renumber`: update everything that refers to moved or removed sections.
//! - `plan`, `write`: the planned changes, and the new file that they result in. Bytes are inserted at a few places, and
//!   all other bytes keep their order, with or without a header.

mod evict;
mod existing;
mod header;
mod hole;
mod movable;
mod neighbours;
mod plan;
mod prepend;
mod references;
mod relocations;
mod renumber;
mod restore;
mod source;
mod strip;
pub(crate) mod way;
mod write;

use std::iter;

use cfipack_container::raw::elf::Headers;
use cfipack_container::{File, Kind};
use cfipack_format::Address;
use cfipack_format::widen::ToU64;
use object::elf;

use super::headers_of;
use crate::embed_error::EmbedError;
use crate::rewrite::Rewrite;
use evict::Attempt;
use movable::Kinds;
use plan::Plan;
use source::Source;
use way::Way;

/// A place for a table in a linked file. Its address is known before the table is made.
#[derive(Clone, Debug)]
pub struct Embedding<'a> {
    base: Base<'a>,
    plan: Plan,
    way: Way,
}

/// The file that the table is put into.
#[derive(Clone, Debug)]
enum Base<'a> {
    /// The original file.
    File(Box<Source<'a>>),
    /// The file without its old tables. The bytes of these tables are free.
    Stripped { bytes: Vec<u8>, from_file: Rewrite<'a> },
}

impl<'a> Embedding<'a> {
    /// Finds a place for a `.sframe` of `table_len` bytes in a linked ELF file. If the file has a table with enough
    /// room, that place is used. The place depends only on the length, so you can make the table for its
    /// [`address`](Self::address).
    ///
    /// No section index changes, and the program headers stay at the start of the file. [`Way`] lists what may move to
    /// make room for more program headers, and the price of each way.
    ///
    /// # Errors
    /// Returns an [`EmbedError`] if the file cannot be changed safely. For example, this refuses a file without section
    /// headers, a file with bytes after everything that its headers describe (an archive that a program carries, a
    /// signature), and a file with a physical address of its own (a kernel).
    pub fn of(file: &File<'a>, table_len: usize) -> Result<Self, EmbedError> {
        let headers = headers_of(file)?;
        match headers.kind {
            Kind::Linked => Self::plan(headers, table_len),
            Kind::Relocatable => Err(EmbedError::Relocatable),
        }
    }

    /// Finds a place for a table of `table_len` bytes in a linked file.
    fn plan(headers: &Headers<'a>, table_len: usize) -> Result<Self, EmbedError> {
        let table_len = table_len.to_u64();
        let source = Source::read(headers)?;
        if let Some((way, plan)) = existing::plan(&source, table_len) {
            let plan = plan.check(&source)?;
            return Ok(Self { base: Base::File(source.into()), plan, way });
        }
        let Some(without) = strip::plan(&source)? else {
            let (way, plan) = plan(&source, table_len)?;
            return Ok(Self { base: Base::File(source.into()), plan, way });
        };
        let from_file = write::write(&source, without, None);
        let bytes = from_file.to_vec(headers.bytes);
        let (way, plan) = plan(&Source::read(&Headers::parse(&bytes)?)?, table_len)?;
        Ok(Self { base: Base::Stripped { bytes, from_file }, plan, way })
    }

    /// Returns the address that the table will have in memory. It is a multiple of 8.
    pub fn address(&self) -> Address {
        Address(self.plan.table.map_or(0, |table| self.plan.sections[table.section].address))
    }

    /// Returns the way in which the file gets room for the table.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Returns the file with the table. The table may be shorter than planned: the rest of its place becomes zeros.
    ///
    /// # Panics
    /// Panics if the table is longer than planned.
    #[must_use]
    pub fn rewrite(self, table: Vec<u8>) -> Rewrite<'a> {
        let (bytes, from_file) = match self.base {
            Base::File(source) => return write::write(&source, self.plan, Some(table)),
            Base::Stripped { bytes, from_file } => (bytes, from_file),
        };
        let headers = Headers::parse(&bytes).map_err(EmbedError::File);
        let source = headers.and_then(|headers| Source::read(&headers)).expect("it was read for the plan");
        write::write(&source, self.plan, Some(table)).after(&from_file)
    }
}

/// Returns the file without its tables, or `None` if it has no table.
pub(super) fn without_sframe<'a>(headers: &Headers<'a>) -> Result<Option<Rewrite<'a>>, EmbedError> {
    let source = Source::of(headers)?;
    source.check_sections()?;
    if !strip::has_table(&source) {
        return Ok(None);
    }
    source.check()?;
    let plan = strip::plan(&source)?;
    Ok(plan.map(|plan| write::write(&source, plan, None)))
}

/// Tries the ways that suit a file without a table, and returns the first plan. If no way works, returns the first
/// error.
fn plan(source: &Source<'_>, table_len: u64) -> Result<(Way, Plan), EmbedError> {
    let mut refusal = None;
    let attempts = attempts(source).into_iter();
    let evicted = attempts.map(|attempt| (attempt.way(), evict::plan(source, table_len, attempt)));
    let prepended = iter::once_with(|| (Way::Prepend, prepend::plan(source, table_len)));
    for (way, plan) in evicted.chain(prepended) {
        match plan {
            Ok(Some(plan)) => return Ok((way, plan.check(source)?)),
            Ok(None) => {}
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    let (offset, size) = (source.phoff, source.ph_end() - source.phoff);
    Err(refusal.unwrap_or(EmbedError::NoWay { offset, size }))
}

/// Returns the ways to evict sections from a kind of file, the best first. The best ways survive strip tools, old
/// versions of patchelf and core files.
fn attempts(source: &Source<'_>) -> Vec<Attempt> {
    if !source.is_fixed {
        let (spare, none) = (Attempt::new(1, Kinds::Dynamic), Attempt::new(0, Kinds::Dynamic));
        return vec![spare.keep_build_id(), spare, none.keep_build_id(), none, none.reuse_note()];
    }
    // Old versions of patchelf break a program with fixed addresses if its symbols have moved. Code of static programs
    // finds their relocations by address.
    let none = Attempt::new(0, Kinds::Small);
    let (kept, note) = (none.keep_build_id(), none.reuse_note());
    if source.segment(elf::PT_INTERP).is_some() {
        return vec![note.keep_build_id(), kept, note, none];
    }
    let (both, phdr) = (note.reuse_phdr(), none.reuse_phdr());
    vec![note.keep_build_id(), note, both, phdr.keep_build_id(), phdr, kept, none]
}
