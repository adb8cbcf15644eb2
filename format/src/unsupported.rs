//! The reason why a function cannot be represented, or a table not be written.

use core::fmt;

use crate::sframe::Version;
use crate::{Address, Arch, Key, Register};

/// A function that a table cannot express, and what stood in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsupported {
    /// The function.
    pub function: Key,
    /// The first PC at which the CFI has what the table cannot represent, in bytes from the function's start.
    pub offset: u64,
    /// The function that is described.
    pub reason: Reason,
}

impl Unsupported {
    /// A function as a whole.
    pub const fn function(function: Key, reason: Reason) -> Self {
        Self { function, offset: 0, reason }
    }

    /// The first PC at which the CFI has what the table cannot represent, where functions are known by their
    /// addresses.
    pub const fn pc(&self) -> Address {
        Address(self.function.0.wrapping_add(self.offset))
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} at +{:#x}: {}", self.function, self.offset, self.reason)
    }
}

impl core::error::Error for Unsupported {}

/// A table that cannot be written at all: why a builder or an encoder is refused when it is constructed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum UnsupportedFormat {
    /// The format does not have the architecture.
    Arch {
        /// The architecture.
        arch: Arch,
        /// Name of the format's section.
        format: &'static str,
    },
    /// Tables of this version are read and not written.
    Version {
        /// The version.
        version: Version,
        /// Name of the format's section.
        format: &'static str,
    },
}

impl fmt::Display for UnsupportedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Arch { arch, format } => write!(f, "{format} is not defined for {arch}"),
            Self::Version { version, format } => {
                write!(f, "version {} of {format} cannot be written", version as u8)
            }
        }
    }
}

impl core::error::Error for UnsupportedFormat {}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $(($($field:ident: $kind:ty),*))? = $name:literal, $text:literal;)*) => {
        /// An obstacle to a function's place in a table.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $variant $(($($kind),*))?,)*
        }

        impl Reason {
            /// A short name that is the same for every function with this kind of reason, for
            /// counting: words joined with `-`, such as `cfa-expression`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)*
                }
            }
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$variant $(($($field),*))? => write!(f, $text),)*
                }
            }
        }
    };
}

