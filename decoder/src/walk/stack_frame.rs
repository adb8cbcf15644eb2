//! The frames of a walk, and the reasons why it ends.

use core::fmt;

use cfipack_format::{Address, Arch, Register};

use crate::sframe::{Error, StepError};

/// A frame of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackFrame {
    /// In the innermost frame, the next instruction. In other frames, the return address, without a signature.
    pub pc: Address,
    /// The stack pointer.
    pub sp: u64,
    /// True if the instruction at `pc` has not run. False if `pc` is the address after a call.
    pub is_exact: bool,
    /// How the walk has found the frame.
    pub found_by: FoundBy,
}

impl StackFrame {
    /// Returns the address that you should look up, for a row or for a symbol.
    ///
    /// For a return address it is the byte before: a call may be the last instruction of its function, so the
    /// return address itself may belong to the next function.
    #[inline]
    pub fn lookup_address(&self) -> Address {
        Address(if self.is_exact { self.pc.0 } else { self.pc.0.wrapping_sub(1) })
    }
}

/// How a walk has found a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FoundBy {
    /// The frame is the innermost frame: the caller of the walk gave its registers.
    Registers,
    /// The frame before it has a row. The result is as correct as the table.
    Table,
    /// The walk followed the frame pointer of the frame before it, where no table covers the code. This is a
    /// guess. It skips one or more callers if the code has no frame pointers, or if a signal interrupted the
    /// function before it had set its own frame pointer.
    FramePointer,
}

/// The reason why a walk ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum End {
    /// The row of the last frame encodes an outermost frame. The stack is complete.
    Outermost,
    /// The last frame is the first frame of a stack
    /// ([`AddressSpace::is_start`](super::AddressSpace::is_start)). The stack is complete.
    Start,
    /// The return address is 0, or the frame pointer is 0 in code that no table covers. ABIs and runtimes mark
    /// the outermost frame in this way. The stack is complete.
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
    /// The caller's frame is not above the last frame, or not in the stack. Either the table does not belong to
    /// the code, or the frames go on in another stack.
    NotRising,
    /// The row of the last frame has a rule that no table has.
    Rule,
    /// The table of the last frame's code is damaged.
    Table(Error),
}

impl End {
    /// Returns whether the walk has reached the outermost frame of the stack.
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
