//! Decodes x86 instructions into effects, with iced-x86.
//!
//! To teach an instruction: `register_effects` has the effects on a first operand that is a whole register, and
//! `changes` all other effects. `flow` says where execution goes on, and `special` whether the kernel is called.
//! Changes of the stack pointer and of unknown registers need nothing: iced knows them. `usual.rs` answers faster than
//! iced; an instruction that it has as writing nothing has no effects, except `cmp`.

mod usual;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Register};
use iced_x86::{
    Code, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register as X86,
};

use self::usual::Written;
use crate::instruction::{Condition, Decoded, Flow, Index, Op, Special, Table};

/// The registers that a call may change, as bits by the machine's numbers: all but rbx, rbp, rsp and r12 to r15 (64
/// bits), or all but ebx, ebp, esp, esi and edi (32 bits). Source: System V's psABIs.
const CALL_CHANGES: u64 = 0b0000_1111_1100_0111;
const CALL_CHANGES_32: u64 = 0b0000_0111;

/// The index for a value without a register: the target of a jump through a table whose address is in a register, or a
/// value that is pushed from memory or popped into memory. No register has this index.
const TARGET: Index = 16;

/// Decodes the instructions of a function in memory order.
pub(crate) struct X86Decoder<'c> {
    arch: Arch,
    is_wide: bool,
    /// The registers that a call may change, as bits by DWARF's numbers.
    call_changes: u64,
    start: Address,
    code: &'c [u8],
    decoder: Decoder<'c>,
    info: InstructionInfoFactory,
}

/// Decodes the instruction at an address.
pub(crate) fn decode(arch: Arch, code: &[u8], pc: Address) -> Instruction {
    decoder(arch, code, pc).decode()
}

fn decoder(arch: Arch, code: &[u8], pc: Address) -> Decoder<'_> {
    let bits = if arch.pointer_size() == 8 { 64 } else { 32 };
    Decoder::with_ip(bits, code, pc.0, DecoderOptions::NONE)
}

/// Returns the target of a direct branch or call.
pub(crate) fn near_target(instruction: &Instruction) -> Option<Address> {
    let is_near =
        matches!(instruction.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16);
    is_near.then(|| Address(instruction.near_branch_target()))
}

/// Returns the address that an instruction accesses relative to itself (`[rip+x]`).
pub(crate) fn near_memory(arch: Arch, code: &[u8], pc: Address) -> Option<Address> {
    let instruction = decode(arch, code, pc);
    instruction.is_ip_rel_memory_operand().then(|| Address(instruction.ip_rel_memory_address()))
}

