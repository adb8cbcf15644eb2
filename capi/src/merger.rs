//! Builds the `.sframe` of a link: a merger takes objects and becomes a section.

use core::ffi::c_char;

use cfipack_encoder::sframe::Finish;
use cfipack_format::Key;
use cfipack_format::pool::Serial;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_linker::sframe::{Field, Merger, Note, Section};

use crate::arguments::{arch, write, write_optional};
use crate::cfipack_message;
use crate::cfipack_status::{self, InvalidArgument, NotFound, Refused, Unsupported};
use crate::handle::{self, Failure, Opaque};
use crate::object::{CheckedObject, StartCursor, cfipack_object};
use crate::options::cfipack_sframe_options;
use crate::pool::{Workers, cfipack_pool};
use crate::section::{Finished, Keys, cfipack_section};
use crate::sized_options::options;
use crate::status::call;

/// Counts an object's functions by the source of their rows. Each function is counted once.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_contribution {
    /// Functions whose rows were copied from the object's table.
    pub copied: usize,
    /// Functions whose rows were decoded from the object's table and encoded again.
    pub reencoded: usize,
    /// Functions with rows from call frame information.
    pub from_cfi: usize,
    /// Live functions without rows in the output.
    pub omitted: usize,
    /// Entries of the object's table for discarded functions.
    pub dead: usize,
    /// 1 if the object's table was skipped, in full or in part.
    pub skipped: usize,
}

/// The object's table is not used from some offset on.
pub const CFIPACK_NOTE_SKIPPED: u32 = 1;
/// A live function has no rows in the output.
pub const CFIPACK_NOTE_OMITTED: u32 = 2;
/// A record of `.eh_frame` cannot be read.
pub const CFIPACK_NOTE_UNREAD: u32 = 3;

/// Reports a part of an object that is not in the output.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_note {
    /// The number of the object, from 0 in the order of pushing to its merger.
    pub object: usize,
    /// The function for `CFIPACK_NOTE_OMITTED`, 0 otherwise.
    pub key: u64,
    /// `CFIPACK_NOTE_...`
    pub kind: u32,
    /// 1 if the object is damaged, 0 if the output cannot represent a function of an object that is in order.
    pub is_damage: u32,
    /// The description.
    pub message: cfipack_message,
}

/// Builds the `.sframe` section of a link. Push the objects, then call `cfipack_merger_finish`. The bytes of the
/// objects must stay in memory until then.
#[derive(Debug)]
pub struct cfipack_merger(());

/// The value of a merger.
#[derive(Debug)]
pub(crate) struct Merging {
    pub(crate) merger: Merger<'static>,
    objects: usize,
    notes: Vec<(usize, Note)>,
}

impl Opaque for cfipack_merger {
    type State = Merging;
}

/// Creates a merger for objects of an architecture. `given` may be null for the default options. `message` may be
/// null; otherwise it gets a description of the error. Free the merger with `cfipack_merger_free` or
/// `cfipack_merger_finish`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_new(
    out: *mut *mut cfipack_merger,
    architecture: u32,
    given: *const cfipack_sframe_options,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::create(out, message, || {
            let options = options(given)?.link()?;
            let merger = Merger::new(arch(architecture)?, options);
            let merger = merger.map_err(|error| Failure::new(Unsupported, &error))?;
            Ok(Merging { merger, objects: 0, notes: Vec::new() })
        })
    }
}

/// Creates an empty merger with the same options. Fill it on another thread, and add it with `cfipack_merger_absorb`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_shard(
    merger: *const cfipack_merger,
    out: *mut *mut cfipack_merger,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::create(out, core::ptr::null_mut(), || {
            let merger = handle::get(merger)?.merger.shard();
            Ok(Merging { merger, objects: 0, notes: Vec::new() })
        })
    }
}

/// Creates a copy of a merger, with the same objects and without notes. Use this, for example, to finish one merger
/// now and the other when you know more stubs. The bytes of the objects must stay in memory for both mergers.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_copy(
    merger: *const cfipack_merger,
    out: *mut *mut cfipack_merger,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::create(out, core::ptr::null_mut(), || {
            let from = handle::get(merger)?;
            Ok(Merging { merger: from.merger.clone(), objects: from.objects, notes: Vec::new() })
        })
    }
}

/// Adds the functions of an object. `out` may be null; otherwise it gets the counts of the object's functions.
/// `cfipack_merger_get_note` reports the parts that are not in the output. A damaged object is no error: its readable
/// parts are used.
///
/// # Safety
/// Each pointer is null or points to a value of its type. The bytes of the sections must stay in memory until the
/// merger, its copies, and the merger that absorbs it are finished or freed, or as long as
/// `cfipack_merger_finish_borrowing_objects` says.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_push(
    merger: *mut cfipack_merger,
    object: *const cfipack_object,
    out: *mut cfipack_contribution,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(merger, |merging| {
            let object = CheckedObject::read(object)?;
            // A call that fails must not push the object, so check the pointer first.
            write_optional(out, cfipack_contribution::default())?;
            let (number, notes) = (merging.objects, &mut merging.notes);
            let (mut sframe, mut eh_frame) =
                (StartCursor::new(object.sframe_starts), StartCursor::new(object.eh_frame_starts));
            let live = |field| match field {
                Field::Sframe(at) => sframe.find(at.0.to_u64()),
                Field::EhFrame(at) => eh_frame.find(at.0.to_u64()),
            };
            let contribution =
                merging.merger.push_object(&object.sections, live, |note| notes.push((number, note)));
            merging.objects += 1;
            let contribution = cfipack_contribution {
                copied: contribution.copied.to_usize(),
                reencoded: contribution.reencoded.to_usize(),
                from_cfi: contribution.from_cfi.to_usize(),
                omitted: contribution.omitted.to_usize(),
                dead: contribution.dead.to_usize(),
                skipped: contribution.skipped.to_usize(),
            };
            Ok(write_optional(out, contribution)?)
        })
    }
}

