//! Makes the tables that runtimes register for generated code.
//!
//! A [`Region`] is a contiguous range of generated code, with its functions and their call frame information.
//! It returns the bytes and structures that each unwinder, debugger and profiler needs. You own the memory and
//! register the tables. This module touches no memory but its own, and has no unsafe code.
//!
//! | reader | takes | from |
//! |---|---|---|
//! | libgcc's unwinder | a terminated `.eh_frame`: `__register_frame` | [`Region::eh_frame`] |
//! | LLVM's libunwind | each FDE of it (`__register_frame`), or the section (`__unw_add_dynamic_eh_frame_section`) | [`EhFrame::fdes`] |
//! | HP's libunwind | a search table and `unw_dyn_info_t`: `_U_dyn_register` | [`LibunwindTable`] |
//! | gdb | an ELF file in memory: `__jit_debug_register_code` | [`Region::gdb_elf`] |
//! | perf | records of a jitdump file | [`jitdump`] |
//! | readers of `.sframe` | a table, and where it and the code lie | [`Region::sframe`] |
//! | unwinders and profilers in the process | the rows of all regions, while they come and go | `registry` |
//! | Apple's libunwind | `__eh_frame` and `__unwind_info` of a dynamic section | [`Region::unwind_info`] |
//!
//! ```
//! use cfipack_assembler::Directives;
//! use cfipack_format::{Address, Arch};
//! use cfipack_assembler::region::{Pointers, Region};
//!
//! // sub rsp, 24; call rdi; add rsp, 24; ret
//! let code = [0x48, 0x83, 0xec, 24, 0xff, 0xd7, 0x48, 0x83, 0xc4, 24, 0xc3];
//! let mut directives = Directives::new(Arch::Amd64, code.len() as u64);
//! directives.at(4).def_cfa_offset(32);
//! directives.at(10).def_cfa_offset(8);
//! let mut region = Region::new(Arch::Amd64, Address(0x7f00_0000_0000), 4096)?;
//! region.push("trampoline", 0, &directives)?;
//! let eh_frame = region.eh_frame(Pointers::Absolute)?;
//! assert_eq!(eh_frame.bytes().len(), 24 + 32 + 4); // CIE, FDE, zero
//! # Ok::<(), cfipack_assembler::region::Error>(())
//! ```
//!
//! # Adding and removing code while other threads unwind
//!
//! A region is registered and removed as a whole. A JIT that goes on generating code makes a region of each
//! batch. Several batches in the same mapping must follow each other and not overlap. libgcc requires that no
//! batch lies in a hole of another batch.
//!
//! 1. Write the code and the tables, and make the code executable. No thread can be in the code yet.
//! 2. Register the tables everywhere.
//! 3. Only now publish the functions' addresses to other threads. A thread that calls a function therefore
//!    finds the function registered.
//!
//! To remove a region, first make sure that no thread is in its code; this is a task of the JIT's safepoints.
//! Then deregister the tables everywhere, and free the code and the tables last. HP's libunwind walks its list
//! without a lock, so cancel the registration when no thread walks at all, and then flush its cache. A
//! `registry` holds all regions and ends their registrations.
//!
//! # Modules
//! - `order`, `parts`: the functions of a region by address, and the parts of their CFI.
//! - `eh_frame`, `sframe`, `unwind_info`, `libunwind_table`, `gdb_elf`, [`jitdump`]: a module for each form of
//!   table.
//! - `out`: the bytes of a form in the architecture's byte order.
//! - `error`: the [`Error`] of a region or form.

mod eh_frame;
mod error;
mod gdb_elf;
pub mod jitdump;
mod libunwind_table;
mod order;
mod out;
mod parts;
mod sframe;
#[cfg(test)]
mod tests;
mod unwind_info;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::{Address, Arch, Key, Reason, Register, Unsupported};

use crate::cfi::{self, PointerEncoding};
use crate::instructions::{Encoded, alignment, encode};
use crate::{Dialect, Directives};

use self::order::{Order, Place};
use self::parts::{Parts, readable};

