//! `__unwind_info` of a link: the section, which needs only addresses.

use core::ffi::c_char;

use cfipack_encoder::unwind_info::WriteError;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{ImageOffset, Key, LsdaKey, PersonalityKey};
use cfipack_linker::unwind_info::{Addresses, Fde, Plan, Section, Warning};

use crate::arguments::{array, array_mut, reference, write};
use crate::cfipack_message;
use crate::cfipack_status::{self, BufferSize, NotFound, Write};
use crate::handle::{self, Failure, Opaque};
use crate::status::call;

/// No address: the function or FDE is not in the output.
pub const CFIPACK_NO_ADDRESS: u32 = u32::MAX;

/// The unwind information of a link's live functions; it needs only addresses.
#[derive(Debug)]
pub struct cfipack_unwind_section(());

/// The state.
#[derive(Debug)]
pub(crate) struct Unplaced {
    section: Section,
    plan: Option<Plan>,
    personalities: Vec<PersonalityKey>,
    /// The FDEs that the table refers to, ascending, with their places among those that the caller is told of.
    fdes: Vec<(Fde, usize)>,
    /// The warnings of the last table.
    warnings: Vec<Warning>,
}

impl Unplaced {
    pub(crate) fn new(section: Section) -> Self {
        let personalities = section.personalities().collect();
        let mut fdes: Vec<_> = section.fdes().map(|(_, fde)| fde).zip(0..).collect();
        fdes.sort_unstable();
        Self { section, plan: None, personalities, fdes, warnings: Vec::new() }
    }
}

impl Opaque for cfipack_unwind_section {
    type State = Unplaced;
}

/// The personalities that the table may name, at most three; each needs a pointer slot with its address. `count` gets their
/// number.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `keys` is writable for `capacity` keys.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_get_personalities(
    section: *const cfipack_unwind_section,
    keys: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let personalities = &unsafe { handle::get(section) }?.personalities;
        // SAFETY: promised by the caller.
        let out = unsafe { array_mut(keys.cast::<core::mem::MaybeUninit<u64>>(), capacity) }?;
        // SAFETY: promised by the caller.
        unsafe { write(count, personalities.len()) }?;
        for (key, out) in personalities.iter().zip(out) {
            out.write(key.0);
        }
        if personalities.len() > capacity { Err(BufferSize) } else { Ok(()) }
    })
}

/// An FDE that the table refers to, and that the output's `__eh_frame` must keep.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_fde {
    /// The function's number.
    pub function: u64,
    /// The offset of its record in the object's `__eh_frame`.
    pub offset: u64,
    /// The object's number.
    pub object: u32,
    /// 0.
    pub reserved: u32,
}

/// The FDEs that the table refers to. `count` gets their number, which may be asked for with a `capacity` of 0;
/// `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `out` is writable for `capacity` FDEs.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_get_fdes(
    section: *const cfipack_unwind_section,
    out: *mut cfipack_fde,
    capacity: usize,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let unplaced = unsafe { handle::get(section) }?;
        // SAFETY: promised by the caller.
        let out = unsafe { array_mut(out.cast::<core::mem::MaybeUninit<cfipack_fde>>(), capacity) }?;
        // SAFETY: promised by the caller.
        unsafe { write(count, unplaced.fdes.len()) }?;
        for ((function, fde), out) in unplaced.section.fdes().zip(out) {
            let (object, offset) = (fde.object, fde.offset.0.to_u64());
            out.write(cfipack_fde { function: function.0, offset, object, reserved: 0 });
        }
        if unplaced.fdes.len() > capacity { Err(BufferSize) } else { Ok(()) }
    })
}

/// The most bytes that the table can have, wherever its functions will lie and in whatever order. Where the order is known,
/// `cfipack_unwind_section_plan` gives the size of the likely table instead.
///
/// # Safety
/// `section` is null or a section, `len` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_max_len(
    section: *const cfipack_unwind_section,
    len: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    call(|| unsafe { write(len, handle::get(section)?.section.max_len()) })
}

/// An offset at an index; none where it is `CFIPACK_NO_ADDRESS`, or the array ends before.
fn at(offsets: &[u32], index: u64) -> Option<u32> {
    let offset = offsets.get(usize::try_from(index).ok()?).copied();
    offset.filter(|&offset| offset != CFIPACK_NO_ADDRESS)
}

/// Plans the table for functions in an order that is known: `len` gets the most bytes that it will have, as a rule those
/// that it will have exactly. `tentative` has a place in the order of each function, in bytes, at the index that is its
/// key: an address in a first layout, or a rank. `growth` bounds how much further the functions may lie apart in the end,
/// in bytes: with ranks, the length of all code.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_plan(
    section: *mut cfipack_unwind_section,
    tentative: *const u32,
    num_tentative: usize,
    growth: u32,
    len: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(section, |unplaced| {
            let tentative = array(tentative, num_tentative)?;
            let plan = unplaced.section.plan(|key| at(tentative, key.0).map(ImageOffset), growth);
            let plan = plan.map_err(write_failure)?;
            write(len, plan.max_len())?;
            unplaced.plan = Some(plan);
            Ok(())
        })
    }
}

