//! Instructions as effects on what unwinding needs: registers, the stack, and where execution goes next.

use cfipack_format::{Address, Arch, Family, Register};

/// A register by its index in a [`State`](crate::State): the DWARF number of a general register, and 32 to 39 for
/// d8 to d15 of AArch64.
pub(crate) type Index = u8;

/// The number of registers of a [`State`](crate::State).
pub(crate) const REGISTERS: usize = 40;

/// DWARF's number of d8, and the registers d8 to d15 that a function of AArch64 keeps for its caller (AAPCS64).
const D8: u16 = 72;

/// The index of a register, if it is followed.
pub(crate) fn index_of(arch: Arch, register: Register) -> Option<Index> {
    match (arch.family(), register.0) {
        (Family::X86, 0..16) | (Family::Aarch64, 0..32) | (Family::S390x, 0..16) => Some(register.0 as Index),
        (Family::Aarch64, D8..80) => Some((register.0 - D8) as Index + 32),
        (Family::X86 | Family::Aarch64 | Family::S390x | Family::Riscv, _) => None,
    }
}

/// The register of an index.
pub(crate) fn register_of(index: Index) -> Register {
    Register(if index < 32 { u16::from(index) } else { u16::from(index) - 32 + D8 })
}

/// Registers beside the stack pointer and the return address that a function keeps for its caller: System V's psABIs,
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
        // No disassembler reads its code.
        Arch::Riscv64 => &[],
    }
}

/// The bits of [`callee_saved`].
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
    /// Bytes from the function's start.
    pub offset: u32,
    /// Bytes.
    pub len: u8,
    /// Where execution goes next.
    pub flow: Flow,
    /// True if it fills the space between blocks, when no branch leads to it.
    pub is_padding: bool,
    /// True if the disassembler does not know it.
    pub is_unknown: bool,
    /// True if it changes the flags by which a later branch decides.
    pub(crate) sets_flags: bool,
    /// The kind of instruction that rows of its function depend on beside its flow.
    pub(crate) special: Special,
    /// Its known effects: a range of [`Instructions::ops`](crate::Instructions).
    pub(crate) ops: (u32, u8),
    /// Registers, by their bits, with an unknown value afterwards, once its known effects are applied.
    pub(crate) writes: u64,
    /// Registers that it can change, by their bits; the highest stands for anything else.
    pub(crate) affects: u64,
    /// Registers, by their bits: while nothing is known of them, all it does is to make those unknown that it changes.
    pub(crate) reads: u64,
}

/// The bit of [`Instruction::reads`] of an instruction that does more whatever is known.
pub(crate) const ALWAYS: u64 = 1 << 63;

impl Instruction {
    /// The offset of the next instruction in memory.
    pub fn end(&self) -> u32 {
        self.offset + u32::from(self.len)
    }
}

/// The flow of execution after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// To the next instruction.
    Next,
    /// To the next instruction, after a call that may also never return; the called function, if it is known.
    Call(Option<Address>),
    /// To the next instruction or to the target, if it is known.
    Branch(Option<Address>, Condition),
    /// To the target only, if it is known: a relocation may decide it.
    Jump(Option<Address>),
    /// To the address in a register, an [index](crate::Instruction) of a state.
    JumpRegister(u8),
    /// To the address loaded from memory, which no known table has.
    JumpMemory,
    /// To an address loaded from the table at this address.
    JumpTable(u64),
    /// To the caller.
    Return,
    /// Nowhere.
    Stop,
}

impl Flow {
    /// Returns whether execution can go on to the next instruction, not counting the return of a call.
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

/// The part of a branch's condition that values are followed through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// The compared values are equal where the branch is taken.
    Equal,
    /// The compared values are equal where it is not taken.
    NotEqual,
    /// The branch separates values above a limit from the limit and values below it, unsigned.
    Above,
    /// The branch separates values below a limit from the limit and values above it, unsigned.
    AtLeast,
    /// Any other.
    Other,
}

/// A known effect of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// `to = from + add`.
    Set { to: Index, from: Index, add: i32 },
    /// `to = value`.
    Constant { to: Index, value: u64 },
    /// Sixteen bits of a constant are replaced.
    Keep { to: Index, shift: u8, value: u16 },
    /// `to = left + (right << shift)`, or minus that; `signed` if `right` is the low part of a register, sign-extended.
    Sum { to: Index, left: Index, right: Index, shift: u8, minus: bool, signed: bool },
    /// `to` has the bits of `from` but for some low ones: what aligns a stack pointer.
    Align { to: Index, from: Index },
    /// `to` is loaded from `base + offset`.
    Load { to: Index, base: Index, offset: i32 },
    /// `size` bytes at `base + offset` are overwritten, with a whole register or something else.
    Store { from: Option<Index>, base: Index, offset: i32, size: u16 },
    /// `to` is loaded from an entry of a table at an address, or at the address in a register.
    Entry { to: Index, table: Table, size: u8, signed: bool },
    /// The flags tell whether two registers are equal.
    Compare { left: Index, right: Index },
    /// The flags tell how a register compares with a constant.
    Limit { register: Index, value: u32 },
    /// The return address in the link register is signed.
    Sign,
    /// The signature of the return address in the link register is removed.
    Authenticate,
}

impl Op {
    /// The bits of the registers that get a value.
    pub(crate) fn written(&self) -> u64 {
        match *self {
            Self::Set { to, .. }
            | Self::Constant { to, .. }
            | Self::Keep { to, .. }
            | Self::Sum { to, .. }
            | Self::Align { to, .. }
            | Self::Load { to, .. }
            | Self::Entry { to, .. } => 1 << to,
            Self::Store { .. }
            | Self::Compare { .. }
            | Self::Limit { .. }
            | Self::Sign
            | Self::Authenticate => 0,
        }
    }

    /// The bits of registers without whose values it gives none, and does nothing; [`ALWAYS`] if it may do more.
    pub(crate) fn read(&self, arch: Arch) -> u64 {
        match *self {
            Self::Set { from, .. } | Self::Align { from, .. } => 1 << from,
            Self::Keep { to, .. } => 1 << to,
            // What is unknown is taken off the stack nevertheless.
            Self::Sum { to, .. } if Register(to.into()) == arch.stack_pointer() => ALWAYS,
            Self::Sum { left, right, .. } => 1 << left | 1 << right,
            Self::Load { base, .. } | Self::Store { base, .. } => 1 << base,
            Self::Entry { table: Table::Register(register), .. } => 1 << register,
            Self::Entry { table: Table::At(_), .. }
            | Self::Constant { .. }
            | Self::Compare { .. }
            | Self::Limit { .. }
            | Self::Sign
            | Self::Authenticate => ALWAYS,
        }
    }
}

/// The place of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    At(u64),
    Register(Index),
}

/// An instruction as a decoder returns it, with the effects in the decoder's own list.
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
    /// It calls the kernel, or what is above it.
    SystemCall,
    /// It signs the return address, but not with key A for the stack pointer.
    OtherSigning,
}
