//! An instruction, as its effects on the values that unwinding needs: registers, the stack, and the flow of
//! execution.

use cfipack_format::{Address, Arch, Family, Register};

/// A register's index in a [`State`](crate::State). For a general register it is the DWARF number. The indexes 32 to
/// 39 are d8 to d15 of AArch64.
pub(crate) type Index = u8;

/// The number of registers in a [`State`](crate::State).
pub(crate) const REGISTERS: usize = 40;

/// The DWARF number of d8. A function of AArch64 keeps d8 to d15 for its caller (AAPCS64).
const D8: u16 = 72;

/// Returns the index of a register, or `None` if the register is not followed.
pub(crate) fn index_of(arch: Arch, register: Register) -> Option<Index> {
    match (arch.family(), register.0) {
        (Family::X86, 0..16) | (Family::Aarch64, 0..32) | (Family::S390x, 0..16) => Some(register.0 as Index),
        (Family::Aarch64, D8..80) => Some((register.0 - D8) as Index + 32),
        (Family::X86 | Family::Aarch64 | Family::S390x | Family::Riscv, _) => None,
    }
}

/// Returns the register with an index.
pub(crate) fn register_of(index: Index) -> Register {
    Register(if index < 32 { u16::from(index) } else { u16::from(index) - 32 + D8 })
}

/// Returns the callee-saved registers beside the stack pointer and the return address. Source: System V's psABIs,
/// AAPCS64.
pub(crate) const fn callee_saved(arch: Arch) -> &'static [Index] {
    match arch {
        // rbx, rbp, r12 to r15.
        Arch::Amd64 => &[3, 6, 12, 13, 14, 15],
        // ebx, ebp, esi, edi.
        Arch::I386 => &[3, 4, 6, 7],
        // x19 to x29, d8 to d15.
        Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 => {
            &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 32, 33, 34, 35, 36, 37, 38, 39]
        }
        Arch::S390x => &[6, 7, 8, 9, 10, 11, 12, 13],
        // No disassembler for this architecture is built in.
        Arch::Riscv64 => &[],
    }
}

/// Returns whether functions keep the value of a register, beside the stack pointer and the return address. Source:
/// System V's psABIs, AAPCS64.
pub fn is_callee_saved(arch: Arch, register: Register) -> bool {
    callee_saved(arch).iter().any(|index| register_of(*index) == register)
}

/// Returns the [`callee_saved`] registers as bits.
#[inline]
pub(crate) const fn callee_saved_bits(arch: Arch) -> u64 {
    const fn bits(arch: Arch) -> u64 {
        let all = callee_saved(arch);
        let (mut bits, mut next) = (0, 0);
        while next < all.len() {
            bits |= 1 << all[next];
            next += 1;
        }
        bits
    }
    match arch {
        Arch::Amd64 => const { bits(Arch::Amd64) },
        Arch::I386 => const { bits(Arch::I386) },
        Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 => const { bits(Arch::Aarch64) },
        Arch::S390x => const { bits(Arch::S390x) },
        Arch::Riscv64 => const { bits(Arch::Riscv64) },
    }
}

/// An instruction of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Instruction {
    /// The offset in bytes from the function's start.
    pub offset: u32,
    /// The length in bytes.
    pub len: u8,
    /// Where execution continues after the instruction.
    pub flow: Flow,
    /// True if compilers fill the space between blocks with this instruction, such as `nop`. It can still be
    /// executed.
    pub is_padding: bool,
    /// True if the disassembler does not know the instruction.
    pub is_unknown: bool,
    /// True if the instruction changes the flags that later branches test.
    pub(crate) sets_flags: bool,
    /// A further property that matters for the function's rows.
    pub(crate) special: Special,
    /// The known effects, as the start and length of a range in a list.
    pub(crate) ops: (u32, u8),
    /// The registers, as bits, that are unknown after the instruction and its known effects.
    pub(crate) writes: u64,
    /// The registers, as bits, that the instruction can change. Bit 63 stands for anything else.
    pub(crate) affects: u64,
    /// If nothing is known about these registers (as bits), then the instruction only makes registers unknown.
    pub(crate) reads: u64,
}

/// This bit in [`Instruction::affects`] stands for memory and signatures.
pub(crate) const OTHER: u64 = 1 << 63;

/// This bit in [`Instruction::reads`] means that the instruction may do more, whatever is known.
pub(crate) const ALWAYS: u64 = 1 << 63;

impl Instruction {
    /// Returns whether the instruction ends a handler that the processor has entered, as `iret` does.
    pub fn returns_from_exception(&self) -> bool {
        self.flow == Flow::Stop && self.special == Special::SystemCall
    }

    /// Returns the known effects, given the list that has them.
    #[inline]
    pub(crate) fn effects<'o>(&self, all: &'o [Op]) -> &'o [Op] {
        let (first, count) = self.ops;
        &all[first as usize..first as usize + usize::from(count)]
    }

    /// Returns the offset of the next instruction in memory.
    pub fn end(&self) -> u32 {
        self.offset + u32::from(self.len)
    }
}

