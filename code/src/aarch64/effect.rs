//! Finds the effects of an AArch64 instruction on registers and memory.

use cfipack_format::Address;
use yaxpeax_arm::armv8::a64::{Instruction, Opcode, Operand, SIMDSizeCode, ShiftStyle, SizeCode};

use super::LINK;
use crate::instruction::{Index, Op, Table};

/// Collects the effects of an instruction.
pub(super) struct Effect<'o> {
    pub(super) ops: &'o mut Vec<Op>,
    /// The registers with unknown values afterwards, as bits.
    pub(super) writes: u64,
    /// True if data is big-endian.
    pub(super) is_big: bool,
}

/// Returns the general register in an operand: `None` for the zero register, 31 for the stack pointer.
pub(super) fn general(operand: &Operand) -> Option<Index> {
    match *operand {
        Operand::Register(_, 31) => None,
        Operand::Register(_, number) | Operand::RegisterOrSP(_, number) => Some(number as Index),
        _ => None,
    }
}

/// Returns the register if an operand is all of it: a general register of 64 bits, or d8 to d15.
fn followed(operand: &Operand) -> Option<Index> {
    match *operand {
        Operand::Register(SizeCode::X, 31) => None,
        Operand::Register(SizeCode::X, number) | Operand::RegisterOrSP(SizeCode::X, number) => {
            Some(number as Index)
        }
        Operand::SIMDRegister(SIMDSizeCode::D, number @ 8..16) => Some(number as Index - 8 + 32),
        _ => None,
    }
}

/// The registers x0 to x17, as bits: the most that a call of a hypervisor changes (SMC Calling Convention 1.0).
const CALLED: u64 = (1 << 18) - 1;

/// The size of a followed register in bytes.
const REGISTER: i32 = 8;

/// Returns the size in bytes of a register that is stored or loaded.
fn width(operand: &Operand) -> i32 {
    match *operand {
        Operand::Register(SizeCode::W, _) | Operand::RegisterOrSP(SizeCode::W, _) => 4,
        Operand::SIMDRegister(size, _) => match size {
            SIMDSizeCode::B => 1,
            SIMDSizeCode::H => 2,
            SIMDSizeCode::S => 4,
            SIMDSizeCode::D => 8,
            SIMDSizeCode::Q => 16,
        },
        _ => 8,
    }
}

/// Returns the constant in an operand.
fn constant(operand: &Operand) -> Option<u64> {
    match *operand {
        Operand::Immediate(value) => Some(value.into()),
        Operand::Imm64(value) => Some(value),
        Operand::Imm16(value) => Some(value.into()),
        Operand::ImmShift(value, shift) => Some(u64::from(value) << (shift & 63)),
        _ => None,
    }
}

