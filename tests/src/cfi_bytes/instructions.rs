//! Writes the CFI instructions of generated records byte by byte: an assembler writes only one form of each
//! instruction, but readers must take all forms.

use std::ops::Range;

use cfipack_cfi::write::Writer;
use cfipack_format::{Address, Arch};

use super::{Cie, Generator};

/// The state that an instruction may depend on.
#[derive(Clone, Copy)]
struct State {
    /// The CFA is a register plus an offset, so each may be changed alone.
    cfa_is_register: bool,
    /// States that can be restored.
    remembered: u32,
}

impl Generator<'_> {
    pub(super) fn initial_instructions(&mut self, data_alignment: i64) {
        let arch = self.arch;
        let offset = if arch == Arch::Amd64 { 8 } else { -arch.stack_pointer_from_cfa() };
        self.put([0x0c]); // def_cfa
        self.uleb(arch.stack_pointer().0.into());
        self.uleb(offset as u64);
        if arch == Arch::Amd64 {
            self.register_at(0x05, 16, -8, data_alignment); // offset_extended
        }
        if self.random.chance(10) {
            self.save(data_alignment);
        }
    }

    /// Writes instructions over the whole function, in ascending order of location.
    /// The first instruction is at the address `place`.
    pub(super) fn function_instructions(&mut self, cie: &Cie, function: &Range<u64>, place: u64) {
        let mut state = State { cfa_is_register: true, remembered: 0 };
        let mut at = function.start;
        for _ in 0..self.random.pick(&[0, 1, 3, 8, 20]) {
            if self.random.chance(70) {
                at = self.advance(cie, at, function.end, place);
            }
            state = self.instruction(cie, state);
        }
    }

    fn advance(&mut self, cie: &Cie, at: u64, end: u64, place: u64) -> u64 {
        let steps = end.saturating_sub(at) / cie.code_alignment;
        let limit = self.random.pick(&[1, 4, 63, 300, 70_000]);
        let by = self.random.below(steps.min(limit) + 1);
        let to = at + by * cie.code_alignment;
        match self.random.below(5) {
            0 if self.set_loc => {
                // The operand of set_loc is an address, which depends on the operand's own place
                let operand = Address(place + self.instructions.len() as u64 + 1);
                let section = self.writer.section();
                let mut pointer = Writer::new(section.kind, self.arch, operand);
                (pointer.text, pointer.data) = (section.text, section.data);
                if pointer.pointer(cie.encoding, Address(to)).is_err() {
                    return at;
                }
                self.put([0x01]);
                self.put(pointer.as_bytes());
            }
            1 => {
                self.put([0x04]);
                self.put(self.arch.endian().put_u32(by as u32));
            }
            2 if by < 65536 => {
                self.put([0x03]);
                self.put(self.arch.endian().put_u16(by as u16));
            }
            3 if by < 256 => self.put([0x02, by as u8]),
            _ if by < 64 => self.put([0x40 | by as u8]),
            _ => return at,
        }
        to
    }

    fn instruction(&mut self, cie: &Cie, state: State) -> State {
        match self.random.below(100) {
            0..35 => return State { cfa_is_register: self.cfa(cie, state), ..state },
            35..60 => self.save(cie.data_alignment),
            60..72 => {
                let register = self.register();
                match self.random.below(4) {
                    0 => self.put([0xc0 | register as u8 & 0x3f]), // restore
                    1 => self.put([0x06, register as u8]),         // restore_extended
                    2 => self.put([0x08, register as u8]),         // same_value
                    _ => self.put([0x07, register as u8]),         // undefined
                }
            }
            72..80 if state.remembered < 2 => {
                self.put([0x0a]); // remember_state; gimli nests only a few
                return State { remembered: state.remembered + 1, ..state };
            }
            80..88 if state.remembered > 0 => {
                self.put([0x0b]); // restore_state
                // The generator does not know the restored state, so nothing may depend on it.
                return State { cfa_is_register: false, remembered: state.remembered - 1 };
            }
            88..92 => {
                let (register, other) = (self.register(), self.random.below(17));
                self.put([0x09, register as u8, other as u8]); // register
            }
            92..94 if self.arch.is_aarch64() => self.put([0x2d]), // negate_ra_state
            94..96 => {
                self.put([0x2e]); // GNU_args_size
                let size = self.random.below(1000);
                self.uleb(size);
            }
            96..98 => self.expression(),
            _ => self.put([0x00]), // nop
        }
        state
    }

    /// Writes an instruction about the CFA. Returns whether the CFA is a register plus an offset afterwards.
    fn cfa(&mut self, cie: &Cie, state: State) -> bool {
        let arch = self.arch;
        let (stack, frame) = (arch.stack_pointer().0.into(), arch.frame_pointer().0.into());
        let register = self.random.pick(&[stack, stack, stack, frame, frame, 10]);
        let limit = self.random.pick(&[8, 16, 100, 9000, 0x1000_0000]);
        let offset = 8 * self.random.below(limit);
        let factored = offset as i64 / cie.data_alignment;
        match (self.random.below(6), state.cfa_is_register) {
            (0, true) => {
                self.put([0x0d]); // def_cfa_register
                self.uleb(register);
            }
            (1, true) => {
                self.put([0x0e]); // def_cfa_offset
                self.uleb(offset);
            }
            (2, true) => {
                self.put([0x13]); // def_cfa_offset_sf
                self.sleb(factored);
            }
            (3, _) => {
                self.put([0x12]); // def_cfa_sf
                self.uleb(register);
                self.sleb(factored);
            }
            (4, _) if self.random.chance(20) => {
                // def_cfa_expression: breg, sometimes dereferenced
                self.put([0x0f]);
                let deref = self.random.chance(80);
                self.put([2 + u8::from(deref), 0x70 + frame as u8, offset as u8 & 0x3f]);
                self.put(if deref { &[0x06][..] } else { &[] });
                return false;
            }
            _ => {
                self.put([0x0c]); // def_cfa
                self.uleb(register);
                self.uleb(offset);
            }
        }
        true
    }

    /// Returns a register that tables track, or another one.
    fn register(&mut self) -> u64 {
        let arch = self.arch;
        let tracked = [arch.frame_pointer().0, arch.frame_pointer().0, arch.return_address().0];
        let register = self.random.pick(&tracked);
        if self.random.chance(50) { register.into() } else { self.random.pick(&[3, 12, 13, 20]) }
    }

    fn save(&mut self, data_alignment: i64) {
        let register = self.register();
        let offset = -8 * self.random.between(0, 40);
        match self.random.below(7) {
            0 => self.register_at(0x05, register, offset, data_alignment), // offset_extended
            1 => self.register_at(0x11, register, offset, data_alignment), // offset_extended_sf
            2 if self.random.chance(20) => self.register_at(0x14, register, offset, data_alignment), // val_offset
            3 if self.random.chance(20) => self.register_at(0x15, register, offset, data_alignment), // val_offset_sf
            _ => {
                self.put([0x80 | register as u8 & 0x3f]); // offset
                self.uleb((offset / data_alignment).unsigned_abs());
            }
        }
    }

    fn register_at(&mut self, opcode: u8, register: u64, offset: i64, data_alignment: i64) {
        let factored = offset / data_alignment;
        self.put([opcode]);
        self.uleb(register);
        match opcode {
            0x11 | 0x15 => self.sleb(factored),
            _ => self.uleb(factored.unsigned_abs()),
        }
    }

    /// `expression` and `val_expression`: breg7 plus a small offset.
    fn expression(&mut self) {
        let opcode = self.random.pick(&[0x10, 0x10, 0x16]);
        let register = self.register();
        let base = self.random.pick(&[self.arch.stack_pointer().0, self.arch.frame_pointer().0]);
        let offset = self.random.below(64);
        self.put([opcode]);
        self.uleb(register);
        self.put([2, 0x70 + base as u8, offset as u8]);
    }
}
