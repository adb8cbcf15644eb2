//! The same walks through the C interface, as a profiler in C makes them.

#![allow(unsafe_code, reason = "calls of the C interface")]

use std::mem::MaybeUninit;
use std::ops::Range;
use std::path::Path;
use std::ptr::{null, null_mut};

use cfipack_capi::*;
use cfipack_decoder::walk::{End, FoundBy, StackFrame};
use cfipack_format::{Arch, Register};
use cfipack_tests::traced::images::{Image, Images};

use super::{DEPTH, Tables};
use crate::{Backtraces, Stop};

/// A module, with the table that it leads to.
pub struct Modules {
    #[allow(clippy::vec_box, reason = "modules lead to the tables, which must not move")]
    _tables: Vec<Box<cfipack_sframe>>,
    modules: Vec<cfipack_module>,
}

impl Modules {
    pub fn new(images: &Images, tables: Tables, has_code: bool, program: &Path) -> Self {
        let mut parsed = Vec::new();
        let module = |(range, image, code): (Range<u64>, Option<&Image>, &'static [u8])| {
            let table = image.filter(|image| tables.are_in(&image.name, program)).map(|image| {
                let mut table = Box::new(MaybeUninit::uninit());
                let (bytes, address) = (image.table_bytes, image.table.address().0);
                // SAFETY: the bytes live as long as this process.
                let status = unsafe {
                    cfipack_sframe_parse(table.as_mut_ptr(), bytes.as_ptr(), bytes.len(), address, null_mut())
                };
                assert_eq!(status, cfipack_status::Ok);
                // SAFETY: parsed.
                parsed.push(unsafe { table.assume_init() });
                &raw const **parsed.last().expect("one")
            });
            cfipack_module {
                start: range.start,
                end: range.end,
                bias: tables.bias(image),
                table: table.unwrap_or(null()),
                index: null(),
                starts: null(),
                num_starts: 0,
                switches: null(),
                num_switches: 0,
                code: if has_code { code.as_ptr() } else { null() },
                code_len: if has_code { code.len() } else { 0 },
            }
        };
        let modules = images.mappings().map(module).collect();
        Self { _tables: parsed, modules }
    }

    /// Walks a stack. Returns the frames and the number of the end.
    pub fn walk(&self, stop: &Stop, process: &Backtraces) -> (Vec<cfipack_frame>, u32) {
        let register = |(register, value): (Register, u64)| cfipack_register {
            reg: register.0.into(),
            reserved: 0,
            value,
        };
        let others: Vec<_> = stop.registers().into_iter().map(register).collect();
        let [sp, fp, lr] = stop.named();
        let registers = cfipack_registers {
            sp: sp.unwrap(),
            fp: fp.unwrap(),
            lr: lr.unwrap_or(0),
            has_fp: 1,
            has_lr: lr.is_some().into(),
            reserved: [0; 6],
            others: others.as_ptr(),
            num_others: others.len(),
        };
        let (address, bytes) = (process.stack.0, &process.stack.1);
        let memory = cfipack_memory { bytes: bytes.as_ptr(), len: bytes.len(), address };
        let thread = cfipack_thread {
            size: size_of::<cfipack_thread>() as u32,
            address_bits: 0,
            pc: stop.stopped.pc,
            registers: &registers,
            memory: &memory,
            num_memory: 1,
            stack_start: address,
            stack_end: address + bytes.len() as u64,
            cache: null_mut(),
            no_frame_pointers: 0,
            reserved: [0; 7],
        };
        let mut space = MaybeUninit::uninit();
        let mut frames = vec![cfipack_frame::default(); DEPTH];
        let (mut count, mut end) = (0, 0);
        // SAFETY: everything lives until the end of this function.
        let statuses = unsafe {
            let count_of_modules = self.modules.len();
            [
                cfipack_modules_init(
                    space.as_mut_ptr(),
                    if stop.arch == Arch::Amd64 { CFIPACK_ARCH_AMD64 } else { CFIPACK_ARCH_AARCH64 },
                    self.modules.as_ptr(),
                    count_of_modules,
                ),
                cfipack_walk(space.as_ptr(), &thread, frames.as_mut_ptr(), DEPTH, &mut count, &mut end),
            ]
        };
        assert_eq!(statuses, [cfipack_status::Ok; 2]);
        frames.truncate(count);
        (frames, end)
    }
}

/// Returns what C gets of a frame.
pub fn frame(frame: &StackFrame) -> cfipack_frame {
    let found_by = match frame.found_by {
        FoundBy::Registers => CFIPACK_FOUND_BY_REGISTERS,
        FoundBy::Table => CFIPACK_FOUND_BY_TABLE,
        FoundBy::FramePointer => CFIPACK_FOUND_BY_FRAME_POINTER,
        FoundBy::TableAfterGuess => CFIPACK_FOUND_BY_TABLE_AFTER_GUESS,
    };
    cfipack_frame {
        pc: frame.pc.0,
        sp: frame.sp,
        is_exact: frame.is_exact.into(),
        found_by,
        reserved: [0; 6],
    }
}

/// Returns C's number of an end.
pub fn end(end: Option<End>) -> u32 {
    match end {
        None => CFIPACK_END_NONE,
        Some(End::Outermost) => CFIPACK_END_OUTERMOST,
        Some(End::Start) => CFIPACK_END_START,
        Some(End::Null) => CFIPACK_END_NULL,
        Some(End::NoRow) => CFIPACK_END_NO_ROW,
        Some(End::Register { .. }) => CFIPACK_END_REGISTER,
        Some(End::Memory { .. }) => CFIPACK_END_MEMORY,
        Some(End::NotRising) => CFIPACK_END_NOT_RISING,
        Some(End::GuessedNull) => CFIPACK_END_GUESSED_NULL,
        Some(End::NotCode { .. }) => CFIPACK_END_NOT_CODE,
        Some(end) => panic!("{end}"),
    }
}
