//! The finished `__unwind_info` of a link, which lacks only addresses.

use core::ffi::c_char;

use cfipack_encoder::unwind_info::WriteError;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{ImageOffset, Key, LsdaKey, PersonalityKey};
use cfipack_linker::unwind_info::{Addresses, Fde, Plan, Section, Warning};

use crate::arguments::{array, array_mut, reference, write, write_list};
use crate::cfipack_message;
use crate::cfipack_status::{self, BufferSize, NotFound, Write};
use crate::handle::{self, Failure, Opaque};
use crate::status::call;

/// The place of a function, LSDA or FDE that is not in the output.
pub const CFIPACK_NO_ADDRESS: u32 = u32::MAX;

/// The unwind information of a link's live functions. It lacks only addresses.
#[derive(Debug)]
pub struct cfipack_unwind_section(());

/// The value of a section.
#[derive(Debug)]
pub(crate) struct Unplaced {
    section: Section,
    plan: Option<Plan>,
    personalities: Vec<PersonalityKey>,
    /// The FDEs that the table refers to, ascending. The number is the FDE's index in the array that the caller gets.
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

/// Gets the personalities that the table may name, at most three. Each personality needs a pointer slot that holds
/// its address. `count` gets their number.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `keys` is writable for `capacity` keys.
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
        let values = personalities.iter().map(|key| Ok(key.0));
        // SAFETY: promised by the caller.
        unsafe { write_list(keys, capacity, count, personalities.len(), values) }
    })
}

/// An FDE that the table refers to. The output's `__eh_frame` must keep it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_fde {
    /// The function's number.
    pub function: u64,
    /// The offset of the FDE in the object's `__eh_frame`.
    pub offset: u64,
    /// The object's number.
    pub object: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Gets the FDEs that the table refers to. `count` gets their number; pass a `capacity` of 0 to get only the number.
/// Returns `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `out` is writable for `capacity` FDEs.
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
        let values = unplaced.section.fdes().map(|(function, fde)| {
            let (object, offset) = (fde.object, fde.offset.0.to_u64());
            Ok(cfipack_fde { function: function.0, offset, object, reserved: 0 })
        });
        // SAFETY: promised by the caller.
        unsafe { write_list(out, capacity, count, unplaced.fdes.len(), values) }
    })
}

/// Gets an upper bound of the table's size in bytes, for any order and any addresses of the functions. If you know
/// the order, use `cfipack_unwind_section_plan`, which returns the size of the likely table.
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

/// Returns the offset at an index, or `None` if it is `CFIPACK_NO_ADDRESS` or the array is shorter.
fn at(offsets: &[u32], index: u64) -> Option<u32> {
    let offset = *offsets.get(usize::try_from(index).ok()?)?;
    (offset != CFIPACK_NO_ADDRESS).then_some(offset)
}

/// Plans the table for an order of the functions that you know already. `len` gets an upper bound of the table's size
/// in bytes, and the size of real tables is nearly always exactly this bound. `tentative` has a place in the order
/// for each function, at the index that is the function's key. A place is an address in a first layout, in bytes, or
/// a rank. `growth` bounds how much further apart the functions may lie in the final layout, in bytes. With ranks,
/// pass the length of all code.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
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

/// The places of functions, LSDAs, FDEs and pointer slots in the output, in bytes from the image's Mach-O header. Use
/// `CFIPACK_NO_ADDRESS` for anything that is not in the output.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_unwind_places {
    /// `sizeof(cfipack_unwind_places)`
    pub size: u32,
    /// The end of the code that the table covers, or 0 for the end of the last function.
    pub end: u32,
    /// The places of functions, by key.
    pub functions: *const u32,
    /// The number of elements in `functions`.
    pub num_functions: usize,
    /// The places of LSDAs, by key.
    pub lsdas: *const u32,
    /// The number of elements in `lsdas`.
    pub num_lsdas: usize,
    /// The places of FDEs, in bytes from the start of the output's `__eh_frame`, in the order of
    /// `cfipack_unwind_section_get_fdes`.
    pub fdes: *const u32,
    /// The number of elements in `fdes`.
    pub num_fdes: usize,
    /// The pointer slots that hold the addresses of personalities, in the order of
    /// `cfipack_unwind_section_get_personalities`.
    pub slots: *const u32,
    /// The number of elements in `slots`.
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

/// Lays the table out and writes it to the start of `out`; the rest of `out` is set to zero. `table_len` gets the
/// size of the table in bytes, or 0 if there is no table. You can write it again with other addresses.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `out` is writable for `len` bytes.
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
            let written = table.write(out, |key| {
                let number = unplaced.personalities.iter().position(|&known| known == key);
                ImageOffset(number.map_or(0, |number| slots[number]))
            });
            written.map_err(write_failure)?;
            unplaced.warnings = table.warnings().to_vec();
            Ok(())
        })
    }
}

/// Gets the number of warnings about the objects and about the table that was written last.
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

/// Gets the text of a warning by its number, from 0. Returns `CFIPACK_STATUS_NOT_FOUND` after the last warning.
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

/// Returns the message of the section's last call, or an empty string if that call succeeded. The string stays valid
/// until the next call.
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

/// Frees a section. Does nothing for null.
///
/// # Safety
/// `section` is null or a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_section_free(section: *mut cfipack_unwind_section) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(section) };
}
