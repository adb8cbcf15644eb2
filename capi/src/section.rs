//! `.sframe` of a link: the section, which needs only addresses.

use core::ffi::c_char;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cfipack_encoder::sframe::{At, Conflict, WriteError};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Relocation, Section};

use crate::arguments::{array, array_mut, write};
use crate::cfipack_status::{self, BufferSize, InvalidArgument, Write};
use crate::handle::{self, Failure, Opaque};
use crate::pool::{Workers, cfipack_pool};
use crate::status::call;

/// A `.sframe` section that needs only addresses. Its size is exact, and it can be written again after each relayout.
#[derive(Debug)]
pub struct cfipack_section(());

/// The state.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) section: Section<'static>,
    pub(crate) keys: Keys,
    /// Of the last call that wrote it.
    pub(crate) conflicts: Vec<Conflict>,
}

impl Opaque for cfipack_section {
    type State = Finished;
}

/// A key is the index of the function's address: functions are best numbered from 0. Of functions that share PCs
/// `cfipack_section_write` omits some.
pub const CFIPACK_KEYS_FUNCTIONS: u32 = 0;
/// The upper 32 bits of a key are the index of the address of an input section, the lower the function's offset in it:
/// there is one address for each section, and functions that share PCs are told apart, or omitted.
pub const CFIPACK_KEYS_SECTIONS: u32 = 1;

/// The kind of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    Functions,
    Sections,
}

impl Keys {
    pub(crate) fn get(number: u32) -> Result<Self, cfipack_status> {
        match number {
            CFIPACK_KEYS_FUNCTIONS => Ok(Self::Functions),
            CFIPACK_KEYS_SECTIONS => Ok(Self::Sections),
            _ => Err(InvalidArgument),
        }
    }
}

/// Bytes of the section, exact.
///
/// # Safety
/// `section` is null or a section, `len` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_len(
    section: *const cfipack_section,
    len: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    call(|| unsafe { write(len, handle::get(section)?.section.len()) })
}

/// Returns the number of entries of its function index. A linker omits a section without any.
///
/// # Safety
/// `section` is null or a section, `count` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_num_functions(
    section: *const cfipack_section,
    count: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    call(|| unsafe { write(count, handle::get(section)?.section.num_fdes()) })
}

/// The addresses of functions, by key.
struct Addresses<'a> {
    all: &'a [u64],
    keys: Keys,
    /// True if a key is not among them.
    has_failed: AtomicBool,
}

impl<'a> Addresses<'a> {
    fn new(all: &'a [u64], keys: Keys) -> Self {
        Self { all, keys, has_failed: AtomicBool::new(false) }
    }

    #[inline]
    fn of(&self, Key(key): Key) -> Address {
        let (index, offset) = match self.keys {
            Keys::Functions => (key, 0),
            Keys::Sections => (key >> 32, key & u64::from(u32::MAX)),
        };
        let start = usize::try_from(index).ok().and_then(|index| self.all.get(index));
        if start.is_none() {
            self.has_failed.store(true, Relaxed);
        }
        Address(start.map_or(0, |start| start.wrapping_add(offset)))
    }

    fn check(&self) -> Result<(), Failure> {
        match self.has_failed.load(Relaxed) {
            true => Err(Failure::argument(&"a key does not lead into the array of addresses")),
            false => Ok(()),
        }
    }
}

/// Omits the functions that version 2 cannot reach from `address`, whose distance does not fit 32 bits. The section is
/// smaller then. `addresses` is as for `cfipack_section_write`.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_omit_distant(
    section: *mut cfipack_section,
    address: u64,
    addresses: *const u64,
    num_addresses: usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(section, |section| {
            let addresses = Addresses::new(array(addresses, num_addresses)?, section.keys);
            let mut less = section.section.clone();
            less.omit_distant(Address(address), |key| addresses.of(key));
            addresses.check()?;
            section.section = less;
            Ok(())
        })
    }
}

/// Functions that the section omits since it was finished: those that it could not tell apart, or that lie too far
/// away. `count` gets their number, `keys` those that fit; either may be asked for alone.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `keys` is writable for `capacity` keys.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_get_omitted(
    section: *const cfipack_section,
    keys: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let omitted = unsafe { handle::get(section) }?.section.omitted();
        // SAFETY: promised by the caller.
        let out = unsafe { array_mut(keys.cast::<core::mem::MaybeUninit<u64>>(), capacity) }?;
        // SAFETY: promised by the caller.
        unsafe { write(count, omitted.len()) }?;
        for (unsupported, out) in omitted.iter().zip(out) {
            out.write(unsupported.function.0);
        }
        if omitted.len() > capacity { Err(BufferSize) } else { Ok(()) }
    })
}

