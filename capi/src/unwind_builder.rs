//! `__unwind_info` of a link: takes the unwind information of Mach-O objects, and becomes a section.

use core::ffi::c_char;
use core::num::NonZeroU64;

use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Key, LsdaKey, PersonalityKey};
use cfipack_linker::unwind_info::{Builder, Field, Input, Part, Resolve};

use crate::arguments::{arch, array, reference};
use crate::cfipack_message;
use crate::cfipack_status::{self, InvalidArgument, Unsupported};
use crate::handle::{self, Failure, Opaque};
use crate::options::cfipack_unwind_info_options;
use crate::sized_options::options;
use crate::unwind_section::{Unplaced, cfipack_unwind_section};

/// A field of `__LD,__compact_unwind`.
pub const CFIPACK_PART_COMPACT_UNWIND: u32 = 0;
/// A field of `__TEXT,__eh_frame`.
pub const CFIPACK_PART_EH_FRAME: u32 = 1;

/// The target of a field's relocation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_reference {
    /// `CFIPACK_PART_...`
    pub part: u32,
    /// The offset of the field in that section.
    pub offset: u32,
    /// The number of the function, LSDA or personality that it leads to. Functions, LSDAs and personalities are numbered
    /// apart. A number is the index of its address when the table is written: best numbered from 0.
    pub key: u64,
}

/// The thing at an address of an object.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_place {
    /// The address in the object.
    pub address: u64,
    /// The number of the function or LSDA.
    pub key: u64,
}

/// The unwind information of an object, not relocated.
///
/// A field is looked up in `references`. If it is not there (distances in the `__eh_frame` of x86-64 have no relocation)
/// or has a relocation that names a section, what it leads to is looked up by the address that stands in it, in `functions`
/// or `lsdas`. A function that is found nowhere is discarded.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_unwind_object {
    /// `sizeof(cfipack_unwind_object)`
    pub size: u32,
    /// A number for the object: FDEs and warnings carry it.
    pub object: u32,
    /// Bytes of `__LD,__compact_unwind`; null without one.
    pub compact_unwind: *const u8,
    /// The length of `compact_unwind` in bytes.
    pub compact_unwind_len: usize,
    /// Bytes of `__TEXT,__eh_frame`; null without one.
    pub eh_frame: *const u8,
    /// The length of `eh_frame` in bytes.
    pub eh_frame_len: usize,
    /// The address of `__eh_frame` in the object.
    pub eh_frame_address: u64,
    /// The targets of relocations that name symbols, ascending by part, then offset.
    pub references: *const cfipack_reference,
    /// The length of `references`.
    pub num_references: usize,
    /// The functions that are part of the output, ascending by address.
    pub functions: *const cfipack_place,
    /// The length of `functions`.
    pub num_functions: usize,
    /// LSDAs, ascending by address.
    pub lsdas: *const cfipack_place,
    /// The length of `lsdas`.
    pub num_lsdas: usize,
}

/// Collects the unwind information of objects, and becomes a section.
#[derive(Debug)]
pub struct cfipack_unwind_builder(());

impl Opaque for cfipack_unwind_builder {
    type State = Builder;
}

/// Makes a builder for x86-64, i386, arm64 or arm64_32. `given` may be null: the defaults. `message`, which may be null,
/// gets what is wrong. `cfipack_unwind_builder_free` or `cfipack_unwind_builder_finish` frees it.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_new(
    out: *mut *mut cfipack_unwind_builder,
    architecture: u32,
    given: *const cfipack_unwind_info_options,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::create(out, message, || {
            let options = options(given)?.get()?;
            let builder = Builder::new(arch(architecture)?, options);
            builder.map_err(|error| Failure::new(Unsupported, &error))
        })
    }
}

/// Makes a builder with the same options, for a thread of its own; `cfipack_unwind_builder_absorb` adds what it has taken.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_shard(
    builder: *const cfipack_unwind_builder,
    out: *mut *mut cfipack_unwind_builder,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::create(out, core::ptr::null_mut(), || Ok(handle::get(builder)?.shard())) }
}

/// Adds the unwind information of an object, whose bytes need not stay. A damaged object is no error: what can be read of
/// it is used, and the rest is a warning of the section.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_push(
    builder: *mut cfipack_unwind_builder,
    object: *const cfipack_unwind_object,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(builder, |builder| {
            let object = reference(object)?;
            if object.size.to_usize() != size_of::<cfipack_unwind_object>() {
                return Err(Failure::argument(&"size is not that of cfipack_unwind_object"));
            }
            let compact_unwind = array(object.compact_unwind, object.compact_unwind_len)?;
            let eh_frame = array(object.eh_frame, object.eh_frame_len)?;
            let input = Input::new(object.object)
                .with_compact_unwind(compact_unwind)
                .with_eh_frame(eh_frame, Address(object.eh_frame_address));
            builder.push(&input, &mut Known::read(object)?);
            Ok(())
        })
    }
}