fn write_failure(error: WriteError) -> Failure {
    let status = match error {
        WriteError::OutputLength { .. } => BufferSize,
        _ => Write,
    };
    Failure::new(status, &error)
}

/// The places in a link's output of what the table speaks of, in bytes from the image's Mach-O header; `CFIPACK_NO_ADDRESS` for
/// what is not there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_unwind_places {
    /// `sizeof(cfipack_unwind_places)`
    pub size: u32,
    /// The end of the code that the table speaks for; 0 if that is the end of the last function.
    pub end: u32,
    /// By key: functions.
    pub functions: *const u32,
    /// The length of `functions`.
    pub num_functions: usize,
    /// By key: LSDAs.
    pub lsdas: *const u32,
    /// The length of `lsdas`.
    pub num_lsdas: usize,
    /// In the order of `cfipack_unwind_section_get_fdes`: FDEs, in bytes from the start of the output's `__eh_frame`.
    pub fdes: *const u32,
    /// The length of `fdes`.
    pub num_fdes: usize,
    /// In the order of `cfipack_unwind_section_get_personalities`: the pointer slots that hold their addresses.
    pub slots: *const u32,
    /// The length of `slots`.
    pub num_slots: usize,
}

/// The arrays of [`cfipack_unwind_places`].
struct Places<'a> {
    functions: &'a [u32],
    lsdas: &'a [u32],
    fdes: &'a [u32],
    known: &'a [(Fde, usize)],
}

impl Addresses for Places<'_> {
    fn function(&self, function: Key) -> Option<ImageOffset> {
        at(self.functions, function.0).map(ImageOffset)
    }

    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        at(self.lsdas, lsda.0.get() - 1).map(ImageOffset)
    }

    fn fde(&self, fde: Fde) -> Option<u32> {
        let found = self.known.binary_search_by_key(&fde, |&(known, _)| known).ok()?;
        at(self.fdes, self.known[found].1.to_u64())
    }
}

/// Lays the table out and writes it to the front of `out`; the rest is set to zero. `table_len` gets the bytes of the table; 0
/// where there is none. It can be written again with other addresses.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `out` is writable for `len` bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_write(
    section: *mut cfipack_unwind_section,
    places: *const cfipack_unwind_places,
    out: *mut u8,
    len: usize,
    table_len: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(section, |unplaced| {
            let places = reference(places)?;
            if places.size.to_usize() != size_of::<cfipack_unwind_places>() {
                return Err(Failure::argument(&"size is not that of cfipack_unwind_places"));
            }
            let slots: &[u32] = array(places.slots, places.num_slots)?;
            if slots.len() < unplaced.personalities.len() {
                return Err(Failure::argument(&"there are fewer slots than personalities"));
            }
            let out = array_mut(out, len)?;
            let addresses = Places {
                functions: array(places.functions, places.num_functions)?,
                lsdas: array(places.lsdas, places.num_lsdas)?,
                fdes: array(places.fdes, places.num_fdes)?,
                known: &unplaced.fdes,
            };
            let end = (places.end != 0).then_some(ImageOffset(places.end));
            let table =
                unplaced.section.place(unplaced.plan.as_ref(), end, &addresses).map_err(write_failure)?;
            write(table_len, table.len())?;
            let slot_of = |key| {
                let number = unplaced.personalities.iter().position(|&known| known == key);
                ImageOffset(number.map_or(0, |number| slots[number]))
            };
            table.write(out, slot_of).map_err(write_failure)?;
            unplaced.warnings = table.warnings().to_vec();
            Ok(())
        })
    }
}

/// The number of warnings: of what objects describe, and of the table that was written last.
///
/// # Safety
/// `section` is null or a section, `count` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_num_warnings(
    section: *const cfipack_unwind_section,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let unplaced = unsafe { handle::get(section) }?;
        // SAFETY: promised by the caller.
        unsafe { write(count, unplaced.section.warnings().len() + unplaced.warnings.len()) }
    })
}

/// A warning in words, by its number from 0; `CFIPACK_STATUS_NOT_FOUND` after the last one.
///
/// # Safety
/// `section` is null or a section, `out` null or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_get_warning(
    section: *const cfipack_unwind_section,
    number: usize,
    out: *mut cfipack_message,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let unplaced = unsafe { handle::get(section) }?;
        let warning =
            unplaced.section.warnings().iter().chain(&unplaced.warnings).nth(number).ok_or(NotFound)?;
        // SAFETY: promised by the caller.
        unsafe { write(out, cfipack_message::new(warning)) }
    })
}

/// The message of the section's last call; empty if that had no error. It stays until the next call.
///
/// # Safety
/// `section` is null or a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_message(
    section: *const cfipack_unwind_section,
) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(section) }
}

/// Frees a section; null is nothing.
///
/// # Safety
/// `section` is null or a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_free(section: *mut cfipack_unwind_section) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(section) };
}