/// Returns a register's DWARF number by the machine's number. For i386 the numbers are as in Mach-O's `__eh_frame`,
/// where esp is 5 and ebp is 4.
pub(crate) fn dwarf(arch: Arch, number: usize) -> Register {
    const AMD64: [u16; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
    const I386: [u16; 8] = [0, 1, 2, 3, 5, 4, 6, 7];
    let numbers = if arch.pointer_size() == 8 { AMD64 } else { I386 };
    Register(numbers.get(number).copied().unwrap_or(number as u16))
}

/// Turns bits by the machine's numbers into bits by DWARF's numbers.
fn renumbered(arch: Arch, mut machine: u64) -> u64 {
    let mut bits = 0;
    while machine != 0 {
        bits |= 1 << dwarf(arch, machine.trailing_zeros() as usize).0;
        machine &= machine - 1;
    }
    bits
}

/// Returns whether an instruction returns from a near call.
fn is_near_return(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Ret
}

fn special(instruction: &Instruction, control: FlowControl) -> Special {
    let is_system_call = match control {
        FlowControl::Call => near_target(instruction).is_none(),
        FlowControl::Interrupt => instruction.mnemonic() == Mnemonic::Int,
        // The kernel's side of the call: `iret`, `sysret`.
        FlowControl::Return => !is_near_return(instruction),
        _ => false,
    };
    match instruction.mnemonic() {
        _ if is_system_call => Special::SystemCall,
        Mnemonic::Hlt => Special::Halt,
        _ => Special::No,
    }
}

impl<'c> X86Decoder<'c> {
    /// Makes a decoder for code that starts at address `start`.
    pub(crate) fn new(arch: Arch, code: &'c [u8], start: Address) -> Self {
        let is_wide = arch.pointer_size() == 8;
        let call_changes = renumbered(arch, if is_wide { CALL_CHANGES } else { CALL_CHANGES_32 });
        Self {
            arch,
            is_wide,
            call_changes,
            start,
            code,
            decoder: decoder(arch, code, start),
            info: InstructionInfoFactory::new(),
        }
    }

    /// Decodes the next instruction, at `offset`, and appends its known effects to `ops`. The function `is_relocated`
    /// says whether a relocation changes one of the instruction's bytes; its argument is the instruction's length.
    pub(crate) fn decode(
        &mut self,
        offset: usize,
        is_relocated: impl Fn(usize) -> bool,
        ops: &mut Vec<Op>,
    ) -> Decoded {
        let mut instruction = Instruction::default();
        self.decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            // We try again one byte later, wherever the decoder has stopped.
            self.seek(offset + 1);
            return Decoded {
                len: 1,
                flow: Flow::Stop,
                is_padding: false,
                is_unknown: true,
                sets_flags: false,
                special: Special::No,
                writes: 0,
            };
        }
        let relocated = is_relocated(instruction.len());
        let target = near_target(&instruction).filter(|_| !relocated);
        let is_padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
            || (instruction.code() == Code::Xchg_rm16_r16 && instruction.op0_register() == X86::AX);
        let control = instruction.flow_control();
        let flow = self.flow(&instruction, control, target, relocated);
        let special = special(&instruction, control);
        let writes = match flow {
            Flow::Call(_) => self.call_changes,
            _ => self.effect(&instruction, relocated, ops),
        };
        Decoded {
            len: instruction.len() as u8,
            flow,
            is_padding,
            is_unknown: false,
            sets_flags: instruction.rflags_modified() != 0,
            special,
            // The kernel returns a value.
            writes: writes | if special == Special::SystemCall { 1 << dwarf(self.arch, 0).0 } else { 0 },
        }
    }

    /// Continues at an offset in the function, which is at most the function's size.
    pub(crate) fn seek(&mut self, offset: usize) {
        self.decoder.set_ip(self.start.0.wrapping_add(offset.to_u64()));
        if self.decoder.set_position(offset).is_err() {
            debug_assert!(false, "the offset {offset} is in the code");
        }
    }

    fn flow(
        &self,
        instruction: &Instruction,
        control: FlowControl,
        target: Option<Address>,
        relocated: bool,
    ) -> Flow {
        match control {
            FlowControl::Next | FlowControl::XbeginXabortXend => Flow::Next,
            // Position-independent i386 code calls the next instruction to read its own address from the stack.
            FlowControl::Call
                if target == Some(Address(instruction.next_ip())) && self.takes_address(instruction) =>
            {
                Flow::Next
            }
            // System calls return by themselves.
            FlowControl::Call if near_target(instruction).is_none() => Flow::Next,
            FlowControl::Call => Flow::Call(target),
            FlowControl::IndirectCall => Flow::Call(None),
            FlowControl::ConditionalBranch => Flow::Branch(target, condition(instruction)),
            FlowControl::UnconditionalBranch => Flow::Jump(target),
            FlowControl::IndirectBranch => self.indirect(instruction, relocated),
            FlowControl::Return if is_near_return(instruction) => Flow::Return,
            // This returns from an interrupt or a system call, or to another segment. No call led here.
            FlowControl::Return => Flow::Stop,
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => Flow::Next,
            FlowControl::Interrupt | FlowControl::Exception => Flow::Stop,
        }
    }

    /// Returns whether the instruction after a call of this instruction uses the return address, as no function does.
    fn takes_address(&self, call: &Instruction) -> bool {
        let offset = call.next_ip().wrapping_sub(self.start.0) as usize;
        let next = decode(self.arch, self.code.get(offset..).unwrap_or_default(), Address(call.next_ip()));
        let is_stack = |register: X86| register.full_register() == X86::RSP;
        next.stack_pointer_increment() > 0
            || next.mnemonic() == Mnemonic::Add && is_stack(next.op0_register())
            || is_stack(next.memory_base()) && next.memory_displacement64() == 0
    }

    fn indirect(&self, instruction: &Instruction, relocated: bool) -> Flow {
        if let Some(register) = self.register(instruction.op0_register()) {
            return Flow::JumpRegister(register);
        }
        let is_table = self.register(instruction.memory_index()).is_some()
            && !relocated
            && instruction.memory_index_scale() == u32::from(self.arch.pointer_size());
        match self.register(instruction.memory_base()) {
            None if is_table && instruction.memory_base() == X86::None => {
                Flow::JumpTable(instruction.memory_displacement64())
            }
            Some(_) if is_table && instruction.memory_displacement64() == 0 => Flow::JumpRegister(TARGET),
            _ => Flow::JumpMemory,
        }
    }

    /// Returns the register if the name is of full width, such as `rax`.
    fn register(&self, register: X86) -> Option<Index> {
        let is_full = if self.is_wide { register.is_gpr64() } else { register.is_gpr32() };
        is_full.then(|| dwarf(self.arch, register.number()).0 as Index)
    }

    /// Returns the register if the name is of its low half, such as `eax`.
    fn low_half(&self, register: X86) -> Option<Index> {
        register.is_gpr32().then(|| dwarf(self.arch, register.number()).0 as Index)
    }

    /// Returns the register that a name of any width is a part of.
    fn whole(&self, register: X86) -> Option<Index> {
        register.is_gpr().then(|| dwarf(self.arch, register.full_register().number()).0 as Index)
    }

    /// Returns a memory operand's register and offset, if it has only these two.
    fn memory(&self, instruction: &Instruction) -> Option<(Index, i32)> {
        let is_plain = instruction.memory_index() == X86::None && instruction.segment_prefix() == X86::None;
        let base = self.register(instruction.memory_base()).filter(|_| is_plain)?;
        Some((base, instruction.memory_displacement64() as i32))
    }

    /// Appends the known effects, and returns the registers with unknown values as bits.
    fn effect(&mut self, instruction: &Instruction, relocated: bool, ops: &mut Vec<Op>) -> u64 {
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
    fn written(&mut self, instruction: &Instruction) -> Written {
        let info = self.info.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
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

fn condition(instruction: &Instruction) -> Condition {
    match instruction.condition_code() {
        ConditionCode::e => Condition::Equal,
        ConditionCode::ne => Condition::NotEqual,
        ConditionCode::a | ConditionCode::be => Condition::Above,
        ConditionCode::ae | ConditionCode::b => Condition::AtLeast,
        _ => Condition::Other,
    }
}
