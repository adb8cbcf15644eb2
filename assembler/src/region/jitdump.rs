//! Writes the records of a jitdump file. `perf inject --jit` makes an ELF file of each function from it.
//!
//! Your JIT writes a file `jit-PID.dump`: [`header`], then the [records](Function::records) of each function,
//! and at the end [`close`]. It must map a page of the file executable while `perf record -k mono` runs. With
//! `--call-graph dwarf`, perf unwinds by the call frame information in the records.
//!
//! perf maps the ELF file of a function to the function's address, together with the unwind data that follows
//! the code. The memory after a function must therefore be free: no other function may start within
//! [`Function::room`] bytes of its start.
//!
//! | perf | looks up | so |
//! |---|---|---|
//! | up to 6.x, with HP's libunwind | the PC | rows may be exact; functions need their room |
//! | 7.2, with elfutils' libdw | the PC + 0x80 | a function is declared [128 bytes longer](Options::with_padding) than it is, and the row of its body is in force to [its end](Options::with_body_only) |
//!
//! The default options work with both. Source: Linux, `tools/perf/Documentation/jitdump-specification.txt`.
//! Measured with perf 6.1 and 7.2.

use alloc::vec::Vec;

use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Endian, Unsupported};

use super::eh_frame::distance;
use super::out::Out;
use super::parts::Parts;
use super::{Error, Pointers, Properties, Region, encode_checked};
use crate::Directives;
use crate::cfi::write::Writer;
use crate::cfi::{Instruction, Instructions, SectionKind};

const MAGIC: u32 = 0x4a69_5444;
const HEADER: u32 = 40;
const LOAD: u32 = 56;
const UNWINDING_INFO: u32 = 40;
const EH_FRAME_HDR: usize = 20;

/// Options of how functions are declared to perf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Bytes by which each function is declared longer than it is.
    pub padding: u32,
    /// True if the row of a function's body stays in force to the end. The body's row is the row that most
    /// bytes have.
    pub body_only: bool,
}

impl Options {
    /// Returns the options that work with perf 6.1 and perf 7.2: a padding of 128 bytes, and only the rows up
    /// to the body's row.
    pub const fn new() -> Self {
        Self { padding: 128, body_only: true }
    }

    /// Sets the padding, in bytes. 0 is enough for perf up to 6.x.
    pub const fn with_padding(self, padding: u32) -> Self {
        Self { padding, ..self }
    }