/// Where execution continues after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// At the next instruction.
    Next,
    /// At the next instruction, after a call. The call may also never return. The address is the called function, if
    /// known.
    Call(Option<Address>),
    /// At the next instruction or at the target, if known.
    Branch(Option<Address>, Condition),
    /// At the target. It is `None` if a relocation decides it.
    Jump(Option<Address>),
    /// At the address in a register. The number is the register's index in a state: on x86 and AArch64, its DWARF
    /// number.
    JumpRegister(u8),
    /// At an address that is loaded from memory, but not from a known table.
    JumpMemory,
    /// At an address that is loaded from the jump table at this address.
    JumpTable(u64),
    /// At the caller.
    Return,
    /// Nowhere: execution stops.
    Stop,
}

impl Flow {
    /// Returns whether execution can continue at the next instruction, not counting the return of a call.
    pub(crate) const fn falls_through(self) -> bool {
        match self {
            Self::Next | Self::Branch(..) => true,
            Self::Call(_)
            | Self::Jump(_)
            | Self::JumpRegister(_)
            | Self::JumpMemory
            | Self::JumpTable(_)
            | Self::Return
            | Self::Stop => false,
        }
    }
}

/// The part of a branch's condition that says something about values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// The branch is taken if the compared values are equal.
    Equal,
    /// The branch is taken if the compared values are not equal.
    NotEqual,
    /// The branch separates values above a limit from the other values, unsigned.
    Above,
    /// The branch separates values from a limit upwards from the other values, unsigned.
    AtLeast,
    /// Any other condition.
    Other,
}

/// A known effect of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// `to = from + add`.
    Set { to: Index, from: Index, add: i32 },
    /// `to = value`.
    Constant { to: Index, value: u64 },
    /// `to` is a part of `from`, extended. A bound of the part is a bound of `to`.
    Extend { to: Index, from: Index },
    /// Sixteen bits of a constant are replaced.
    Keep { to: Index, shift: u8, value: u16 },
    /// `to = left + (right << shift)`, or `left - (right << shift)` with `minus`. With `signed`, only the low part of
    /// `right` is used, sign-extended.
    Sum { to: Index, left: Index, right: Index, shift: u8, minus: bool, signed: bool },
    /// Some bits of `to` are cleared by an unknown mask, which may have all bits set. This hardens code against
    /// speculation.
    Mask { to: Index },
    /// `to = from` with some low bits cleared. This aligns a stack pointer.
    Align { to: Index, from: Index },
    /// `to` is loaded from `base + offset`.
    Load { to: Index, base: Index, offset: i32 },
    /// `size` bytes at `base + offset` are overwritten. `from` is the register that is stored, if it is stored as a
    /// whole.
    Store { from: Option<Index>, base: Index, offset: i32, size: u16 },
    /// `to` is loaded from an entry of a table. The table's address is known, or is in a register.
    Entry { to: Index, table: Table, size: u8, signed: bool },
    /// The flags say whether two registers are equal.
    Compare { left: Index, right: Index },
    /// The flags say how a register compares with a constant.
    Limit { register: Index, value: u32 },
    /// The return address in the link register is signed.
    Sign,
    /// The signature of the return address in the link register is removed.
    Authenticate,
}

impl Op {
    /// Returns the registers, as bits, that get a value; [`OTHER`] if memory or a signature changes.
    pub(crate) fn written(&self) -> u64 {
        match *self {
            Self::Set { to, .. }
            | Self::Constant { to, .. }
            | Self::Extend { to, .. }
            | Self::Keep { to, .. }
            | Self::Sum { to, .. }
            | Self::Mask { to }
            | Self::Align { to, .. }
            | Self::Load { to, .. }
            | Self::Entry { to, .. } => 1 << to,
            Self::Store { .. } | Self::Sign | Self::Authenticate => OTHER,
            Self::Compare { .. } | Self::Limit { .. } => 0,
        }
    }

    /// Returns the registers, as bits, that must be known for the effect to do anything; [`ALWAYS`] if it may do
    /// more.
    pub(crate) fn read(&self, arch: Arch) -> u64 {
        match *self {
            Self::Set { from, .. } | Self::Align { from, .. } => 1 << from,
            Self::Keep { to, .. } | Self::Mask { to } => 1 << to,
            // The stack pointer changes even if the amount is unknown.
            Self::Sum { to, .. } if Register(to.into()) == arch.stack_pointer() => ALWAYS,
            Self::Sum { left, right, .. } => 1 << left | 1 << right,
            Self::Load { base, .. } | Self::Store { base, .. } => 1 << base,
            Self::Entry { table: Table::Register(register), .. } => 1 << register,
            Self::Entry { table: Table::At(_), .. }
            | Self::Constant { .. }
            | Self::Extend { .. }
            | Self::Compare { .. }
            | Self::Limit { .. }
            | Self::Sign
            | Self::Authenticate => ALWAYS,
        }
    }
}

/// Where a jump table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    At(u64),
    Register(Index),
}

/// An instruction as a decoder returns it. Its effects are in a separate list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded {
    pub len: u8,
    pub flow: Flow,
    pub is_padding: bool,
    pub is_unknown: bool,
    pub sets_flags: bool,
    pub special: Special,
    pub writes: u64,
}

/// A property of an instruction beside its effects and flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Special {
    /// None.
    No,
    /// The instruction calls the kernel or a hypervisor.
    SystemCall,
    /// The processor waits for an interrupt. The instruction ends a program.
    Halt,
    /// The instruction signs the return address with key B and the stack pointer.
    SigningByB,
    /// The instruction signs the return address with another modifier than the stack pointer.
    OtherSigning,
    /// No instruction, but the bytes before the target of a branch. Their decoding would run over the target.
    Cut,
}
