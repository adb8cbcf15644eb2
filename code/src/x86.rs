//! Decodes x86 instructions into effects, with iced-x86.
//!
//! To teach an instruction: in `effect.rs`, `register_effects` has the effects on a first operand that is a whole register,
//! and `changes` all other effects. `flow` says where execution goes on, and `special` whether the kernel is called.
//! Changes of the stack pointer and of unknown registers need nothing: iced knows them. `usual.rs` answers faster than
//! iced; an instruction that it has as writing nothing has no effects, except `cmp`.

mod effect;
mod usual;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Register};
use iced_x86::{
    Code, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpKind, Register as X86,
};

use crate::instruction::{Condition, Decoded, Flow, Index, Op, Special};

/// The registers that a call may change, as bits by DWARF's numbers: all but rbx, rbp, rsp and r12 to r15 (64 bits), or all
/// but ebx, ebp, esp, esi and edi (32 bits). Source: System V's psABIs.
const CALL_CHANGES: u64 = 0b0000_1111_0011_0111;
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
    /// Made when an instruction first needs it, because it allocates memory.
    info: Option<InstructionInfoFactory>,
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

/// Returns the base and the index of the memory operand of an instruction that reads or writes memory.
pub(crate) fn accessed(arch: Arch, code: &[u8]) -> [Option<Index>; 2] {
    let instruction = decode(arch, code, Address(0));
    let is_access = !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    [instruction.memory_base(), instruction.memory_index()].map(|register| {
        let is_used = is_access && register.is_gpr();
        is_used.then(|| dwarf(arch, register.full_register().number()).0 as Index)
    })
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
        let call_changes = if is_wide { CALL_CHANGES } else { CALL_CHANGES_32 };
        Self { arch, is_wide, call_changes, start, code, decoder: decoder(arch, code, start), info: None }
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