/// Records a function of `size` bytes that has no rows and is in no object's sections, so that no other function's
/// rows are used for its PCs. For example, call this for a thunk that has no rows. Its address is needed when the
/// section is written.
///
/// # Safety
/// `merger` is null or a merger.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_note_omitted(
    merger: *mut cfipack_merger,
    key: u64,
    size: u64,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(merger, |merging| {
            merging.merger.note_omitted(Key(key), size);
            Ok(())
        })
    }
}

/// Adds the functions of a shard, as if its objects had been pushed here, and frees the shard, whatever the status.
/// If `shard` is `merger` itself, the call fails and frees nothing. The same shards in the same order give the same
/// bytes. The bytes of the shard's objects must stay in memory for the merger.
///
/// # Safety
/// Each pointer is null or a merger, and they differ.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_absorb(
    merger: *mut cfipack_merger,
    shard: *mut cfipack_merger,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        let shard = handle::take_shard(shard, merger);
        handle::with(merger, |merging| {
            let shard = shard?;
            merging.merger.absorb(shard.merger, &Serial).map_err(|reason| Failure::new(Refused, &reason))?;
            let first = merging.objects;
            merging.notes.extend(shard.notes.into_iter().map(|(object, note)| (first + object, note)));
            merging.objects += shard.objects;
            Ok(())
        })
    }
}

/// Gets the number of notes about parts of objects that are not in the output.
///
/// # Safety
/// `merger` is null or a merger, `count` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_num_notes(
    merger: *const cfipack_merger,
    count: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    call(|| unsafe { write(count, handle::get(merger)?.notes.len()) })
}

/// Gets a note by its number, from 0. Returns `CFIPACK_STATUS_NOT_FOUND` after the last note.
///
/// # Safety
/// `merger` is null or a merger, `out` null or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_get_note(
    merger: *const cfipack_merger,
    number: usize,
    out: *mut cfipack_note,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let (object, note) = unsafe { handle::get(merger) }?.notes.get(number).ok_or(NotFound)?;
        let (kind, key) = match note {
            Note::Skipped { .. } => (CFIPACK_NOTE_SKIPPED, 0),
            Note::Omitted(unsupported) => (CFIPACK_NOTE_OMITTED, unsupported.function.0),
            Note::Unread(_) => (CFIPACK_NOTE_UNREAD, 0),
        };
        let (is_damage, message) = (note.is_damage().into(), cfipack_message::new(note));
        let note = cfipack_note { object: *object, key, kind, is_damage, message };
        // SAFETY: promised by the caller.
        unsafe { write(out, note) }
    })
}

/// Returns the message of the merger's last call, or an empty string if that call succeeded. The string stays valid
/// until the next call.
///
/// # Safety
/// `merger` is null or a merger.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_message(merger: *const cfipack_merger) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(merger) }
}

/// Finishes the section on the threads of `pool`, which may be null, and frees the merger, whatever the status.
/// `keys` is `CFIPACK_KEYS_...` and describes your keys. The section has copies of the objects' rows.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_finish(
    merger: *mut cfipack_merger,
    keys: u32,
    pool: *const cfipack_pool,
    out: *mut *mut cfipack_section,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { finish(merger, keys, pool, out, Section::into_owned) }
}

/// Does what `cfipack_merger_finish` does, but copies no rows: the section reads them from the objects' bytes, which
/// must stay in memory until the section is freed. This saves the memory and the time of a copy. Use it if your
/// linker keeps its input files mapped until the output is written.
///
/// # Safety
/// Each pointer is null or points to a value of its type. The bytes of the sections that the merger got stay in
/// memory until the section is freed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_finish_borrowing_objects(
    merger: *mut cfipack_merger,
    keys: u32,
    pool: *const cfipack_pool,
    out: *mut *mut cfipack_section,
) -> cfipack_status {
    // SAFETY: promised by the caller, whose promise about the bytes is longer than that for the merger.
    unsafe { finish(merger, keys, pool, out, |section| section) }
}

/// # Safety
/// As for the callers. `keep` copies the rows, or the caller keeps the objects' bytes.
unsafe fn finish(
    merger: *mut cfipack_merger,
    keys: u32,
    pool: *const cfipack_pool,
    out: *mut *mut cfipack_section,
    keep: fn(Section<'static>) -> Section<'static>,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        let merging = handle::take(merger);
        handle::create(out, core::ptr::null_mut(), || {
            let merging = merging.ok_or(InvalidArgument)?;
            let (keys, pool) = (Keys::get(keys)?, Workers::get(pool)?);
            let placed_keys = match keys {
                Keys::Functions => false,
                Keys::Sections => true,
            };
            let finish = Finish::on(&pool).with_placed_keys(placed_keys);
            let section = keep(merging.merger.finish_with(finish));
            Ok(Finished { section, keys, conflicts: Vec::new() })
        })
    }
}

/// Frees a merger. Does nothing for null.
///
/// # Safety
/// `merger` is null or a merger.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_free(merger: *mut cfipack_merger) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(merger) };
}