/// Writes the section of a linked file, which lies at `address`, into `out` of exactly `cfipack_section_len` bytes, on
/// the threads of `pool`, which may be null. `addresses` has the address of each function, omitted ones too, or of each
/// input section, as `CFIPACK_KEYS_...` describes. Functions that turn out to share PCs are no error:
/// `cfipack_section_get_conflicts` has those that are omitted.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `out` is writable for `len` bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_write(
    section: *mut cfipack_section,
    out: *mut u8,
    len: usize,
    address: u64,
    addresses: *const u64,
    num_addresses: usize,
    pool: *const cfipack_pool,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(section, |section| {
            let addresses = Addresses::new(array(addresses, num_addresses)?, section.keys);
            let out = array_mut(out, len)?;
            let pool = Workers::get(pool)?;
            let written =
                section.section.write(out, At::on(Address(address), &pool), |key| addresses.of(key));
            addresses.check()?;
            section.conflicts = written.map_err(write_failure)?.conflicts;
            Ok(())
        })
    }
}

/// A function that a section omits since another one starts in it, or where it does.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_conflict {
    /// The key of the function that has no rows.
    pub key: u64,
    /// The key of the other one.
    pub other: u64,
}

/// Functions that the last `cfipack_section_write` omitted since they turned out to share PCs with others. `count` gets
/// their number, which may be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if there are more than
/// `capacity`.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `out` is writable for `capacity` conflicts.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_get_conflicts(
    section: *const cfipack_section,
    out: *mut cfipack_conflict,
    capacity: usize,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let conflicts = &unsafe { handle::get(section) }?.conflicts;
        // SAFETY: promised by the caller.
        let out = unsafe { array_mut(out.cast::<core::mem::MaybeUninit<cfipack_conflict>>(), capacity) }?;
        // SAFETY: promised by the caller.
        unsafe { write(count, conflicts.len()) }?;
        for (Conflict { function, other, .. }, out) in conflicts.iter().zip(out) {
            out.write(cfipack_conflict { key: function.0, other: other.0 });
        }
        if conflicts.len() > capacity { Err(BufferSize) } else { Ok(()) }
    })
}

fn write_failure(error: WriteError) -> Failure {
    let status = match error {
        WriteError::OutputLength { .. } => BufferSize,
        _ => Write,
    };
    Failure::new(status, &error)
}

/// Writes the section of a relocatable file into `out` of exactly `cfipack_section_len` bytes. Its relocations go with it.
///
/// # Safety
/// `section` is null or a section; `out` is writable for `len` bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_write_relocatable(
    section: *mut cfipack_section,
    out: *mut u8,
    len: usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(section, |section| {
            section.section.write_relocatable(array_mut(out, len)?).map_err(write_failure)
        })
    }
}

/// A relocation of the section in a relocatable file: the value is the address of the function plus the addend, less that
/// of the field.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_relocation {
    /// The offset of the field in the section.
    pub offset: u64,
    /// The function.
    pub key: u64,
    /// The difference of the addend to the function's start, in bytes.
    pub addend: u64,
    /// The ELF relocation type, as GNU `as` has it: `R_X86_64_PC64`, ...
    pub elf_type: u32,
    /// 0.
    pub reserved: u32,
}

/// The relocations of the section in a relocatable file, in the order of their fields. `count` gets their number, which may
/// be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `out` is writable for `capacity` relocations.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_get_relocations(
    section: *const cfipack_section,
    out: *mut cfipack_relocation,
    capacity: usize,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = &unsafe { handle::get(section) }?.section;
        // SAFETY: promised by the caller.
        let out = unsafe { array_mut(out.cast::<core::mem::MaybeUninit<cfipack_relocation>>(), capacity) }?;
        // SAFETY: promised by the caller.
        unsafe { write(count, section.num_fdes()) }?;
        for (Relocation { offset, kind, function, addend, .. }, out) in section.relocations().zip(out) {
            let elf_type = kind.elf_type(section.arch()).map_or(0, |relocation| relocation.number);
            out.write(cfipack_relocation {
                offset: offset.0.to_u64(),
                key: function.0,
                addend,
                elf_type,
                reserved: 0,
            });
        }
        if section.num_fdes() > capacity { Err(BufferSize) } else { Ok(()) }
    })
}

/// The message of the section's last call; empty if that had no error. It stays until the next call.
///
/// # Safety
/// `section` is null or a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_message(section: *const cfipack_section) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(section) }
}

/// Frees a section; null is nothing.
///
/// # Safety
/// `section` is null or a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_free(section: *mut cfipack_section) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(section) };
}