    /// Sets whether the rows of epilogues are omitted. perf 7.2 uses an epilogue's rows for the code before
    /// the epilogue.
    pub const fn with_body_only(self, body_only: bool) -> Self {
        Self { body_only, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// The process, thread and time in which a function was generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The time of `CLOCK_MONOTONIC`, in nanoseconds.
    pub time: u64,
    /// A number that no other function of the process has.
    pub code_index: u64,
}

/// A function as it is declared to perf.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    endian: Endian,
    name: &'a str,
    start: Address,
    size: u64,
    declared: u64,
    /// `.eh_frame`, padded, and `.eh_frame_hdr`.
    unwinding: Vec<u8>,
}

/// Returns the header of the file. `time` is in nanoseconds of `CLOCK_MONOTONIC`.
pub fn header(arch: Arch, pid: u32, time: u64) -> [u8; 40] {
    let mut out = Out { bytes: Vec::with_capacity(40), endian: arch.endian() };
    for word in [MAGIC, 1, HEADER, arch.elf_machine().into(), 0, pid] {
        out.u32(word);
    }
    out.u64(time);
    out.u64(0);
    let mut header = [0; 40];
    header.copy_from_slice(&out.bytes);
    header
}

/// Returns the record that ends the file.
pub fn close(arch: Arch, time: u64) -> [u8; 16] {
    let mut out = Out { bytes: Vec::with_capacity(16), endian: arch.endian() };
    out.prefix(3, 16, time);
    let mut close = [0; 16];
    close.copy_from_slice(&out.bytes);
    close
}

/// Returns the [room](Function::room) of a function that has no address yet.
///
/// # Errors
/// The errors of [`Region::push`] and of [`Function::new`].
pub fn room(directives: &Directives, options: Options) -> Result<u64, Error> {
    directives.check().map_err(Error::Directive)?;
    let size = directives.code_len();
    if size == 0 {
        return Err(Error::Outside { offset: 0, size, length: size });
    }
    let (mut bytes, (properties, lsda)) = (Vec::new(), Properties::from_directives(directives));
    let leading = encode_checked(directives, Address(0), &properties, &mut bytes)?;
    let (entry, instructions) = bytes.split_at(leading);
    let (arch, start, properties) = (directives.arch(), Address(0), &properties);
    let parts = Parts { arch, start, size, properties, entry, instructions, lsda };
    Ok(Function::from_parts("", &parts, options)?.room())
}

impl<'a> Function<'a> {
    /// Declares the function with number `index` of a region, in the order of addresses.
    ///
    /// # Errors
    /// - [`Error::NoFunction`]: there is no function `index`.
    /// - [`Error::TooLarge`]: the function has 2 GiB or more.
    /// - [`Error::Instructions`]: its instructions cannot be read.
    pub fn new(region: &'a Region, index: usize, options: Options) -> Result<Self, Error> {
        let number = region.order.get(index).ok_or(Error::NoFunction { index })?;
        let function = &region.functions[number];
        Self::from_parts(&region.names[function.name.clone()], &region.parts(function), options)
    }

    fn from_parts(name: &'a str, parts: &Parts<'_>, options: Options) -> Result<Self, Error> {
        let declared = match parts.size.checked_add(options.padding.into()) {
            Some(declared) if declared < 1 << 31 => declared,
            _ => {
                return Err(Error::TooLarge {
                    what: "bytes of a function for perf",
                    value: parts.size,
                    most: (1 << 31) - 1 - u64::from(options.padding.min(1 << 30)),
                });
            }
        };
        let end = if options.body_only { body_end(parts)? } else { parts.instructions.len() };
        // In perf's file the function starts at 0.
        let copy =
            Parts { start: Address(0), size: declared, instructions: &parts.instructions[..end], ..*parts };
        Ok(Self {
            endian: parts.arch.endian(),
            name,
            start: parts.start,
            size: parts.size,
            declared,
            unwinding: unwinding(&copy)?,
        })
    }

    /// Returns how many bytes from the function's start on must be free of other functions. These are the
    /// function's own bytes, and the bytes after it that perf maps its unwind data to.
    pub fn room(&self) -> u64 {
        self.declared.next_multiple_of(16) + self.mapped_size()
    }

    fn mapped_size(&self) -> u64 {
        self.unwinding.len().next_multiple_of(16).to_u64()
    }

    /// Returns the records `JIT_CODE_UNWINDING_INFO` and `JIT_CODE_LOAD`. They belong together: write them by a
    /// single call, or under a lock. `code` is the function's code.
    ///
    /// # Errors
    /// - [`Error::CodeLength`]: `code` is not as long as the function.
    /// - [`Error::TooLarge`]: a record would have 4 GiB or more.
    pub fn records(&self, code: &[u8], event: Event) -> Result<Vec<u8>, Error> {
        if code.len().to_u64() != self.size {
            return Err(Error::CodeLength { given: code.len().to_u64(), needed: self.size });
        }
        let first = (UNWINDING_INFO.to_usize() + self.unwinding.len()).next_multiple_of(8);
        let second = u64::from(LOAD) + self.name.len().to_u64() + 1 + self.declared;
        let size = |value: u64| {
            let what = "bytes of a record for perf";
            u32::try_from(value).map_err(|_| Error::TooLarge { what, value, most: u32::MAX.into() })
        };
        let (first_size, second_size) = (size(first.to_u64())?, size(second)?);
        let mut out = Out { bytes: Vec::with_capacity(first + second.to_usize()), endian: self.endian };
        out.prefix(4, first_size, event.time);
        for word in [self.unwinding.len().to_u64(), EH_FRAME_HDR.to_u64(), self.mapped_size()] {
            out.u64(word);
        }
        out.bytes.extend_from_slice(&self.unwinding);
        out.bytes.resize(first, 0);
        out.prefix(0, second_size, event.time);
        out.u32(event.pid);
        out.u32(event.tid);
        for word in [self.start.0, self.start.0, self.declared, event.code_index] {
            out.u64(word);
        }
        out.bytes.extend_from_slice(self.name.as_bytes());
        out.bytes.push(0);
        out.bytes.extend_from_slice(code);
        self.pad(&mut out.bytes, first + second.to_usize(), event);
        Ok(out.bytes)
    }

