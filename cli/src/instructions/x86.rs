//! x86 instructions: text, and what they do to registers.

use cfipack_format::{Address, Arch, Register};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter as _, Instruction, InstructionInfoFactory,
    IntelFormatter, Mnemonic, OpAccess, OpKind, Register as X86,
};

use super::decoded::{Decoded, Text};
use super::effect::{Change, Effect, Flow};

/// The bits of the registers that a call may change, by the psABIs: all but rbx, rbp, rsp and r12 to r15; ebx, ebp, esp,
/// esi and edi.
const CALL_CHANGES: u32 = 0b0000_1111_1100_0111;
const CALL_CHANGES_32: u32 = 0b0000_0111;

/// Decodes instructions one after the other.
pub struct X86Decoder {
    arch: Arch,
    formatter: IntelFormatter,
    info: InstructionInfoFactory,
}

impl X86Decoder {
    pub fn new(arch: Arch) -> Self {
        let mut formatter = IntelFormatter::new();
        let options = formatter.options_mut();
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_space_after_operand_separator(true);
        options.set_rip_relative_addresses(true);
        options.set_show_branch_size(false);
        options.set_signed_immediate_operands(true);
        Self { arch, formatter, info: InstructionInfoFactory::new() }
    }

    /// The instruction at the start of `code`, which lies at `pc`. `is_relocated` tells whether a relocation changes one
    /// of so many bytes.
    pub fn decode(&mut self, code: &[u8], pc: Address, is_relocated: impl Fn(usize) -> bool) -> Decoded {
        let bits = if self.is_wide() { 64 } else { 32 };
        let instruction = Decoder::with_ip(bits, code, pc.0, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            let text = Text::Plain("(bad)".to_string());
            return Decoded { len: 1, text, flow: Flow::Stop, effect: Effect::default(), is_padding: false };
        }
        let is_near = instruction.op0_kind() == OpKind::NearBranch64
            || instruction.op0_kind() == OpKind::NearBranch32
            || instruction.op0_kind() == OpKind::NearBranch16;
        let is_known = is_near && !is_relocated(instruction.len());
        let target = is_known.then(|| Address(instruction.near_branch_target()));
        let mut text = String::new();
        let text = if is_near {
            self.formatter.format_mnemonic(&instruction, &mut text);
            Text::Branch(text, target)
        } else {
            self.formatter.format(&instruction, &mut text);
            Text::Plain(text)
        };
        let is_padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
            || (instruction.code() == Code::Xchg_rm16_r16 && instruction.op0_register() == X86::AX);
        let flow = match instruction.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend => Flow::Next,
            FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
            FlowControl::ConditionalBranch => Flow::Branch(target),
            FlowControl::UnconditionalBranch => Flow::Jump(target),
            FlowControl::IndirectBranch => Flow::Jump(None),
            FlowControl::Return => Flow::Return,
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => Flow::Next,
            FlowControl::Interrupt | FlowControl::Exception => Flow::Stop,
        };
        // A call of the next instruction pushes its address, as position-independent i386 code reads it.
        let next = target == Some(Address(instruction.next_ip()));
        let flow = if flow == Flow::Call && next { Flow::Next } else { flow };
        let effect = if flow == Flow::Call { self.of_call() } else { self.effect(&instruction) };
        Decoded { len: instruction.len() as u8, text, flow, effect, is_padding }
    }

    fn is_wide(&self) -> bool {
        self.arch.pointer_size() == 8
    }

    fn of_call(&self) -> Effect {
        let writes = if self.is_wide() { CALL_CHANGES } else { CALL_CHANGES_32 };
        Effect { changes: Vec::new(), writes: self.renumbered(writes) }
    }

    /// Bits by the machine's numbers to bits by DWARF's.
    fn renumbered(&self, machine: u32) -> u32 {
        let numbers = (0..16).filter(|number| machine & (1 << number) != 0);
        numbers.fold(0, |bits, number| bits | 1 << self.dwarf(number).0)
    }

    /// The DWARF number of a register by the machine's number, as in Mach-O's `__eh_frame` on i386.
    fn dwarf(&self, number: usize) -> Register {
        const AMD64: [u16; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
        const I386: [u16; 8] = [0, 1, 2, 3, 5, 4, 6, 7];
        let numbers = if self.is_wide() { AMD64 } else { I386 };
        Register(numbers.get(number).copied().unwrap_or(number as u16))
    }

    /// The register that a name of full width stands for.
    fn register(&self, register: X86) -> Option<Register> {
        let is_full = if self.is_wide() { register.is_gpr64() } else { register.is_gpr32() };
        is_full.then(|| self.dwarf(register.number()))
    }

    /// A memory operand that is a register and an offset.
    fn memory(&self, instruction: &Instruction) -> Option<(Register, i64)> {
        let is_plain = instruction.memory_index() == X86::None && instruction.segment_prefix() == X86::None;
        let base = self.register(instruction.memory_base()).filter(|_| is_plain)?;
        let displacement = instruction.memory_displacement64();
        Some((base, if self.is_wide() { displacement as i64 } else { i64::from(displacement as i32) }))
    }

    fn effect(&mut self, instruction: &Instruction) -> Effect {
        let mut changes = self.changes(instruction);
        let stack = self.arch.stack_pointer();
        let increment = i64::from(instruction.stack_pointer_increment());
        // `pop rsp` leaves what it has loaded.
        let is_loaded = instruction.mnemonic() == Mnemonic::Pop
            && self.register(instruction.op0_register()) == Some(stack);
        if increment != 0 && !is_loaded {
            changes.push(Change::Set { register: stack, base: stack, add: increment });
        }
        let mut effect = Effect { changes, writes: 0 };
        let mut writes = 0;
        for used in self.info.info(instruction).used_registers() {
            let is_write = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            if is_write && used.register().is_gpr() {
                writes |= 1u32 << used.register().full_register().number();
            }
        }
        let writes = self.renumbered(writes);
        let known = (0..32).filter(|number| effect.changes(Register(*number)));
        effect.writes = known.fold(writes, |writes, number| writes & !(1 << number));
        effect
    }

    /// The changes with a known result, but for that of the stack pointer by pushes and pops.
    fn changes(&self, instruction: &Instruction) -> Vec<Change> {
        let (stack, frame) = (self.arch.stack_pointer(), self.arch.frame_pointer());
        let pointer = i64::from(self.arch.pointer_size());
        let Some(register) = self.register(instruction.op0_register()) else {
            return match instruction.mnemonic() {
                Mnemonic::Leave => vec![
                    Change::Set { register: stack, base: frame, add: pointer },
                    Change::Load { register: frame, base: stack, offset: -pointer },
                ],
                _ => Vec::new(),
            };
        };
        let source = (instruction.op1_kind() == OpKind::Register)
            .then(|| self.register(instruction.op1_register()))
            .flatten();
        let immediate = matches!(
            instruction.op1_kind(),
            OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate8to32 | OpKind::Immediate32
        );
        let constant = || match self.is_wide() {
            true => instruction.immediate(1) as i64,
            false => i64::from(instruction.immediate(1) as i32),
        };
        match instruction.mnemonic() {
            Mnemonic::Pop if register != stack => vec![Change::Load { register, base: stack, offset: 0 }],
            Mnemonic::Mov => match (source, self.memory(instruction)) {
                (Some(base), _) => vec![Change::Set { register, base, add: 0 }],
                (None, Some((base, offset))) if instruction.op1_kind() == OpKind::Memory => {
                    vec![Change::Load { register, base, offset }]
                }
                _ => Vec::new(),
            },
            Mnemonic::Lea => {
                let set = |(base, add)| Change::Set { register, base, add };
                self.memory(instruction).map(set).into_iter().collect()
            }
            Mnemonic::Add if immediate => vec![Change::Set { register, base: register, add: constant() }],
            Mnemonic::Sub if immediate => {
                vec![Change::Set { register, base: register, add: constant().wrapping_neg() }]
            }
            _ => Vec::new(),
        }
    }
}
