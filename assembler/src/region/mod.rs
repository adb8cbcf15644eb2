//! What runtimes register for generated code.
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
//! | readers of `.sframe` | a table, and where it and the code lie | [`Region::sframe`], [`sframe_table`] |
//! | Apple's libunwind | `__eh_frame` and `__unwind_info` of a dynamic section | [`Region::unwind_info`] |
//!
//! ```
//! use cfipack_assembler::format::{Address, Arch};
//! use cfipack_assembler::region::{Frame, Pointers, Region};
//!
//! // sub rsp, 24; call rdi; add rsp, 24; ret
//! let code = [0x48, 0x83, 0xec, 24, 0xff, 0xd7, 0x48, 0x83, 0xc4, 24, 0xc3];
//! // After 4 bytes the CFA is rsp + 32, after 10 rsp + 8.
//! let frame = Frame::new(Arch::Amd64, &[0x44, 0x0e, 32, 0x46, 0x0e, 8]);
//! let mut region = Region::new(Arch::Amd64, Address(0x7f00_0000_0000), 4096)?;
//! region.push("trampoline", 0, code.len() as u64, &frame)?;
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
//! walks at all, then flush its cache. [`sframe_table`] has one table that grows in place.

mod eh_frame;
mod error;
mod gdb_elf;
pub mod jitdump;
mod libunwind_table;
mod sframe;
pub mod sframe_table;
#[cfg(test)]
mod tests;
mod unwind_info;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use cfipack_cfi::{self as cfi, Instruction, Instructions};
use cfipack_format::{Address, Arch, Register, Unsupported};

pub use eh_frame::{EhFrame, Fde, Pointers};
pub use error::Error;
pub use libunwind_table::{DynInfoLayout, LibunwindForm, LibunwindTable};
pub use sframe::{Registration, Sframe};
pub use unwind_info::{DynamicSections, UnwindInfo};

/// The call frame information of one function, as records of `.eh_frame` hold it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// The instructions of its CIE: the rules at the function's first instruction.
    pub entry: &'a [u8],
    /// Its own instructions, without `DW_CFA_set_loc`, which depends on where the instructions lie.
    pub instructions: &'a [u8],
    /// Bytes of code that an advance counts.
    pub code_alignment: u64,
    /// The factor of offsets.
    pub data_alignment: i64,
    /// The column that holds the return address.
    pub return_address: Register,
    /// Whether it is the frame of a signal handler's caller.
    pub is_signal_frame: bool,
    /// Whether return addresses are signed with key B (AArch64).
    pub has_key_b: bool,
    /// The personality routine.
    pub personality: Option<Address>,
    /// The language-specific data area.
    pub lsda: Option<Address>,
}

impl<'a> Frame<'a> {
    /// A frame with these instructions, and with the rules at its entry, the alignment factors and the return column
    /// that compilers use for `arch`.
    pub fn new(arch: Arch, instructions: &'a [u8]) -> Self {
        // DW_CFA_def_cfa of the stack pointer; on x86 DW_CFA_offset of the return address.
        let entry: &[u8] = match arch {
            Arch::Amd64 => &[0x0c, 7, 8, 0x90, 1],
            Arch::I386 => &[0x0c, 4, 4, 0x88, 1],
            Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 => &[0x0c, 31, 0],
            Arch::S390x => &[0x0c, 15, 0xa0, 1],
        };
        let usual = cfi::write::Cie::new(arch, entry);
        Self {
            entry,
            instructions,
            code_alignment: usual.code_alignment,
            data_alignment: usual.data_alignment,
            return_address: usual.return_address,
            is_signal_frame: false,
            has_key_b: false,
            personality: None,
            lsda: None,
        }
    }

    /// The frame of a function that another writer described: Cranelift's, for example.
    ///
    /// # Errors
    /// [`Error::Augmentation`]: a personality or LSDA that the record has only indirectly, or with an address that is
    /// not known; a tagged frame. [`Error::Instructions`]: instructions that cannot be read. [`Error::Cfi`]:
    /// `DW_CFA_set_loc`.
    pub fn of(function: &cfi::Function<'a>) -> Result<Self, Error> {
        let cie = &function.cie;
        for bytes in [cie.instructions, function.instructions] {
            for instruction in Instructions::new(function, bytes) {
                match instruction {
                    Ok(Instruction::SetLocation(_)) => return Err(cfi::write::Error::SetLocation.into()),
                    Ok(_) => {}
                    Err(reason) => {
                        return Err(Error::Instructions(Unsupported::function(function.key, reason)));
                    }
                }
            }
        }
        let personality = match cie.personality {
            None => None,
            Some(personality) if !personality.encoding.is_indirect() && personality.address.is_some() => {
                personality.address
            }
            Some(_) => return Err(Error::Augmentation { letter: b'P' }),
        };
        let lsda = function.lsda().map_err(|_| Error::Augmentation { letter: b'L' })?;
        if lsda.is_some() && cie.lsda_encoding.is_indirect() {
            return Err(Error::Augmentation { letter: b'L' });
        }
        if cie.tagged {
            return Err(Error::Augmentation { letter: b'G' });
        }
        Ok(Self {
            entry: cie.instructions,
            instructions: function.instructions,
            code_alignment: cie.code_alignment,
            data_alignment: cie.data_alignment,
            return_address: cie.return_address,
            is_signal_frame: cie.signal_frame,
            has_key_b: cie.pauth_key_b,
            personality,
            lsda,
        })
    }
}