pub use eh_frame::{EhFrame, Fde, Pointers};
pub use error::Error;
pub use libunwind_table::{DynInfoLayout, LibunwindForm, LibunwindTable};
pub use sframe::{Registration, Sframe};
pub use unwind_info::{DynamicSections, UnwindInfo};

/// The properties of a function's CIE, without its instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Properties {
    code_alignment: u64,
    data_alignment: i64,
    return_address: Register,
    is_signal_frame: bool,
    has_key_b: bool,
    is_tagged: bool,
    /// The address is absolute. The encoding only says whether it is the address of a cell.
    personality: Option<(PointerEncoding, Address)>,
    lsda: Option<PointerEncoding>,
}

impl Properties {
    /// Returns the properties of a function's directives, and the address of its LSDA. The keys of pointers are
    /// their addresses.
    fn from_directives(directives: &Directives) -> (Self, Option<Address>) {
        let (arch, frame) = (directives.arch(), directives.frame());
        let (code_alignment, data_alignment) = alignment(Dialect::Gas, arch);
        let address = |(encoding, Key(address))| (only_indirect(encoding), Address(address));
        let properties = Self {
            code_alignment,
            data_alignment,
            return_address: frame.return_column.unwrap_or(arch.return_address()),
            is_signal_frame: frame.is_signal_frame,
            has_key_b: frame.is_b_key_frame,
            is_tagged: frame.is_mte_tagged_frame,
            personality: frame.personality.map(address),
            lsda: frame.lsda.map(|lsda| address(lsda).0),
        };
        (properties, frame.lsda.map(|lsda| address(lsda).1))
    }
}

/// A CIE that functions share.
#[derive(Clone, Debug)]
struct Common {
    properties: Properties,
    /// The instructions, among the region's bytes.
    entry: Range<usize>,
}

/// A function of a region.
#[derive(Clone, Debug)]
struct Placed {
    offset: u64,
    size: u64,
    common: usize,
    /// The instructions, among the region's bytes.
    instructions: Range<usize>,
    name: Range<usize>,
    lsda: Option<Address>,
}

/// A range of addresses of generated code, and the functions in it.
///
/// ```
/// use cfipack_assembler::Directives;
/// use cfipack_assembler::region::Region;
/// use cfipack_encoder::sframe::Options;
/// use cfipack_format::{Address, Arch};
///
/// let mut region = Region::new(Arch::Amd64, Address(0x7f00_0000_0000), 4096)?;
/// region.push("leaf", 64, &Directives::new(Arch::Amd64, 16))?;
/// let functions: Vec<_> = region.functions().collect();
/// assert_eq!(functions, [("leaf", Address(0x7f00_0000_0040), 16)]);
/// let table = region.sframe(Options::new())?; // for readers within the process
/// assert_eq!((table.len(), table.omitted().len()), (28 + 16 + 5 + 3, 0));
/// # Ok::<(), cfipack_assembler::region::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Region {
    arch: Arch,
    base: Address,
    length: u64,
    commons: Vec<Common>,
    /// The functions in the order in which they were added.
    functions: Vec<Placed>,
    /// The order of the functions' addresses.
    order: Order,
    /// Call frame instructions.
    bytes: Vec<u8>,
    names: String,
}

impl Region {
    /// Creates a region without functions, of `length` bytes of code at `base`.
    ///
    /// # Errors
    /// [`Error::Range`]: the code would reach beyond the architecture's addresses.
    pub fn new(arch: Arch, base: Address, length: u64) -> Result<Self, Error> {
        check_range(arch, base, length)?;
        let (commons, functions, bytes, names) = (Vec::new(), Vec::new(), Vec::new(), String::new());
        Ok(Self { arch, base, length, commons, functions, order: Order::default(), bytes, names })
    }

