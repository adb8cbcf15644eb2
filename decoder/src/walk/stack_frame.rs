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
    /// The frame before it has a row, and no frame so far is a guess. The result is as correct as the tables.
    Table,
    /// The walk followed the frame pointer of the frame before it, where no table covers the code. This is a
    /// guess. It skips one or more callers if the code has no frame pointers, or if a signal interrupted the
    /// function before it had set its own frame pointer, and it leads anywhere if the code has other values in the
    /// register.
    FramePointer,
    /// The frame before it has a row, but a frame further in was found by its frame pointer. The result is as
    /// correct as that guess.
    TableAfterGuess,
}

impl FoundBy {
    /// Returns whether the frame depends on a guess, so that it may be wrong and callers may be missing before it.
    #[inline]
    pub const fn is_guess(self) -> bool {
        match self {
            Self::Registers | Self::Table => false,
            Self::FramePointer | Self::TableAfterGuess => true,
        }
    }
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
    /// The return address and the caller's frame pointer are 0, and no frame is a guess. ABIs and runtimes mark the
    /// outermost frame in this way. (s390x has no frame pointers: there the return address decides.) The stack is complete.
    Null,
    /// The end is unknown: the return address is 0, but the caller's frame pointer is not or is not known; or either is 0
    /// where a frame is a guess. Either the last frame is outermost, or callers are missing because its row is wrong or its code has other
    /// values in the register.
    GuessedNull,
    /// The return address is in no code of the address space. After a guess it is also this if the code before the
    /// return address is no call. The last frame is the last one that counts.
    NotCode {
        /// The return address.
        pc: Address,
    },
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
    /// Returns whether the walk has reached the outermost frame of the stack. If a frame
    /// [is a guess](FoundBy::is_guess), callers may be missing all the same.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Outermost | Self::Start | Self::Null => true,
            Self::GuessedNull
            | Self::NotCode { .. }
            | Self::NoRow
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
            Self::TableAfterGuess => "table, after a guess",
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outermost => StepError::Outermost.fmt(f),
            Self::Start => f.write_str("the function starts stacks"),
            Self::Null => f.write_str("the return address is 0"),
            Self::GuessedNull => f.write_str("unknown: a return address or a frame pointer of 0"),
            Self::NotCode { pc } => write!(f, "the return address {pc} is in no code, or follows no call"),
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
