//! The effects of instructions.

use iced_x86::{Code, Instruction, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register as X86};

use super::usual::{self, Written};
use super::{TARGET, X86Decoder, renumbered};
use crate::instruction::{Index, Op, Table};

impl X86Decoder<'_> {
    /// Appends the known effects, and returns the registers with unknown values as bits.
    pub(super) fn effect(&mut self, instruction: &Instruction, relocated: bool, ops: &mut Vec<Op>) -> u64 {
        let usual = usual::writes_if_common(instruction);
        // Among instructions that write nothing, only comparisons have effects.
        if usual == Some(Written::NOTHING) && instruction.mnemonic() != Mnemonic::Cmp {
            return 0;
        }
        let first = ops.len();
        let increment = instruction.stack_pointer_increment();
        let stack = self.arch.stack_pointer().0 as Index;
        if increment < 0 {
            ops.push(Op::Set { to: stack, from: stack, add: increment });
        }
        self.changes(instruction, relocated, ops);
        // The stack pointer after `pop rsp` is the loaded value.
        let is_loaded = instruction.mnemonic() == Mnemonic::Pop
            && self.register(instruction.op0_register()) == Some(stack);
        if increment > 0 && !is_loaded && instruction.mnemonic() != Mnemonic::Leave {
            ops.push(Op::Set { to: stack, from: stack, add: increment });
        }
        let known = ops[first..].iter().fold(0, |bits, op| bits | op.written());
        let Written { registers, first: is_write } = usual.unwrap_or_else(|| self.written(instruction));
        // Compilers use `lock or [rsp], 0` as a barrier or to probe the stack. It changes nothing.
        let is_barrier = matches!(instruction.mnemonic(), Mnemonic::Or | Mnemonic::Add | Mnemonic::Xor)
            && immediate(instruction, self.is_wide) == Some(0);
        let stores = is_write && ops.len() == first && !is_barrier;
        if stores
            && instruction.op0_kind() == OpKind::Memory
            && let Some((base, offset)) = self.memory(instruction)
        {
            let size = instruction.memory_size().size() as u16;
            ops.push(Op::Store { from: None, base, offset, size });
        }
        renumbered(self.arch, registers) & !known
    }

    /// Asks iced which registers an instruction writes, and whether it writes its first operand.
    pub(super) fn written(&mut self, instruction: &Instruction) -> Written {
        let info = self.info.get_or_insert_with(iced_x86::InstructionInfoFactory::new);
        let info = info.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        let mut registers = 0;
        for used in info.used_registers() {
            let is_write = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            if is_write && used.register().is_gpr() {
                registers |= 1u64 << used.register().full_register().number();
            }
        }
        let first = matches!(info.op0_access(), OpAccess::Write | OpAccess::ReadWrite);
        Written { registers, first }
    }

    /// Appends the effects with a known result. Changes of the stack pointer by pushes and pops are added elsewhere.
    fn changes(&self, instruction: &Instruction, relocated: bool, ops: &mut Vec<Op>) {
        let (stack, frame) = (self.arch.stack_pointer().0 as Index, self.arch.frame_pointer().0 as Index);
        let pointer = i32::from(self.arch.pointer_size());
        let mnemonic = instruction.mnemonic();
        let first = self.register(instruction.op0_register());
        match mnemonic {
            Mnemonic::Leave => ops.extend([
                Op::Set { to: stack, from: frame, add: pointer },
                Op::Load { to: frame, base: stack, offset: -pointer },
            ]),
            Mnemonic::Enter if instruction.code() != Code::Enterw_imm16_imm8 => {
                // The stack pointer has moved already. With a second operand, pointers of other frames follow.
                let saved = -instruction.stack_pointer_increment() - pointer;
                let others = i32::from(instruction.immediate8_2nd() & 0x1f) * pointer;
                ops.extend([
                    Op::Store { from: None, base: stack, offset: saved - others, size: others as u16 },
                    Op::Store { from: Some(frame), base: stack, offset: saved, size: pointer as u16 },
                    Op::Set { to: frame, from: stack, add: saved },
                ]);
            }
            Mnemonic::Push | Mnemonic::Call => {
                let size = instruction.stack_pointer_increment().unsigned_abs() as u16;
                let pushed = self.memory(instruction).filter(|_| mnemonic == Mnemonic::Push);
                if let Some((base, offset)) = pushed {
                    // The stack pointer has moved already.
                    let offset = offset.wrapping_add(if base == stack { size.into() } else { 0 });
                    ops.push(Op::Load { to: TARGET, base, offset });
                }
                let from = first.or(pushed.map(|_| TARGET));
                ops.push(Op::Store { from, base: stack, offset: 0, size });
            }
            Mnemonic::Pop if instruction.op0_kind() == OpKind::Memory => {
                let size = instruction.memory_size().size() as u16;
                if let Some((base, offset)) = self.memory(instruction) {
                    // The address counts from the stack pointer after the pop.
                    let offset = offset.wrapping_add(if base == stack { size.into() } else { 0 });
                    ops.extend([
                        Op::Load { to: TARGET, base: stack, offset: 0 },
                        Op::Store { from: Some(TARGET), base, offset, size },
                    ]);
                }
            }
            Mnemonic::Cmp => self.compare(instruction, ops),
            Mnemonic::Jmp if instruction.memory_base() != X86::None => {
                self.entry(instruction, relocated, TARGET, false, ops);
            }
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Memory => {
                if let Some((base, offset)) = self.memory(instruction) {
                    let from = (instruction.op1_kind() == OpKind::Register)
                        .then(|| self.register(instruction.op1_register()))
                        .flatten();
                    let size = instruction.memory_size().size() as u16;
                    ops.push(Op::Store { from, base, offset, size });
                }
            }
            _ => {}
        }
        if let Some(to) = first {
            self.register_effects(instruction, relocated, to, ops);
        } else if let Some(to) = self.low_half(instruction.op0_register())
            && matches!(mnemonic, Mnemonic::Mov | Mnemonic::Movzx)
            && let Some(from) = self.whole(instruction.op1_register())
        {
            ops.push(Op::Extend { to, from });
        } else if mnemonic == Mnemonic::Mov && !relocated {
            // Writing a constant to the low half of a register clears the upper half.
            if let Some(to) = self.low_half(instruction.op0_register())
                && instruction.op1_kind() == OpKind::Immediate32
            {
                ops.push(Op::Constant { to, value: u64::from(instruction.immediate32()) });
            }
        }
    }

    /// Appends the effects of an instruction whose first operand is a whole register.
    fn register_effects(&self, instruction: &Instruction, relocated: bool, to: Index, ops: &mut Vec<Op>) {
        let stack = self.arch.stack_pointer().0 as Index;
        let source = (instruction.op1_kind() == OpKind::Register)
            .then(|| self.register(instruction.op1_register()))
            .flatten();
        let constant = || immediate(instruction, self.is_wide).filter(|_| !relocated);
        match instruction.mnemonic() {
            Mnemonic::Pop if to != stack => ops.push(Op::Load { to, base: stack, offset: 0 }),
            Mnemonic::Mov => match (source, self.memory(instruction)) {
                (Some(from), _) => ops.push(Op::Set { to, from, add: 0 }),
                (None, Some((base, offset))) if instruction.op1_kind() == OpKind::Memory => {
                    ops.push(Op::Load { to, base, offset });
                }
                (None, _) if instruction.op1_kind() == OpKind::Memory => {
                    self.entry(instruction, relocated, to, false, ops);
                }
                _ => ops.extend(constant().map(|value| Op::Constant { to, value: value as u64 })),
            },
            Mnemonic::Movsxd if instruction.op1_kind() == OpKind::Register => {
                ops.extend(self.whole(instruction.op1_register()).map(|from| Op::Extend { to, from }));
            }
            Mnemonic::Movsxd if instruction.op1_kind() == OpKind::Memory => {
                self.entry(instruction, relocated, to, true, ops);
            }
            Mnemonic::Lea => self.address(instruction, relocated, to, ops),
            Mnemonic::Add => match (source, constant().and_then(|value| i32::try_from(value).ok())) {
                (Some(right), _) => {
                    ops.push(Op::Sum { to, left: to, right, shift: 0, minus: false, signed: false });
                }
                (None, Some(add)) => ops.push(Op::Set { to, from: to, add }),
                _ => {}
            },
            Mnemonic::Sub => match (source, constant().and_then(|value| i32::try_from(-value).ok())) {
                (Some(right), _) => {
                    ops.push(Op::Sum { to, left: to, right, shift: 0, minus: true, signed: false })
                }
                (None, Some(add)) => ops.push(Op::Set { to, from: to, add }),
                _ => {}
            },
            Mnemonic::And if constant().is_some_and(|value| value < 0) => {
                ops.push(Op::Align { to, from: to })
            }
            _ => {}
        }
    }

    /// Appends the effect of `lea`.
    fn address(&self, instruction: &Instruction, relocated: bool, to: Index, ops: &mut Vec<Op>) {
        if instruction.is_ip_rel_memory_operand() {
            if !relocated {
                ops.push(Op::Constant { to, value: instruction.ip_rel_memory_address() });
            }
        } else if let Some((from, add)) = self.memory(instruction) {
            ops.push(Op::Set { to, from, add });
        } else if let (Some(left), Some(right)) =
            (self.register(instruction.memory_base()), self.register(instruction.memory_index()))
            && instruction.memory_displacement64() == 0
        {
            let shift = instruction.memory_index_scale().trailing_zeros() as u8;
            ops.push(Op::Sum { to, left, right, shift, minus: false, signed: false });
        }
    }

    /// Appends a load from a table, such as `[base + 4 * index]` or `[8 * index + address]`.
    fn entry(&self, instruction: &Instruction, relocated: bool, to: Index, signed: bool, ops: &mut Vec<Op>) {
        let size = instruction.memory_size().size() as u8;
        if self.register(instruction.memory_index()).is_none()
            || instruction.memory_index_scale() != u32::from(size)
            || relocated
        {
            return;
        }
        let table = match self.register(instruction.memory_base()) {
            Some(base) if instruction.memory_displacement64() == 0 => Table::Register(base),
            None if instruction.memory_base() == X86::None => Table::At(instruction.memory_displacement64()),
            _ => return,
        };
        ops.push(Op::Entry { to, table, size, signed });
    }

    fn compare(&self, instruction: &Instruction, ops: &mut Vec<Op>) {
        let left = match instruction.op0_kind() {
            OpKind::Register => self.whole(instruction.op0_register()),
            // A value in memory. It is loaded into a register later.
            _ => Some(u8::MAX),
        };
        let right = (instruction.op1_kind() == OpKind::Register)
            .then(|| self.register(instruction.op1_register()))
            .flatten();
        match (left, right, immediate(instruction, self.is_wide)) {
            (Some(left), Some(right), _) if left != u8::MAX => ops.push(Op::Compare { left, right }),
            (Some(register), None, Some(value)) => {
                let value = u32::try_from(value).unwrap_or(u32::MAX);
                ops.push(Op::Limit { register, value });
            }
            _ => {}
        }
    }
}

/// Returns the second operand if it is a constant.
fn immediate(instruction: &Instruction, is_wide: bool) -> Option<i64> {
    let kind = instruction.op1_kind();
    let is_immediate = matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    );
    let value = is_immediate.then(|| instruction.immediate(1))?;
    Some(if is_wide { value as i64 } else { i64::from(value as i32) })
}