/// What functions have in common: a CIE.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Common {
    entry: Vec<u8>,
    code_alignment: u64,
    data_alignment: i64,
    return_address: Register,
    is_signal_frame: bool,
    has_key_b: bool,
    personality: Option<Address>,
    has_lsda: bool,
}

impl Common {
    fn is_of(&self, frame: &Frame<'_>) -> bool {
        self.entry == frame.entry
            && self.code_alignment == frame.code_alignment
            && self.data_alignment == frame.data_alignment
            && self.return_address == frame.return_address
            && self.is_signal_frame == frame.is_signal_frame
            && self.has_key_b == frame.has_key_b
            && self.personality == frame.personality
            && self.has_lsda == frame.lsda.is_some()
    }
}

/// A function of a region.
#[derive(Clone, Debug)]
struct Placed {
    offset: u64,
    size: u64,
    common: u32,
    instructions: Range<usize>,
    name: Range<usize>,
    lsda: Option<Address>,
}

/// Generated code: a range of addresses, and the functions in it.
#[derive(Clone, Debug)]
pub struct Region {
    arch: Arch,
    base: Address,
    length: u64,
    commons: Vec<Common>,
    /// In the order of their addresses.
    functions: Vec<Placed>,
    /// The functions' instructions.
    bytes: Vec<u8>,
    names: String,
}

impl Region {
    /// A region without functions, of `length` bytes of code at `base`.
    ///
    /// # Errors
    /// [`Error::Range`]: the code would reach beyond the architecture's addresses.
    pub fn new(arch: Arch, base: Address, length: u64) -> Result<Self, Error> {
        let last = if arch.pointer_size() == 4 { u32::MAX.into() } else { u64::MAX };
        if base.0 > last || length > last - base.0 {
            return Err(Error::Range { base, length });
        }
        let (commons, functions, bytes, names) = (Vec::new(), Vec::new(), Vec::new(), String::new());
        Ok(Self { arch, base, length, commons, functions, bytes, names })
    }

    /// Adds the function of `size` bytes at `offset` of the region's code. gdb and perf print its name; it is best added
    /// in the order of addresses.
    ///
    /// # Errors
    /// The region is unchanged if the function has no code or does not lie in it, overlaps another one, or its name has
    /// a zero byte.
    pub fn push(&mut self, name: &str, offset: u64, size: u64, frame: &Frame<'_>) -> Result<(), Error> {
        if size == 0 || size > self.length || offset > self.length - size {
            return Err(Error::Outside { offset, size, length: self.length });
        }
        let at = self.functions.partition_point(|other| other.offset < offset);
        let before = at.checked_sub(1).map(|before| &self.functions[before]);
        let before = before.filter(|before| before.offset + before.size > offset);
        let after = self.functions.get(at).filter(|after| after.offset - offset < size);
        if let Some(other) = before.or(after) {
            return Err(Error::Overlap { offset, other: other.offset });
        }
        if let Some(at) = name.bytes().position(|byte| byte == 0) {
            return Err(Error::Name { at });
        }
        let common = match self.commons.iter().rposition(|common| common.is_of(frame)) {
            Some(common) => common,
            None => {
                self.commons.push(Common {
                    entry: frame.entry.into(),
                    code_alignment: frame.code_alignment,
                    data_alignment: frame.data_alignment,
                    return_address: frame.return_address,
                    is_signal_frame: frame.is_signal_frame,
                    has_key_b: frame.has_key_b,
                    personality: frame.personality,
                    has_lsda: frame.lsda.is_some(),
                });
                self.commons.len() - 1
            }
        };
        let instructions = self.bytes.len()..self.bytes.len() + frame.instructions.len();
        self.bytes.extend_from_slice(frame.instructions);
        let named = self.names.len()..self.names.len() + name.len();
        self.names.push_str(name);
        let common = common as u32;
        self.functions.insert(at, Placed { offset, size, common, instructions, name: named, lsda: frame.lsda });
        Ok(())
    }

    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Where the code starts.
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

    /// Whether there are no functions. Such a region is not to be registered.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The functions in the order of their addresses: name, start, bytes of code.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = (&str, Address, u64)> {
        self.functions.iter().map(|function| {
            (&self.names[function.name.clone()], self.start_of(function), function.size)
        })
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
