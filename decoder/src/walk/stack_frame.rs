//! The frames of a walk, and its end.

use core::fmt;

use cfipack_format::{Address, Arch, Register};

use crate::sframe::{Error, StepError};

/// A place in a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackFrame {
    /// The next instruction in the innermost frame, the return address without a signature in others.
    pub pc: Address,
    /// The stack pointer.
    pub sp: u64,
    /// True if `pc` is that of an instruction which has not run, false if it is the one after a call.
    pub is_exact: bool,
    /// The way in which the frame was found.
    pub found_by: FoundBy,
}

impl StackFrame {
    /// The address that belongs to the frame's function: of a return address the byte before it, since the call may be
    /// the last instruction of its function.
    #[inline]
    pub fn lookup_address(&self) -> Address {
        Address(if self.is_exact { self.pc.0 } else { self.pc.0.wrapping_sub(1) })
    }
}

/// The way in which a frame was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FoundBy {
    /// By no way: the innermost frame has the registers that the walk started with.
    Registers,
    /// By the row of the frame before. It is as true as the table.
    Table,
    /// By the frame pointer of the frame before, which no table covers. It is a guess: code without frame pointers, and
    /// a function that was interrupted before it had set its own, lead past one caller or more.
    FramePointer,
}

/// The reason why a walk ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum End {
    /// The row of the last frame encodes an outermost frame: the stack is complete.
    Outermost,
    /// The stack starts with the last frame ([`AddressSpace::is_start`](super::AddressSpace::is_start)): it is complete.
    Start,
    /// The return address, or the frame pointer of code that no table covers, is 0, by which ABIs and runtimes mark
    /// the outermost frame: the stack is complete.
    Null,
    /// No table covers the code of the last frame, and its frame pointer does not lead to a frame of this stack.
    NoRow,
    /// The row of the last frame needs a register that is not known there.
    Register {
        /// The architecture, which gives the register its name.
        arch: Arch,
        /// The register.
        register: Register,
    },
    /// The row of the last frame needs memory that could not be read.
    Memory {
        /// The address.
        address: Address,
    },
    /// The caller's frame would not lie above the last one, or not in the stack: the table is not that of the code, or the
    /// frames go on in another stack.
    NotRising,
    /// The row of the last frame has a rule that no table has.
    Rule,
    /// The table of the last frame's code is damaged.
    Table(Error),
}

impl End {
    /// Returns whether the last frame is the outermost one of the stack.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Outermost | Self::Start | Self::Null => true,
            Self::NoRow
            | Self::Register { .. }
            | Self::Memory { .. }
            | Self::NotRising
            | Self::Rule
            | Self::Table(_) => false,
        }
    }
}

impl From<StepError> for End {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Outermost => Self::Outermost,
            StepError::Register { arch, register } => Self::Register { arch, register },
            StepError::Memory { address } => Self::Memory { address },
            StepError::Rule => Self::Rule,
        }
    }
}

impl fmt::Display for FoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Registers => "registers",
            Self::Table => "table",
            Self::FramePointer => "frame pointer",
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outermost => StepError::Outermost.fmt(f),
            Self::Start => f.write_str("the function starts stacks"),
            Self::Null => f.write_str("the return address or the frame pointer is 0"),
            Self::NoRow => f.write_str("no table covers the code, and its frame pointer leads to no frame"),
            Self::Register { arch, register } => {
                StepError::Register { arch: *arch, register: *register }.fmt(f)
            }
            Self::Memory { address } => StepError::Memory { address: *address }.fmt(f),
            Self::NotRising => f.write_str("the caller's frame would not lie above"),
            Self::Rule => StepError::Rule.fmt(f),
            Self::Table(error) => error.fmt(f),
        }
    }
}