/// The caller's knowledge of an object.
struct Known<'a> {
    references: &'a [cfipack_reference],
    functions: &'a [cfipack_place],
    lsdas: &'a [cfipack_place],
}

impl Known<'_> {
    /// # Safety
    /// As [`cfipack_unwind_builder_push`].
    unsafe fn read(object: &cfipack_unwind_object) -> Result<Self, Failure> {
        // SAFETY: promised by the caller.
        let (references, functions, lsdas) = unsafe {
            (
                array(object.references, object.num_references)?,
                array(object.functions, object.num_functions)?,
                array(object.lsdas, object.num_lsdas)?,
            )
        };
        let place = |reference: &cfipack_reference| (reference.part, reference.offset);
        if !references.is_sorted_by(|a, b| place(a) < place(b)) {
            return Err(Failure::argument(&"references do not ascend"));
        }
        for places in [functions, lsdas] {
            if !places.is_sorted_by(|a: &cfipack_place, b| a.address < b.address) {
                return Err(Failure::argument(&"places do not ascend by address"));
            }
        }
        Ok(Self { references, functions, lsdas })
    }

    /// The key that a field's relocation leads to.
    fn referenced(&self, field: Field) -> Option<u64> {
        let part = match field.part {
            Part::CompactUnwind => CFIPACK_PART_COMPACT_UNWIND,
            Part::EhFrame => CFIPACK_PART_EH_FRAME,
        };
        let place = (part, u32::try_from(field.offset.0).ok()?);
        let found = self.references.binary_search_by_key(&place, |known| (known.part, known.offset));
        found.ok().map(|at| self.references[at].key)
    }
}

/// The key of what lies at the address that a field leads to as it stands.
fn placed(places: &[cfipack_place], field: Field) -> Option<u64> {
    let address = field.target?.0;
    places.binary_search_by_key(&address, |place| place.address).ok().map(|at| places[at].key)
}

/// The key of an LSDA's number: not zero.
fn lsda_key(number: u64) -> Option<LsdaKey> {
    number.checked_add(1).and_then(NonZeroU64::new).map(LsdaKey)
}

impl Resolve for Known<'_> {
    fn function(&mut self, field: Field) -> Option<Key> {
        self.referenced(field).or_else(|| placed(self.functions, field)).map(Key)
    }

    fn personality(&mut self, field: Field) -> Option<PersonalityKey> {
        self.referenced(field).map(PersonalityKey)
    }

    fn lsda(&mut self, field: Field) -> Option<LsdaKey> {
        self.referenced(field).or_else(|| placed(self.lsdas, field)).and_then(lsda_key)
    }
}

/// Adds code that may have no unwind information, so that the entry of the function before does not speak for it.
///
/// # Safety
/// `builder` is null or a builder.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_push_code(
    builder: *mut cfipack_unwind_builder,
    key: u64,
    length: u32,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(builder, |builder| {
            builder.push_code(Key(key), length);
            Ok(())
        })
    }
}

/// Adds what a shard has taken, as if its objects had been pushed here, and frees the shard, whatever the status; a builder
/// that is given as its own shard stays.
///
/// # Safety
/// `builder` and `shard` are null or builders, and not the same one.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_absorb(
    builder: *mut cfipack_unwind_builder,
    shard: *mut cfipack_unwind_builder,
) -> cfipack_status {
    if core::ptr::eq(builder, shard) {
        return InvalidArgument;
    }
    // SAFETY: promised by the caller.
    unsafe {
        let shard = handle::take(shard);
        handle::with(builder, |builder| {
            builder.absorb(shard.ok_or(InvalidArgument)?);
            Ok(())
        })
    }
}

/// The message of the builder's last call; empty if that had no error. It stays until the next call.
///
/// # Safety
/// `builder` is null or a builder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_message(
    builder: *const cfipack_unwind_builder,
) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(builder) }
}

/// Decides what does not depend on addresses, and frees the builder, whatever the status.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_finish(
    builder: *mut cfipack_unwind_builder,
    out: *mut *mut cfipack_unwind_section,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        let builder = handle::take(builder);
        handle::create(out, core::ptr::null_mut(), || {
            Ok(Unplaced::new(builder.ok_or(InvalidArgument)?.finish()))
        })
    }
}

/// Frees a builder; null is nothing.
///
/// # Safety
/// `builder` is null or a builder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_free(builder: *mut cfipack_unwind_builder) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(builder) };
}
