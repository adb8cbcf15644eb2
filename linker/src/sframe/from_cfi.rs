//! Pushes the functions of an object's `.eh_frame`.

use core::ops::Range;

use cfipack_format::widen::ToU64;

use super::from_table::Scratch;
use super::{Contribution, Field, Live, Merger, Note, Object, Options, Prefer};
use crate::cfi::{Functions, Section, SectionKind};
use crate::format::sframe::Version;
use crate::format::{Address, Arch, Key, SectionOffset};

/// Estimates the number of CFI records in many objects from the records of the first few objects.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Records {
    /// The number of bytes in all sections.
    pub(crate) bytes: usize,
    /// The number of bytes in the sections that were counted.
    sample: usize,
    /// The number of records in the sections that were counted.
    counted: usize,
}

impl Records {
    pub(crate) fn add(&mut self, eh_frame: &[u8], arch: Arch) {
        const SAMPLE: usize = 1 << 13;
        self.bytes += eh_frame.len();
        if self.sample < SAMPLE {
            let section = Section::new(SectionKind::EhFrame, eh_frame, Address(0), arch);
            self.counted += Functions::new(&section).records_left();
            self.sample += eh_frame.len();
        }
    }

    pub(crate) fn estimate(&self) -> usize {
        let all = u128::from(self.counted.to_u64()) * u128::from(self.bytes.to_u64());
        // The result is at most the number of records that the bytes can hold.
        let estimate = (all / u128::from(self.sample.max(1).to_u64())) as usize;
        // A list that is a little too short would be moved to twice its memory.
        if self.sample < self.bytes { estimate + estimate / 16 } else { estimate }
    }
}

/// Finds the signal frames of an object if its table's version cannot represent signal frames and the output's
/// version can. The rows of these functions then come from CFI.
pub(crate) fn note_signal_frames(
    merger: &mut Merger<'_>,
    object: &Object<'_>,
    version: Version,
    live: &mut impl FnMut(Field) -> Option<Live>,
) {
    let Options { prefer, table: output, .. } = merger.options;
    let can_lack_them =
        prefer == Prefer::Table && !version.has_signal_frames() && output.version.has_signal_frames();
    if !can_lack_them || core::mem::replace(&mut merger.scratch.has_signal_frames, true) {
        return;
    }
    let Some(bytes) = object.eh_frame else { return };
    let section = Section::new(SectionKind::EhFrame, bytes, Address(0), merger.arch);
    let functions = Functions::keyed(&section, |field| live(Field::EhFrame(field)).map(|live| live.key));
    for function in functions.flatten() {
        if function.cie.signal_frame {
            merger.scratch.signal_frames.insert(function.key);
        }
    }
}

/// Adds the functions of an object's CFI that have no rows yet.
pub(crate) fn push_cfi<'a>(
    merger: &mut Merger<'a>,
    object: &Object<'a>,
    live: &mut impl FnMut(Field) -> Option<Live>,
    report: &mut dyn FnMut(Note),
    sum: &mut Contribution,
) {
    let end = object.eh_frame.map_or(0, <[u8]>::len);
    push_records(merger, object, SectionOffset(0)..SectionOffset(end), live, report, sum);
}

/// Adds the functions with an FDE in a range of offsets of an object's CFI that have no rows yet.
pub(crate) fn push_records<'a>(
    merger: &mut Merger<'a>,
    object: &Object<'a>,
    range: Range<SectionOffset>,
    live: &mut impl FnMut(Field) -> Option<Live>,
    report: &mut dyn FnMut(Note),
    sum: &mut Contribution,
) {
    let Some(bytes) = object.eh_frame else { return };
    let section = Section::new(SectionKind::EhFrame, bytes, Address(0), merger.arch);
    let Merger { builder, options, scratch, .. } = merger;
    scratch.rowless.sort_by_cached_key(|rowless| rowless.unsupported.function.0);
    let mut omitted = 0;
    let has_table = object.sframe.is_some_and(|bytes| !bytes.is_empty());
    let functions = Functions::limited_between(&section, range.start, range.end, |field| {
        let live = live(Field::EhFrame(field))?;
        let is_wanted = !has_table || wants_cfi(scratch, options.prefer, live.key);
        is_wanted.then_some((live.key, live.extent))
    });
    let count = builder.push_all(functions, &mut |function| {
        omitted += 1;
        report(Note::from(function));
    });
    sum.omitted += omitted;
    sum.from_cfi += count.saturating_sub(omitted);
}

/// Decides whether the rows of a function come from CFI, in an object that also has a table.
fn wants_cfi(scratch: &mut Scratch, prefer: Prefer, key: Key) -> bool {
    let Scratch { covered, rowless, .. } = scratch;
    if prefer == Prefer::Cfi {
        covered.insert(key);
        return true;
    }
    if !covered.is_empty() && covered.contains(key) {
        return false;
    }
    let first = rowless.partition_point(|rowless| rowless.unsupported.function < key);
    for rowless in rowless[first..].iter_mut().take_while(|rowless| rowless.unsupported.function == key) {
        rowless.has_cfi = true;
    }
    true
}