    /// Fills the padding with bytes that no other function has, because perf treats files with equal code as
    /// the same file.
    fn pad(&self, bytes: &mut Vec<u8>, end: usize, event: Event) {
        let unique = [event.code_index, event.time, u64::from(event.pid) << 32 | u64::from(event.tid)];
        let unique = unique.iter().flat_map(|word| word.to_le_bytes());
        bytes.extend(unique.take(end - bytes.len()));
        bytes.resize(end, 0);
    }
}

/// Returns the `.eh_frame` and `.eh_frame_hdr` of a function, as they lie after its code in perf's file.
fn unwinding(parts: &Parts<'_>) -> Result<Vec<u8>, Error> {
    let at = parts.size.next_multiple_of(8);
    // Room for the fields of both records, their padding and the header.
    let bytes = Vec::with_capacity(parts.entry.len() + parts.instructions.len() + 96 + 8 + EH_FRAME_HDR);
    let mut writer = Writer::after(SectionKind::EhFrame, parts.arch, Address(at), bytes);
    let cie = parts.cie(&mut writer, Pointers::PcRelative)?;
    let fde = parts.fde(&mut writer, &cie)?;
    writer.terminator();
    let mut bytes = writer.into_bytes();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let header = Address(at + bytes.len().to_u64());
    let fde = Address(at + fde.offset.0.to_u64());
    let mut out = Out { bytes, endian: parts.arch.endian() };
    // Version 1; pointers PC-relative, udata4, and relative to the header.
    out.bytes.extend_from_slice(&[1, 0x1b, 0x03, 0x3b]);
    out.u32(distance(header.offset(4), Address(at))? as u32);
    out.u32(1);
    out.u32(distance(header, Address(0))? as u32);
    out.u32(distance(header, fde)? as u32);
    Ok(out.bytes)
}

/// Finds the row that most bytes of code have, and returns the end of its instructions. If several rows have
/// equally many bytes, it is the first.
fn body_end(parts: &Parts<'_>) -> Result<usize, Error> {
    let function = parts.function();
    let mut rest = Instructions::new(&function, function.instructions);
    let (mut location, mut at, mut longest, mut end) = (0_u64, 0, 0, 0);
    while let Some(instruction) = rest.next() {
        match instruction {
            Ok(Instruction::Advance(delta)) => {
                if delta > longest {
                    (longest, end) = (delta, at);
                }
                location = location.saturating_add(delta);
            }
            Ok(_) => {}
            Err(reason) => {
                return Err(Error::Instructions(Unsupported::function(function.key, reason)));
            }
        }
        at = function.instructions.len() - rest.rest().len();
    }
    let is_last = parts.size.saturating_sub(location) > longest;
    Ok(if is_last { function.instructions.len() } else { end })
}

impl Out {
    /// Writes the beginning of a record.
    fn prefix(&mut self, id: u32, size: u32, time: u64) {
        self.u32(id);
        self.u32(size);
        self.u64(time);
    }
}
