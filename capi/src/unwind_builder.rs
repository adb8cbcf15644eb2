//! Builds the `__unwind_info` of a link: a builder takes Mach-O objects and becomes a section.

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

/// Where the relocation of a field leads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_reference {
    /// `CFIPACK_PART_...`
    pub part: u32,
    /// The offset of the field in that section.
    pub offset: u32,
    /// The number of the function, LSDA or personality that the relocation leads to. Functions, LSDAs and
    /// personalities are numbered separately. When the table is written, the number is the index of an address, so
    /// number from 0.
    pub key: u64,
}

/// A function or LSDA at an address of an object.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_place {
    /// The address in the object.
    pub address: u64,
    /// The number of the function or LSDA.
    pub key: u64,
}

/// The unwind sections of an object, before relocation.
///
/// The library looks up each field in `references`. A field may be missing there because it has no relocation
/// (distances in the `__eh_frame` of x86-64) or a relocation that names a section. Then the library takes the address
/// that is stored in the field, and looks it up in `functions` or `lsdas`. A function that is in neither array is
/// discarded.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_unwind_object {
    /// `sizeof(cfipack_unwind_object)`
    pub size: u32,
    /// A number that you choose for the object. FDEs and warnings carry it.
    pub object: u32,
    /// The bytes of `__LD,__compact_unwind`, or null if there is no such section.
    pub compact_unwind: *const u8,
    /// The number of bytes in `compact_unwind`.
    pub compact_unwind_len: usize,
    /// The bytes of `__TEXT,__eh_frame`, or null if there is no such section.
    pub eh_frame: *const u8,
    /// The number of bytes in `eh_frame`.
    pub eh_frame_len: usize,
    /// The address of `__eh_frame` in the object.
    pub eh_frame_address: u64,
    /// The relocations that name symbols, ascending by part, then by offset.
    pub references: *const cfipack_reference,
    /// The number of elements in `references`.
    pub num_references: usize,
    /// The live functions, ascending by address.
    pub functions: *const cfipack_place,
    /// The number of elements in `functions`.
    pub num_functions: usize,
    /// The LSDAs, ascending by address.
    pub lsdas: *const cfipack_place,
    /// The number of elements in `lsdas`.
    pub num_lsdas: usize,
}

/// Builds the `__unwind_info` section of a link. Push the objects, then call `cfipack_unwind_builder_finish`.
#[derive(Debug)]
pub struct cfipack_unwind_builder(());

impl Opaque for cfipack_unwind_builder {
    type State = Builder;
}

/// Creates a builder for x86-64, i386, arm64 or arm64_32. `given` may be null for the default options. `message` may
/// be null; otherwise it gets a description of the error. Free the builder with `cfipack_unwind_builder_free` or
/// `cfipack_unwind_builder_finish`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
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

/// Creates an empty builder with the same options. Fill it on another thread, and add it with
/// `cfipack_unwind_builder_absorb`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_shard(
    builder: *const cfipack_unwind_builder,
    out: *mut *mut cfipack_unwind_builder,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::create(out, core::ptr::null_mut(), || Ok(handle::get(builder)?.shard())) }
}

/// Adds the unwind information of an object. The bytes of the object need not stay in memory. A damaged object is no
/// error: its readable parts are used, and the section has a warning about the rest.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
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
            builder.push(&input, &mut FieldTargets::read(object)?);
            Ok(())
        })
    }
}

/// The targets of an object's fields, as the caller gives them.
struct FieldTargets<'a> {
    references: &'a [cfipack_reference],
    functions: &'a [cfipack_place],
    lsdas: &'a [cfipack_place],
}

impl FieldTargets<'_> {
    /// # Safety
    /// The conditions of [`cfipack_unwind_builder_push`].
    unsafe fn read(object: &cfipack_unwind_object) -> Result<Self, Failure> {
        // SAFETY: promised by the caller.
        let (references, functions, lsdas) = unsafe {
            (
                array(object.references, object.num_references)?,
                array(object.functions, object.num_functions)?,
                array(object.lsdas, object.num_lsdas)?,
            )
        };
        if !references.is_sorted_by(|a, b| (a.part, a.offset) < (b.part, b.offset)) {
            return Err(Failure::argument(&"references do not ascend"));
        }
        for places in [functions, lsdas] {
            if !places.is_sorted_by(|a: &cfipack_place, b| a.address < b.address) {
                return Err(Failure::argument(&"places do not ascend by address"));
            }
        }
        Ok(Self { references, functions, lsdas })
    }

    /// Returns the key that the relocation of a field leads to.
    fn referenced(&self, field: Field) -> Option<u64> {
        let part = match field.part {
            Part::CompactUnwind => CFIPACK_PART_COMPACT_UNWIND,
            Part::EhFrame => CFIPACK_PART_EH_FRAME,
        };
        let place = (part, u32::try_from(field.offset.0).ok()?);
        let found = self.references.binary_search_by_key(&place, |known| (known.part, known.offset));
        Some(self.references[found.ok()?].key)
    }
}

/// Returns the key of the place at the address that is stored in a field.
fn placed(places: &[cfipack_place], field: Field) -> Option<u64> {
    let address = field.target?.0;
    let found = places.binary_search_by_key(&address, |place| place.address).ok()?;
    Some(places[found].key)
}

/// Converts the number of an LSDA to a key, which is never zero.
fn lsda_key(number: u64) -> Option<LsdaKey> {
    Some(LsdaKey(NonZeroU64::new(number.checked_add(1)?)?))
}

impl Resolve for FieldTargets<'_> {
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

/// Adds code that may have no unwind information. Without this call, the entry of the function before it would also
/// cover this code.
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

/// Adds the contents of a shard, as if its objects had been pushed here, and frees the shard, whatever the status. If
/// `shard` is `builder` itself, the call fails and frees nothing.
///
/// # Safety
/// Each pointer is null or a builder, and they differ.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_absorb(
    builder: *mut cfipack_unwind_builder,
    shard: *mut cfipack_unwind_builder,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        let shard = handle::take_shard(shard, builder);
        handle::with(builder, |builder| {
            builder.absorb(shard?);
            Ok(())
        })
    }
}

/// Returns the message of the builder's last call, or an empty string if that call succeeded. The string stays valid
/// until the next call.
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

/// Finishes the section and frees the builder, whatever the status. This decides everything that does not depend on
/// addresses.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
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

/// Frees a builder. Does nothing for null.
///
/// # Safety
/// `builder` is null or a builder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_builder_free(builder: *mut cfipack_unwind_builder) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(builder) };
}
