//! Tables that runtimes register for generated code.
//!
//! A [`Region`] is a contiguous range of generated code, with its functions and their call frame information. From it
//! come the bytes and structures that each unwinder, debugger and profiler wants; the host, which owns the memory,
//! registers them. Nothing here touches memory that is not its own, and nothing is unsafe.
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
//! A region is what is registered, and removed, at once. A JIT that goes on generating makes a region of each batch;
//! batches of one mapping lie one after the other and do not overlap, not even by a hole in one of them, which libgcc
//! requires.
//!
//! 1. Write the code and everything made here, and make the code executable. No thread can be in it yet.
//! 2. Register everywhere.
//! 3. Only now publish the functions' addresses to other threads. A thread that calls one therefore finds it registered.
//!
//! To remove a region: let no thread be in its code, which the JIT's own safepoints have to prove; deregister
//! everywhere; free the code and the tables last. HP's libunwind walks its list without a lock: cancel when no thread
//! walks at all, then flush its cache. A `registry` owns all regions, and ends their registrations.

mod eh_frame;
mod error;
mod gdb_elf;
pub mod jitdump;
mod libunwind_table;
mod order;
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

/// The properties of a function's CIE beside its instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Properties {
    code_alignment: u64,
    data_alignment: i64,
    return_address: Register,
    is_signal_frame: bool,
    has_key_b: bool,
    is_tagged: bool,
    /// The address is absolute; what is left of the encoding is whether it is that of a cell.
    personality: Option<(PointerEncoding, Address)>,
    lsda: Option<PointerEncoding>,
}

impl Properties {
    /// Those of a function's directives, and where its LSDA is. The keys of pointers are their addresses.
    fn of(directives: &Directives) -> (Self, Option<Address>) {
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

/// The properties that functions share: a CIE.
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

/// Generated code: a range of addresses, and the functions in it.
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
    /// In the order in which they were added.
    functions: Vec<Placed>,
    /// The order of their addresses.
    order: Order,
    /// Call frame instructions.
    bytes: Vec<u8>,
    names: String,
}

impl Region {
    /// A region without functions, of `length` bytes of code at `base`.
    ///
    /// # Errors
    /// [`Error::Range`]: the code would reach beyond the architecture's addresses.
    pub fn new(arch: Arch, base: Address, length: u64) -> Result<Self, Error> {
        check_range(arch, base, length)?;
        let (commons, functions, bytes, names) = (Vec::new(), Vec::new(), Vec::new(), String::new());
        Ok(Self { arch, base, length, commons, functions, order: Order::default(), bytes, names })
    }

    /// Adds the function at `offset` of the region's code. gdb and perf print its name. The keys of its personality
    /// routine and LSDA are their addresses.
    ///
    /// # Errors
    /// The region is unchanged if the function has no code or does not lie in it, overlaps another one, its name has
    /// a zero byte, or a directive has an error. The bytes of a `.cfi_escape` must be instructions, without
    /// `DW_CFA_set_loc`.
    pub fn push(&mut self, name: &str, offset: u64, directives: &Directives) -> Result<(), Error> {
        directives.check().map_err(Error::Directive)?;
        if directives.arch() != self.arch {
            return Err(Error::Arch { arch: directives.arch(), form: "a region of another architecture" });
        }
        let size = directives.code_len();
        let at = self.check(name, offset, size)?;
        let start = self.bytes.len();
        let (properties, lsda) = Properties::of(directives);
        let leading =
            encode_checked(directives, Address(self.base.0 + offset), &properties, &mut self.bytes)?;
        let bytes = start..self.bytes.len();
        self.insert(at, name, offset, size, (properties, bytes, leading), lsda);
        Ok(())
    }

    /// Removes all functions, for a region of `length` bytes of code at `base`: the memory is used again.
    ///
    /// # Errors
    /// Those of [`Self::new`], with which the region stays as it is.
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

