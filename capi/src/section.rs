//! The finished `.sframe` of a link, which lacks only addresses.

use core::ffi::c_char;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cfipack_encoder::sframe::{At, Conflict, WriteError};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Relocation, Section};

use crate::arguments::{array, array_mut, write, write_list};
use crate::cfipack_status::{self, BufferSize, InvalidArgument, Write};
use crate::handle::{self, Failure, Opaque};
use crate::pool::{Workers, cfipack_pool};
use crate::status::call;

/// A finished `.sframe` section that lacks only addresses. Its size is exact. You can write it again after each
/// relayout.
#[derive(Debug)]
pub struct cfipack_section(());

/// The value of a section.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) section: Section<'static>,
    pub(crate) keys: Keys,
    /// The conflicts of the last call that wrote the section.
    pub(crate) conflicts: Vec<Conflict>,
}

impl Opaque for cfipack_section {
    type State = Finished;
}

/// A key is the index of the function's address, so number functions from 0. If functions share PCs,
/// `cfipack_section_write` omits some of them.
pub const CFIPACK_KEYS_FUNCTIONS: u32 = 0;
/// The upper 32 bits of a key are the index of an input section's address, and the lower 32 bits are the function's
/// offset in the input section. You give one address per input section. Functions that share PCs are separated or
/// omitted when the section is finished.
pub const CFIPACK_KEYS_SECTIONS: u32 = 1;

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

/// Gets the exact size of the section in bytes.
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

/// Gets the number of entries in the function index. A linker omits a section without entries.
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

/// The addresses that the caller gives for keys.
struct Addresses<'a> {
    all: &'a [u64],
    keys: Keys,
    /// True if a key had no address.
    has_failed: AtomicBool,
}

impl<'a> Addresses<'a> {
    fn new(all: &'a [u64], keys: Keys) -> Self {
        Self { all, keys, has_failed: AtomicBool::new(false) }
    }

    #[inline]
    fn address_of(&self, Key(key): Key) -> Address {
        let (index, offset) = match self.keys {
            Keys::Functions => (key, 0),
            Keys::Sections => (key >> 32, key & u64::from(u32::MAX)),
        };
        let Some(start) = usize::try_from(index).ok().and_then(|index| self.all.get(index)) else {
            self.has_failed.store(true, Relaxed);
            return Address(0);
        };
        Address(start.wrapping_add(offset))
    }

    fn check(&self) -> Result<(), Failure> {
        if self.has_failed.load(Relaxed) {
            return Err(Failure::argument(&"a key does not lead into the array of addresses"));
        }
        Ok(())
    }
}

/// Omits the functions that version 2 cannot reach from `address`, because their distance does not fit 32 bits. This
/// makes the section smaller. `addresses` is the same as for `cfipack_section_write`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
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
            less.omit_distant(Address(address), |key| addresses.address_of(key));
            addresses.check()?;
            section.section = less;
            Ok(())
        })
    }
}

/// Gets the functions that the section omits since it was finished, because they share PCs with other functions or
/// lie too far away. `count` gets their number, and `keys` gets the keys that fit. To get only the number, pass a
/// `capacity` of 0. Returns `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `keys` is writable for `capacity` keys.
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
        let values = omitted.iter().map(|unsupported| Ok(unsupported.function.0));
        // SAFETY: promised by the caller.
        unsafe { write_list(keys, capacity, count, omitted.len(), values) }
    })
}

/// Writes the section of a linked file into `out`, which must have exactly `cfipack_section_len` bytes, on the
/// threads of `pool`, which may be null. `address` is the address of the section. `addresses` has the address of each
/// function, also of omitted functions, or of each input section: see `CFIPACK_KEYS_...`. It is no error if functions
/// turn out to share PCs. `cfipack_section_get_conflicts` returns the functions that are omitted for this reason.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `out` is writable for `len` bytes.
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
                section.section.write(out, At::on(Address(address), &pool), |key| addresses.address_of(key));
            addresses.check()?;
            section.conflicts = written.map_err(write_failure)?.conflicts;
            Ok(())
        })
    }
}

/// A function that a section omits because another function starts inside it or at the same address.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_conflict {
    /// The key of the omitted function.
    pub key: u64,
    /// The key of the other function.
    pub other: u64,
}

/// Gets the functions that the last `cfipack_section_write` omitted because they share PCs with other
/// functions. `count` gets their number; pass a `capacity` of 0 to get only the number. Returns
/// `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `out` is writable for `capacity` conflicts.
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
        let values = conflicts
            .iter()
            .map(|Conflict { function, other, .. }| Ok(cfipack_conflict { key: function.0, other: other.0 }));
        // SAFETY: promised by the caller.
        unsafe { write_list(out, capacity, count, conflicts.len(), values) }
    })
}

fn write_failure(error: WriteError) -> Failure {
    let status = match error {
        WriteError::OutputLength { .. } => BufferSize,
        _ => Write,
    };
    Failure::new(status, &error)
}

/// Writes the section of a relocatable file into `out`, which must have exactly `cfipack_section_len` bytes. Write
/// its relocations along with it.
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

/// A relocation of a `.sframe` section in a relocatable file. The value is the address of the function plus the
/// addend, minus the address of the field.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_relocation {
    /// The offset of the field in the section.
    pub offset: u64,
    /// The key of the function.
    pub key: u64,
    /// The number of bytes to add to the addend of the function's start.
    pub addend: u64,
    /// The ELF relocation type that GNU `as` uses, for example `R_X86_64_PC64`.
    pub elf_type: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Gets the relocations of the section in a relocatable file, in the order of their fields. `count` gets their
/// number; pass a `capacity` of 0 to get only the number. Returns `CFIPACK_STATUS_BUFFER_SIZE` if there are more than
/// `capacity`.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `out` is writable for `capacity` relocations.
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
        let values = section.relocations().map(|Relocation { offset, kind, function, addend, .. }| {
            let elf_type = kind.elf_type(section.arch()).map_or(0, |relocation| relocation.number);
            let (offset, key) = (offset.0.to_u64(), function.0);
            Ok(cfipack_relocation { offset, key, addend, elf_type, reserved: 0 })
        });
        // SAFETY: promised by the caller.
        unsafe { write_list(out, capacity, count, section.num_fdes(), values) }
    })
}

/// Returns the message of the section's last call, or an empty string if that call succeeded. The string stays valid
/// until the next call.
///
/// # Safety
/// `section` is null or a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_message(section: *const cfipack_section) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(section) }
}

/// Frees a section. Does nothing for null.
///
/// # Safety
/// `section` is null or a section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_section_free(section: *mut cfipack_section) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(section) };
}