    /// Adds the function at `offset` of the region's code, in bytes. gdb and perf print its name. The keys of
    /// its personality routine and LSDA must be their addresses.
    ///
    /// # Errors
    /// The function has no code or does not lie in the region, it overlaps another function, its name has a
    /// zero byte, or a directive has an error. The bytes of a `.cfi_escape` must be instructions other than
    /// `DW_CFA_set_loc`. After an error the region is unchanged.
    pub fn push(&mut self, name: &str, offset: u64, directives: &Directives) -> Result<(), Error> {
        directives.check().map_err(Error::Directive)?;
        if directives.arch() != self.arch {
            return Err(Error::Arch { arch: directives.arch(), form: "a region of another architecture" });
        }
        let size = directives.code_len();
        let at = self.check(name, offset, size)?;
        let start = self.bytes.len();
        let (properties, lsda) = Properties::from_directives(directives);
        let leading =
            encode_checked(directives, Address(self.base.0 + offset), &properties, &mut self.bytes)?;
        let bytes = start..self.bytes.len();
        self.insert(at, name, offset, size, (properties, bytes, leading), lsda);
        Ok(())
    }

    /// Removes all functions, to start a region of `length` bytes of code at `base` in the same memory.
    ///
    /// # Errors
    /// The errors of [`Self::new`]. After an error the region is unchanged.
    pub fn clear(&mut self, base: Address, length: u64) -> Result<(), Error> {
        check_range(self.arch, base, length)?;
        (self.base, self.length) = (base, length);
        self.commons.clear();
        self.functions.clear();
        self.order.clear();
        self.bytes.clear();
        self.names.clear();
        Ok(())
    }

    /// Adds a function from call frame information that another writer has made, for example Cranelift. The
    /// call frame information gives the function's address.
    ///
    /// # Errors
    /// The errors of [`Self::push`]. It is also an error if the function or its LSDA or personality has no
    /// address, or if its instructions cannot be read or contain `DW_CFA_set_loc`.
    pub fn push_cfi(&mut self, name: &str, function: &cfi::Function<'_>) -> Result<(), Error> {
        let cie = &function.cie;
        for bytes in [cie.instructions, function.instructions] {
            readable(function, bytes)?;
        }
        if function.arch() != self.arch {
            return Err(Error::Arch { arch: function.arch(), form: "a region of another architecture" });
        }
        let unplaced = |reason| Error::Instructions(Unsupported::function(function.key, reason));
        let start = function.start.ok_or(unplaced(Reason::PlaceUnknown))?;
        let offset = start.0.wrapping_sub(self.base.0);
        let personality = cie.personality.and_then(|personality| {
            personality.address.map(|address| (only_indirect(personality.encoding), address))
        });
        let lsda = function.lsda().map_err(unplaced)?;
        let properties = Properties {
            code_alignment: cie.code_alignment,
            data_alignment: cie.data_alignment,
            return_address: cie.return_address,
            is_signal_frame: cie.signal_frame,
            has_key_b: cie.pauth_key_b,
            is_tagged: cie.tagged,
            personality,
            lsda: lsda.map(|_| only_indirect(cie.lsda_encoding)),
        };
        let at = self.check(name, offset, function.size)?;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(cie.instructions);
        self.bytes.extend_from_slice(function.instructions);
        let bytes = start..self.bytes.len();
        self.insert(at, name, offset, function.size, (properties, bytes, cie.instructions.len()), lsda);
        Ok(())
    }

    /// Checks a new function, and returns its place among the other functions.
    fn check(&self, name: &str, offset: u64, size: u64) -> Result<Place, Error> {
        if size == 0 || size > self.length || offset > self.length - size {
            return Err(Error::Outside { offset, size, length: self.length });
        }
        let (at, before, after) = self.order.find(|other| self.functions[other].offset < offset);
        for other in [before, after].into_iter().flatten() {
            let other = &self.functions[other];
            if other.offset < offset + size && offset < other.offset + other.size {
                return Err(Error::Overlap { offset, other: other.offset });
            }
        }
        match name.bytes().position(|byte| byte == 0) {
            Some(at) => Err(Error::Name { at }),
            None => Ok(at),
        }
    }