impl Effect<'_> {
    /// Adds the effects of an instruction.
    pub(super) fn add_instruction(&mut self, instruction: &Instruction, pc: Address, is_relocated: bool) {
        use Opcode as O;
        let operands = &instruction.operands;
        match instruction.opcode {
            O::ADD | O::SUB | O::ADDS | O::SUBS => self.sum(instruction, is_relocated),
            O::AND if matches!(operands[2], Operand::Imm64(value) if value as i64 <= -2) => {
                self.aligned(operands);
            }
            O::AND if operands[0] == operands[1] => self.masked(operands),
            O::ORR => self.or(operands),
            O::MOVZ => self.set_constant(&operands[0], constant(&operands[1])),
            O::MOVN => self.set_constant(&operands[0], constant(&operands[1]).map(|value| !value)),
            O::MOVK => self.keep(operands),
            O::ADR | O::ADRP => self.address(instruction, pc, is_relocated),
            O::LDP | O::LDNP => self.load(&operands[..2], &operands[2]),
            O::LDPSW | O::LDXP | O::LDAXP => {
                self.write(&operands[0]);
                self.write(&operands[1]);
                self.write_back(&operands[2]);
            }
            O::LDR | O::LDUR => self.load_one(operands),
            O::LDRB | O::LDRH => self.entry(operands, false),
            O::LDRSB | O::LDRSH | O::LDRSW => self.entry(operands, true),
            O::STP | O::STNP => self.store(&operands[..2], &operands[2]),
            O::STR | O::STUR => self.store(&operands[..1], &operands[1]),
            O::STRB
            | O::STRH
            | O::STRW
            | O::STURB
            | O::STURH
            | O::STTR
            | O::STTRB
            | O::STTRH
            | O::STLR
            | O::STLLR
            | O::STLRB
            | O::STLLRB
            | O::STLRH
            | O::STLLRH
            | O::STLUR
            | O::STLURB
            | O::STLURH
            | O::ST1
            | O::ST2
            | O::ST3
            | O::ST4
            | O::STG
            | O::STZG
            | O::ST2G
            | O::STZ2G
            | O::STGM
            | O::STZGM => self.write_back(&operands[1]),
            // These instructions only read their registers.
            O::CCMN
            | O::CCMP
            | O::CBZ
            | O::CBNZ
            | O::TBZ
            | O::TBNZ
            | O::BR
            | O::RET
            | O::MSR
            | O::SYS(_)
            | O::PRFM
            | O::PRFUM
            | O::RMIF
            | O::SETF8
            | O::SETF16
            | O::FCMP
            | O::FCMPE
            | O::FCCMP
            | O::FCCMPE
            | O::BRAA
            | O::BRAAZ
            | O::BRAB
            | O::BRABZ => {}
            O::SYSL(_) => self.write(&operands[2]),
            O::SWP(_)
            | O::SWPB(_)
            | O::SWPH(_)
            | O::LDADDB(_)
            | O::LDCLRB(_)
            | O::LDEORB(_)
            | O::LDSETB(_)
            | O::LDSMAXB(_)
            | O::LDSMINB(_)
            | O::LDUMAXB(_)
            | O::LDUMINB(_)
            | O::LDADDH(_)
            | O::LDCLRH(_)
            | O::LDEORH(_)
            | O::LDSETH(_)
            | O::LDSMAXH(_)
            | O::LDSMINH(_)
            | O::LDUMAXH(_)
            | O::LDUMINH(_)
            | O::LDADD(_)
            | O::LDCLR(_)
            | O::LDEOR(_)
            | O::LDSET(_)
            | O::LDSMAX(_)
            | O::LDSMIN(_)
            | O::LDUMAX(_)
            | O::LDUMIN(_) => self.write(&operands[1]),
            O::PACIASP | O::PACIBSP | O::PACIAZ | O::PACIBZ => self.ops.push(Op::Sign),
            O::AUTIASP | O::AUTIBSP | O::AUTIAZ | O::AUTIBZ | O::XPACLRI => self.ops.push(Op::Authenticate),
            O::PACIA | O::PACIB if general(&operands[0]) == Some(LINK) => self.ops.push(Op::Sign),
            O::AUTIA | O::AUTIB if general(&operands[0]) == Some(LINK) => self.ops.push(Op::Authenticate),
            // The kernel returns a value. A hypervisor may change as many registers as a called function.
            O::SVC => self.writes |= 1,
            O::HVC | O::SMC => self.writes |= CALLED,
            // These variants work on x16 and x17.
            O::PACIA1716 | O::PACIB1716 | O::AUTIA1716 | O::AUTIB1716 => self.writes |= 1 << 17,
            _ => {
                self.write(&operands[0]);
                operands[1..].iter().for_each(|operand| self.write_back(operand));
            }
        }
    }

    /// Makes the registers of an operand unknown.
    fn write(&mut self, operand: &Operand) {
        let vectors = |first: u16, count: u16| {
            (first..first + count).map(|number| number & 31).filter(|number| (8..16).contains(number))
        };
        match *operand {
            Operand::RegisterPair(_, number) => self.writes |= 3 << (number & 31),
            Operand::SIMDRegister(_, number)
            | Operand::SIMDRegisterElements(_, number, _)
            | Operand::SIMDRegisterElementsLane(_, number, ..)
            | Operand::SIMDRegisterElementsMultipleLane(_, number, ..) => {
                self.writes |= vectors(number, 1).fold(0, |bits, number| bits | 1 << (number + 24));
            }
            Operand::SIMDRegisterGroup(_, number, _, count)
            | Operand::SIMDRegisterGroupLane(number, _, count, _) => {
                self.writes |=
                    vectors(number, count.into()).fold(0, |bits, number| bits | 1 << (number + 24));
            }
            _ => self.writes |= general(operand).map_or(0, |register| 1 << register),
        }
    }

    /// Adds the change of an access's base register.
    fn write_back(&mut self, access: &Operand) {
        match *access {
            Operand::RegPreIndex(base, add, true) | Operand::RegPostIndex(base, add) => {
                self.ops.push(Op::Set { to: base as Index, from: base as Index, add });
            }
            Operand::RegPostIndexReg(base, _) => self.writes |= 1 << base,
            _ => {}
        }
    }

    /// Adds the effect of `add`, `sub` or `cmp`.
    fn sum(&mut self, instruction: &Instruction, is_relocated: bool) {
        let [to, left, right, _] = &instruction.operands;
        let minus = matches!(instruction.opcode, Opcode::SUB | Opcode::SUBS);
        let is_compare = matches!(to, Operand::Register(_, 31)) && instruction.opcode == Opcode::SUBS;
        let number = match *right {
            Operand::RegShift(style, shift, _, number) => Some((style, shift, number)),
            _ => None,
        };
        if is_compare {
            match (general(left), number, constant(right)) {
                (Some(left), Some((ShiftStyle::LSL | ShiftStyle::UXTX, 0, right @ 0..31)), _) => {
                    self.ops.push(Op::Compare { left, right: right as Index });
                }
                (Some(register), None, Some(value)) => {
                    let value = u32::try_from(value).unwrap_or(u32::MAX);
                    self.ops.push(Op::Limit { register, value });
                }
                _ => {}
            }
            return;
        }
        let Some(target) = general(to) else { return };
        let is_whole = followed(to).is_some();
        match (followed(left), constant(right).and_then(|value| i32::try_from(value).ok()), number) {
            (Some(from), Some(add), None) if is_whole && !is_relocated => {
                self.ops.push(Op::Set { to: target, from, add: if minus { -add } else { add } });
            }
            (Some(left), None, Some((style, shift @ 0..8, right @ 0..31))) if is_whole => {
                let signed = matches!(style, ShiftStyle::SXTB | ShiftStyle::SXTH | ShiftStyle::SXTW);
                self.ops.push(Op::Sum { to: target, left, right: right as Index, shift, minus, signed });
            }
            _ => self.writes |= 1 << target,
        }
    }

    fn aligned(&mut self, operands: &[Operand; 4]) {
        match (followed(&operands[0]), followed(&operands[1])) {
            (Some(to), Some(from)) => self.ops.push(Op::Align { to, from }),
            _ => self.write(&operands[0]),
        }
    }

    /// Adds the effect of `and` with one register twice. Compilers mask the frame pointer and the return address with another
    /// register.
    fn masked(&mut self, operands: &[Operand; 4]) {
        match (followed(&operands[0]), operands[2]) {
            (Some(to @ (29 | LINK)), Operand::RegShift(..)) => self.ops.push(Op::Mask { to }),
            _ => self.write(&operands[0]),
        }
    }

    /// Adds the effect of `orr`. Assemblers use it to move registers and constants.
    fn or(&mut self, operands: &[Operand; 4]) {
        if !matches!(operands[1], Operand::Register(_, 31)) {
            return self.write(&operands[0]);
        }
        match (operands[2], followed(&operands[0])) {
            (Operand::RegShift(ShiftStyle::LSL, 0, SizeCode::X, 31), Some(to)) => {
                self.ops.push(Op::Constant { to, value: 0 });
            }
            (Operand::RegShift(ShiftStyle::LSL, 0, SizeCode::X, from), Some(to)) => {
                self.ops.push(Op::Set { to, from: from as Index, add: 0 });
            }
            (Operand::Imm64(value), Some(to)) => self.ops.push(Op::Constant { to, value }),
            _ => self.write(&operands[0]),
        }
    }

    fn set_constant(&mut self, operand: &Operand, value: Option<u64>) {
        let mask = if width(operand) == 4 { u64::from(u32::MAX) } else { u64::MAX };
        match (general(operand), value) {
            (Some(to), Some(value)) => self.ops.push(Op::Constant { to, value: value & mask }),
            _ => self.write(operand),
        }
    }

    fn keep(&mut self, operands: &[Operand; 4]) {
        match (general(&operands[0]), operands[1]) {
            (Some(to), Operand::ImmShift(value, shift)) => self.ops.push(Op::Keep { to, shift, value }),
            _ => self.write(&operands[0]),
        }
    }

    fn address(&mut self, instruction: &Instruction, pc: Address, is_relocated: bool) {
        let base = if instruction.opcode == Opcode::ADRP { Address(pc.0 & !0xfff) } else { pc };
        match (general(&instruction.operands[0]), instruction.operands[1]) {
            (Some(to), Operand::PCOffset(offset)) if !is_relocated => {
                self.ops.push(Op::Constant { to, value: base.offset(offset).0 });
            }
            _ => self.write(&instruction.operands[0]),
        }
    }

    /// Adds loads of registers that follow each other in memory.
    fn load(&mut self, registers: &[Operand], access: &Operand) {
        let place = place(access);
        // With a pre-index, the base also changes last. So all offsets here are relative to the old base.
        let mut delayed = None;
        for (number, register) in registers.iter().enumerate() {
            match (self.in_memory(register), place) {
                (Some((to, within)), Some((base, start))) => {
                    let offset = start + number as i32 * width(register) + within;
                    let load = Op::Load { to, base, offset };
                    // If the base itself is loaded, this load comes last.
                    if to == base { delayed = Some(load) } else { self.ops.push(load) }
                }
                _ => self.write(register),
            }
        }
        self.ops.extend(delayed);
        self.write_back(access);
    }

    fn load_one(&mut self, operands: &[Operand; 4]) {
        match operands[1] {
            Operand::RegRegOffset(..) => self.entry(operands, false),
            _ => self.load(&operands[..1], &operands[1]),
        }
    }

    /// Adds a load that may read a jump table.
    fn entry(&mut self, operands: &[Operand; 4], signed: bool) {
        if let (Some(to), Operand::RegRegOffset(base, _, _, _, shift)) = (general(&operands[0]), operands[1])
            && let Some(size) = 1u8.checked_shl(shift.into()).filter(|size| *size <= 8)
        {
            let table = Table::Register(base as Index);
            self.ops.push(Op::Entry { to, table, size, signed });
            return;
        }
        self.write(&operands[0]);
        self.write_back(&operands[1]);
    }

    /// Returns the followed register in an operand that is stored or loaded, and its offset there. For example, d8 is
    /// the lower half of q8.
    fn in_memory(&self, operand: &Operand) -> Option<(Index, i32)> {
        match *operand {
            Operand::SIMDRegister(SIMDSizeCode::Q, number) => {
                let half = Operand::SIMDRegister(SIMDSizeCode::D, number);
                followed(&half).map(|index| (index, if self.is_big { REGISTER } else { 0 }))
            }
            _ => followed(operand).map(|index| (index, 0)),
        }
    }

    /// Adds stores of registers that follow each other in memory.
    fn store(&mut self, registers: &[Operand], access: &Operand) {
        let Some((base, start)) = place(access) else { return self.write_back(access) };
        for (number, register) in registers.iter().enumerate() {
            let (stored, width) = (self.in_memory(register), width(register));
            let offset = start + number as i32 * width;
            if width != REGISTER || stored.is_none() {
                self.ops.push(Op::Store { from: None, base, offset, size: width as u16 });
            }
            if let Some((from, within)) = stored {
                self.ops.push(Op::Store { from: Some(from), base, offset: offset + within, size: 8 });
            }
        }
        self.write_back(access);
    }
}

/// Returns the base and the offset of a place in memory.
fn place(access: &Operand) -> Option<(Index, i32)> {
    match *access {
        Operand::RegPreIndex(base, offset, _) => Some((base as Index, offset)),
        Operand::RegPostIndex(base, _) => Some((base as Index, 0)),
        _ => None,
    }
}