    /// Adds a function whose call frame information another writer has made: Cranelift, for example. It lies where that
    /// says.
    ///
    /// # Errors
    /// As [`Self::push`]'s; the function or what it refers to has no address; its instructions cannot be read, or there is
    /// `DW_CFA_set_loc` among them.
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
        self.push_bytes(
            name,
            offset,
            function.size,
            properties,
            [cie.instructions, function.instructions],
            lsda,
        )
    }

    /// Adds a function by the instructions of its CIE and its own.
    fn push_bytes(
        &mut self,
        name: &str,
        offset: u64,
        size: u64,
        properties: Properties,
        [entry, instructions]: [&[u8]; 2],
        lsda: Option<Address>,
    ) -> Result<(), Error> {
        let at = self.check(name, offset, size)?;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(entry);
        self.bytes.extend_from_slice(instructions);
        let bytes = start..self.bytes.len();
        self.insert(at, name, offset, size, (properties, bytes, entry.len()), lsda);
        Ok(())
    }

    /// The place of a new function among the others.
    fn check(&self, name: &str, offset: u64, size: u64) -> Result<Place, Error> {
        if size == 0 || size > self.length || offset > self.length - size {
            return Err(Error::Outside { offset, size, length: self.length });
        }
        let (at, before, after) = self.order.find(|other| self.functions[other].offset < offset);
        let before = before.map(|before| &self.functions[before]);
        let before = before.filter(|before| before.offset + before.size > offset);
        let after = after.map(|after| &self.functions[after]).filter(|after| after.offset - offset < size);
        if let Some(other) = before.or(after) {
            return Err(Error::Overlap { offset, other: other.offset });
        }
        match name.bytes().position(|byte| byte == 0) {
            Some(at) => Err(Error::Name { at }),
            None => Ok(at),
        }
    }

    /// Inserts a function whose instructions are the region's last bytes, those that its CIE can have first.
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
        let is_equal = |common: &Common| {
            common.properties == properties && self.bytes[common.entry.clone()] == self.bytes[entry.clone()]
        };
        // Of a hostile number of CIEs only the last few are compared.
        let recent = self.commons.len().saturating_sub(8);
        let found = self.commons[recent..].iter().rposition(is_equal);
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

    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The address of the code.
    pub fn base(&self) -> Address {
        self.base
    }

    /// Bytes of code.
    pub fn code_len(&self) -> u64 {
        self.length
    }

    /// The number of functions.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Returns whether there are no functions. Such a region is not to be registered.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The functions in the order of their addresses: name, start, bytes of code.
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

    /// The functions in the order of their addresses.
    fn placed(&self) -> impl Iterator<Item = &Placed> {
        self.order.numbers().map(|number| &self.functions[number])
    }

    fn start_of(&self, function: &Placed) -> Address {
        Address(self.base.0 + function.offset)
    }

    /// The architecture's pointers have 8 bytes, or the form is not known.
    fn needs_64_bit(&self, form: &'static str) -> Result<(), Error> {
        match self.arch.pointer_size() {
            8 => Ok(()),
            _ => Err(Error::Arch { arch: self.arch, form }),
        }
    }
}

/// Checks that code of a region has addresses.
fn check_range(arch: Arch, base: Address, length: u64) -> Result<(), Error> {
    let last = if arch.pointer_size() == 4 { u32::MAX.into() } else { u64::MAX };
    if base.0 > last || length > last - base.0 {
        return Err(Error::Range { base, length });
    }
    Ok(())
}

/// Appends the instructions of a function that starts at an address. Returns how many bytes of them a CIE can have. After
/// an error `bytes` is as before: no reader gets beyond escaped bytes that are no instruction.
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

/// An absolute pointer to what another one leads to: the routine or table, or a cell with its address.
fn only_indirect(encoding: PointerEncoding) -> PointerEncoding {
    PointerEncoding(PointerEncoding::ABSOLUTE.0 | encoding.0 & 0x80)
}