    /// Inserts a function. Its instructions are the region's last bytes and start with the `leading` bytes that
    /// its CIE can have.
    fn insert(
        &mut self,
        at: Place,
        name: &str,
        offset: u64,
        size: u64,
        (properties, bytes, leading): (Properties, Range<usize>, usize),
        lsda: Option<Address>,
    ) {
        let (entry, instructions) = (bytes.start..bytes.start + leading, bytes.start + leading..bytes.end);
        // Compare only the last few CIEs, because hostile input may have any number.
        let recent = self.commons.len().saturating_sub(8);
        let found = self.commons[recent..].iter().rposition(|common| {
            common.properties == properties && self.bytes[common.entry.clone()] == self.bytes[entry.clone()]
        });
        let common = found.map_or(self.commons.len(), |found| recent + found);
        if found.is_none() {
            self.commons.push(Common { properties, entry });
        }
        let start = self.names.len();
        self.names.push_str(name);
        let name = start..self.names.len();
        self.functions.push(Placed { offset, size, common, instructions, name, lsda });
        self.order.insert(at);
    }

    /// Returns the architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the address of the code.
    pub fn base(&self) -> Address {
        self.base
    }

    /// Returns the size of the code in bytes.
    pub fn code_len(&self) -> u64 {
        self.length
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Returns whether there are no functions. Do not register an empty region.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the functions in the order of their addresses: name, start, bytes of code.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = (&str, Address, u64)> + DoubleEndedIterator {
        (0..self.functions.len()).map(|place| {
            let function = &self.functions[self.order.get(place).unwrap_or(place)];
            (&self.names[function.name.clone()], self.start_of(function), function.size)
        })
    }

    fn parts(&self, placed: &Placed) -> Parts<'_> {
        let Common { properties, entry } = &self.commons[placed.common];
        let [entry, instructions] = [entry, &placed.instructions].map(|range| &self.bytes[range.clone()]);
        let (arch, start, size, lsda) = (self.arch, self.start_of(placed), placed.size, placed.lsda);
        Parts { arch, start, size, properties, entry, instructions, lsda }
    }

    /// Returns the functions in the order of their addresses.
    fn placed(&self) -> impl Iterator<Item = &Placed> {
        self.order.numbers().map(|number| &self.functions[number])
    }

    fn start_of(&self, function: &Placed) -> Address {
        Address(self.base.0 + function.offset)
    }

    /// Checks that the architecture's pointers have 8 bytes, as `form` requires.
    fn needs_64_bit(&self, form: &'static str) -> Result<(), Error> {
        match self.arch.pointer_size() {
            8 => Ok(()),
            _ => Err(Error::Arch { arch: self.arch, form }),
        }
    }
}

/// Checks that the architecture has addresses for all code of a region.
fn check_range(arch: Arch, base: Address, length: u64) -> Result<(), Error> {
    let last = if arch.pointer_size() == 4 { u32::MAX.into() } else { u64::MAX };
    if base.0 > last || length > last - base.0 {
        return Err(Error::Range { base, length });
    }
    Ok(())
}

/// Appends the instructions of a function that starts at `start`. Returns how many bytes of the instructions a
/// CIE can have. Escaped bytes must be instructions, because no reader gets past other bytes. After an error
/// `bytes` is unchanged.
fn encode_checked(
    directives: &Directives,
    start: Address,
    properties: &Properties,
    bytes: &mut Vec<u8>,
) -> Result<usize, Error> {
    let Encoded { bytes: range, leading, .. } = encode(directives, Dialect::Gas, bytes, &mut Vec::new())?;
    if !directives.escaped().is_empty() {
        let (arch, size) = (directives.arch(), directives.code_len());
        let instructions = &bytes[range.clone()];
        let parts = Parts { arch, start, size, properties, entry: &[], instructions, lsda: None };
        readable(&parts.function(), instructions).inspect_err(|_| bytes.truncate(range.start))?;
    }
    Ok(leading)
}

/// Returns the encoding of an absolute pointer that is indirect if `encoding` is indirect.
fn only_indirect(encoding: PointerEncoding) -> PointerEncoding {
    PointerEncoding(PointerEncoding::ABSOLUTE.0 | encoding.0 & 0x80)
}