reasons! {
    /// The CFA is what only an expression can describe.
    CfaExpression = "cfa-expression", "the CFA is an expression that the table cannot represent";
    /// The CFA is counted from a register that no compact encoding names, and in `.sframe` only a flex FDE,
    /// where none may be written.
    CfaRegister(register: Register) = "cfa-register", "the CFA is counted from register {register}";
    /// The input's table has the function without rows: the assembler could not represent them.
    RowsMissing = "rows-missing", "the input's table has no rows for the function";
    /// The input's table has a row for the function that no rule gives a meaning.
    RowMalformed = "row-malformed", "the input's table has a row that means nothing";
    /// The CFA's offset does not fit its data word.
    CfaOffset(offset: i64) = "cfa-offset", "the CFA's offset {offset} does not fit a data word";
    /// The CFA is loaded from memory, which no compact encoding represents, and in `.sframe` only a flex FDE, where
    /// none may be written.
    CfaMemory = "cfa-memory", "the CFA is loaded from memory";
    /// Layout `gnu` wants a flex FDE, where none may be written.
    FlexNeeded = "flex-needed", "the function needs a flex FDE";
    /// No rule for the CFA, from some PC on or in the whole function.
    CfaMissing = "cfa-missing", "there is no rule for the CFA";
    /// `DW_CFA_def_cfa_register` or `_offset` where the CFA is not a register and an offset but an expression,
    /// of whatever form, or has no rule.
    CfaWithoutBase = "cfa-without-base", "the CFA is changed where no register and offset are in effect";
    /// The caller's stack pointer is not the CFA.
    StackPointerRule = "stack-pointer-rule", "the caller's stack pointer is not the CFA";
    /// The rule for the frame pointer is none that the table can represent.
    FramePointerRule = "frame-pointer-rule", "the rule for the frame pointer cannot be represented";
    /// The rule for the return address is none that the table can represent.
    ReturnAddressRule = "return-address-rule", "the rule for the return address cannot be represented";
    /// A register's offset does not fit its data word.
    RuleOffset(offset: i64) = "rule-offset", "the offset {offset} of a saved register does not fit a data word";
    /// The frame pointer is saved and the return address is not, which a default FDE cannot represent. In layout
    /// `gnu`: so it is to gas.
    FramePointerAlone = "frame-pointer-alone", "the frame pointer is saved and the return address is not";
    /// The return address is in another column than the ABI's.
    ReturnColumn(register: Register) = "return-column", "the return address is in column {register}";
    /// AArch64: a rule for the pseudo register of the signature's state.
    SignStateRule = "sign-state-rule", "there is a rule for the state of the return address's signature";
    /// AArch64: the return address is signed with the PC of the signing instruction (PAuth-LR,
    /// `DW_CFA_AARCH64_negate_ra_state_with_pc`), for which no table has a place.
    SignedWithPc = "signed-with-pc", "the return address is signed with a PC (PAuth-LR), which no table has";
    /// An architecture that is not the table's, or one that the table's format has no ABI for.
    Architecture = "architecture", "the table is not for the function's architecture";
    /// A version of the format that is not the table's.
    Version = "version", "the table has another version of the format";
    /// Other options than the table's.
    Options = "options", "the table has other options";
    /// A start that is shared with another function of other rows, where nothing decides which of them exists.
    Ambiguous = "ambiguous", "another function starts there, which does not have the same rows";
    /// Version 2 stores starts in 32 bits, and the function starts this many bytes from the table.
    StartTooFar(distance: i64) = "start-too-far", "the function is {distance} bytes away from the table, too far for version 2";
    /// The function has a key and no address yet, and something needs its address: `DW_CFA_set_loc`, the stubs of a
    /// PLT, merging with its neighbours.
    PlaceUnknown = "place-unknown", "the function has no address yet, and its rows depend on it";
    /// The table's other functions are known by their addresses and this one by a key alone, or the other way
    /// round.
    KeysMixed = "keys-mixed", "one table has functions with addresses or functions without, not both";
    /// The table has no room for more rows.
    SectionSize = "section-size", "the table's rows exceed 4 GiB";
    /// The function's size or a row's start does not fit 32 bits.
    FunctionSize = "function-size", "the function is larger than 4 GiB";
    /// A PLT whose stubs do not start at a multiple of their size.
    StubAlignment = "stub-alignment", "the stubs of the PLT are not aligned to their size";
    /// Rows that a caller gives: the first does not start at 0, or one not after the row before it, or not in the
    /// code.
    RowStart(start: u32) = "row-start", "a row starts at {start}, outside its code or out of order";
    /// More rows than layout `gnu` writes: gas leaves such a function out.
    RowCount = "row-count", "the function has more than 65535 rows";
    /// An instruction that this program does not know.
    InstructionUnknown(opcode: u8) = "instruction-unknown", "call frame instruction {opcode:#04x} is unknown";
    /// An instruction whose operands are cut off or out of range.
    InstructionMalformed(opcode: u8) = "instruction-malformed", "call frame instruction {opcode:#04x} is malformed";
    /// An instruction in a CIE that only an FDE can have: an advance, or `DW_CFA_restore` of a register that the
    /// CIE has given a rule.
    CieInstruction = "cie-instruction", "the CIE holds an instruction that belongs into an FDE";
    /// `DW_CFA_set_loc` to a lower address.
    LocationBackwards = "location-backwards", "the location moves backwards";
    /// `DW_CFA_restore_state` without a state.
    RestoreWithoutRemember = "restore-without-remember", "a state is restored that was not remembered";
    /// `DW_CFA_remember_state` nested deeper than 1024.
    RememberDepth = "remember-depth", "remembered states nest too deeply";
    /// Layout `gnu`: an instruction with this opcode for which gas leaves the function out.
    GasInstruction(opcode: u8) = "gas-instruction", "gas omits functions with call frame instruction {opcode:#04x} here";
    /// Layout `gnu`: `.cfi_label`, for which gas omits the function.
    GasLabel = "gas-label", "gas omits functions with `.cfi_label`";
    /// Layout `gnu`: a rule for this register for which gas leaves the function out.
    GasRegister(register: Register) = "gas-register", "gas omits functions with this rule for register {register}";
    /// Compact unwind: the frame of a function with a frame pointer is not the standard one.
    FrameRecord = "frame-record", "the caller's frame pointer and return address are not on top of the frame";
    /// Compact unwind: a register that no encoding restores, or that is not in the stack.
    SavedRegister(register: Register) = "saved-register", "no encoding restores register {register} from where it is";
    /// Compact unwind: this register is saved where no encoding has it.
    SavedPlace(register: Register) = "saved-place", "no encoding has register {register} where it is saved";
    /// Compact unwind: a stack of this many bytes.
    StackSize(size: i64) = "stack-size", "no encoding has a stack of {size} bytes with these registers";
    /// Compact unwind: a stack of this many bytes, whose size must be read from the code.
    StackSizeInCode(size: i64) = "stack-size-in-code", "the code has no `sub` with the stack's {size} bytes where the encoding looks for it";
    /// Compact unwind: the return address is signed.
    SignedReturnAddress = "signed-return-address", "the return address is signed";
    /// Compact unwind: a signal frame.
    SignalFrame = "signal-frame", "the frame is a signal's";
    /// Compact unwind: augmentation `G`: the unwinder has to clear the tags of the frame's memory.
    TaggedFrame = "tagged-frame", "the frame's memory is tagged";
    /// Compact unwind: `DW_CFA_GNU_args_size`, which landing pads depend on.
    ArgumentsSize(size: u64) = "arguments-size", "{size} bytes of arguments lie on the stack";
    /// Compact unwind: a row between which and the body lies more than a prologue or epilogue.
    NotAStep = "not-a-step", "the row is no step of a prologue or epilogue";
    /// Compact unwind: a row outside the body, too long for a prologue or epilogue.
    LongStep = "long-step", "much of the function is outside what could be its body";
    /// Compact unwind: a call where the encoding would not be true.
    CallOutsideBody = "call-outside-body", "there is a call outside the function's body";
    /// Compact unwind: code in which calls cannot be found.
    CodeUnreadable = "code-unreadable", "the code cannot be read";
    /// Compact unwind: llvm-mc keeps DWARF mode for these directives.
    LlvmMcDirectives = "llvm-mc-directives", "llvm-mc has no encoding for these directives";
    /// Compact unwind: llvm-mc keeps DWARF mode for this personality.
    LlvmMcPersonality = "llvm-mc-personality", "llvm-mc has no encoding with this personality";
}

impl core::error::Error for Reason {}

impl Reason {
    /// Returns whether DWARF does not define what the CFI means, so that its readers differ.
    pub const fn is_undefined(self) -> bool {
        matches!(
            self,
            Self::CfaWithoutBase
                | Self::InstructionUnknown(_)
                | Self::InstructionMalformed(_)
                | Self::CieInstruction
                | Self::LocationBackwards
                | Self::RestoreWithoutRemember
        )
    }
}
