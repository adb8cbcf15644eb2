//! The reasons why a function cannot be represented, or a table cannot be written.

use core::fmt;

use crate::sframe::Version;
use crate::{Address, Arch, Key, Register};

/// A function that a table cannot represent, with the reason.
///
/// The encoder omits this function and returns this value, so nothing is lost silently. Print it, or count the
/// functions by [`Reason::name`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsupported {
    /// The function.
    pub function: Key,
    /// The first PC where the CFI has a rule that the table cannot represent, in bytes from the function's
    /// start.
    pub offset: u64,
    /// The reason.
    pub reason: Reason,
}

impl Unsupported {
    /// Creates a value for the function as a whole: `offset` is 0.
    pub const fn function(function: Key, reason: Reason) -> Self {
        Self { function, offset: 0, reason }
    }

    /// Returns the first PC where the CFI has a rule that the table cannot represent. Call this only if you use
    /// addresses as keys.
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

crate::errors! {
    /// The reason why a table cannot be written at all. Builders and encoders return it when you create them.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    #[non_exhaustive]
    pub enum UnsupportedFormat {
        /// The format does not support the architecture.
        #[error("{format} is not defined for {arch}")]
        Arch {
            /// The architecture.
            arch: Arch,
            /// The name of the format's section.
            format: &'static str,
        },
        /// cfipack reads tables of this version but does not write them.
        #[error("version {} of {format} cannot be written", version as u8)]
        Version {
            /// The version.
            version: Version,
            /// The name of the format's section.
            format: &'static str,
        },
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $(($($field:ident: $kind:ty),*))? = $name:literal, $text:literal;)*) => {
        /// The reason why a table cannot represent a function.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $variant $(($($kind),*))?,)*
        }

        impl Reason {
            /// Returns a short name for counting, for example `cfa-expression`. It does not depend on the
            /// fields of the reason.
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
    /// Only a DWARF expression can describe the CFA.
    CfaExpression = "cfa-expression", "the CFA is an expression that the table cannot represent";
    /// The CFA is counted from a register that no compact encoding names. In `.sframe` it needs a flex FDE, and
    /// the options exclude flex FDEs.
    CfaRegister(register: Register) = "cfa-register", "the CFA is counted from register {register}";
    /// The input's table has the function without rows, because the assembler could not represent its rows.
    RowsMissing = "rows-missing", "the input's table has no rows for the function";
    /// The input's table has a row for the function that has no meaning.
    RowMalformed = "row-malformed", "the input's table has a row that means nothing";
    /// The CFA's offset does not fit its data word.
    CfaOffset(offset: i64) = "cfa-offset", "the CFA's offset {offset} does not fit a data word";
    /// The CFA is loaded from memory. No compact encoding represents it. In `.sframe` it needs a flex FDE, and
    /// the options exclude flex FDEs.
    CfaMemory = "cfa-memory", "the CFA is loaded from memory";
    /// Layout `gnu` needs a flex FDE, and the options exclude flex FDEs.
    FlexNeeded = "flex-needed", "the function needs a flex FDE";
    /// There is no rule for the CFA, from some PC on or in the whole function.
    CfaMissing = "cfa-missing", "there is no rule for the CFA";
    /// `DW_CFA_def_cfa_register` or `DW_CFA_def_cfa_offset` changes the CFA, but the CFA is an expression or
    /// has no rule. These instructions need a CFA that is a register and an offset.
    CfaWithoutBase = "cfa-without-base", "the CFA is changed where no register and offset are in effect";
    /// The caller's stack pointer is not the CFA.
    StackPointerRule = "stack-pointer-rule", "the caller's stack pointer is not the CFA";
    /// The table cannot represent the rule for the frame pointer.
    FramePointerRule = "frame-pointer-rule", "the rule for the frame pointer cannot be represented";
    /// The table cannot represent the rule for the return address.
    ReturnAddressRule = "return-address-rule", "the rule for the return address cannot be represented";
    /// The offset of a saved register does not fit its data word.
    RuleOffset(offset: i64) = "rule-offset", "the offset {offset} of a saved register does not fit a data word";
    /// The frame pointer is saved and the return address is not. A default FDE cannot represent this. Layout
    /// `gnu` omits the function, because gas does.
    FramePointerAlone = "frame-pointer-alone", "the frame pointer is saved and the return address is not";
    /// The return address is in a column other than the ABI's.
    ReturnColumn(register: Register) = "return-column", "the return address is in column {register}";
    /// AArch64: there is a rule for the pseudo register with the state of the signature.
    SignStateRule = "sign-state-rule", "there is a rule for the state of the return address's signature";
    /// AArch64: the return address is signed with the PC of the signing instruction (PAuth-LR,
    /// `DW_CFA_AARCH64_negate_ra_state_with_pc`). No table can represent this.
    SignedWithPc = "signed-with-pc", "the return address is signed with a PC (PAuth-LR), which no table has";
    /// The architecture is not the table's, or the table's format has no ABI for it.
    Architecture = "architecture", "the table is not for the function's architecture";
    /// The version of the format is not the table's, for example when you absorb a shard of another version.
    Version = "version", "the table has another version of the format";
    /// The options are not the table's.
    Options = "options", "the table has other options";
    /// Another function with other rows has the same start, and nothing decides between them.
    Ambiguous = "ambiguous", "another function starts there, which does not have the same rows";
    /// The verifier cannot read or evaluate the function's CFI, so no table could be proven to be right.
    Unjudged = "unjudged", "the verifier cannot judge the function's call frame information";
    /// The function starts this many bytes from the table, and version 2 stores starts in 32 bits.
    StartTooFar(distance: i64) = "start-too-far", "the function is {distance} bytes away from the table, too far for version 2";
    /// The function has only a key and no address yet, but its rows depend on its address: it has
    /// `DW_CFA_set_loc`, it is the stubs of a PLT, or functions are merged.
    PlaceUnknown = "place-unknown", "the function has no address yet, and its rows depend on it";
    /// A table cannot have both functions with addresses and functions with only a key.
    KeysMixed = "keys-mixed", "one table has functions with addresses or functions without, not both";
    /// The table has no room for more rows.
    SectionSize = "section-size", "the table's rows exceed 4 GiB";
    /// The function's size or a row's start does not fit into 32 bits.
    FunctionSize = "function-size", "the function is larger than 4 GiB";
    /// The stubs of a PLT do not start at a multiple of their size.
    StubAlignment = "stub-alignment", "the stubs of the PLT are not aligned to their size";
    /// A caller gave rows, and the first row does not start at 0, or a row starts out of order or beyond the
    /// code.
    RowStart(start: u32) = "row-start", "a row starts at {start}, outside its code or out of order";
    /// The function has more rows than layout `gnu` writes: gas omits the function.
    RowCount = "row-count", "the function has more than 65535 rows";
    /// cfipack does not know this call frame instruction.
    InstructionUnknown(opcode: u8) = "instruction-unknown", "call frame instruction {opcode:#04x} is unknown";
    /// The operands of an instruction are cut off or out of range.
    InstructionMalformed(opcode: u8) = "instruction-malformed", "call frame instruction {opcode:#04x} is malformed";
    /// A CIE has an instruction that only an FDE may have: an advance, or `DW_CFA_restore` of a register that
    /// the CIE has given a rule.
    CieInstruction = "cie-instruction", "the CIE holds an instruction that belongs into an FDE";
    /// `DW_CFA_set_loc` moves to a lower address.
    LocationBackwards = "location-backwards", "the location moves backwards";
    /// `DW_CFA_restore_state` has no matching `DW_CFA_remember_state`.
    RestoreWithoutRemember = "restore-without-remember", "a state is restored that was not remembered";
    /// `DW_CFA_remember_state` is nested deeper than 1024.
    RememberDepth = "remember-depth", "remembered states nest too deeply";
    /// Layout `gnu`: gas omits the function because of an instruction with this opcode.
    GasInstruction(opcode: u8) = "gas-instruction", "gas omits functions with call frame instruction {opcode:#04x} here";
    /// Layout `gnu`: gas omits functions with `.cfi_label`.
    GasLabel = "gas-label", "gas omits functions with `.cfi_label`";
    /// Layout `gnu`: gas omits the function because of a rule for this register.
    GasRegister(register: Register) = "gas-register", "gas omits functions with this rule for register {register}";
    /// Compact unwind: the function has a frame pointer, but its frame is not the standard frame.
    FrameRecord = "frame-record", "the caller's frame pointer and return address are not on top of the frame";
    /// Compact unwind: no encoding restores this register, or it is not saved on the stack.
    SavedRegister(register: Register) = "saved-register", "no encoding restores register {register} from where it is";
    /// Compact unwind: no encoding has this register at the place where it is saved.
    SavedPlace(register: Register) = "saved-place", "no encoding has register {register} where it is saved";
    /// Compact unwind: no encoding has a stack of this many bytes with these registers.
    StackSize(size: i64) = "stack-size", "no encoding has a stack of {size} bytes with these registers";
    /// Compact unwind: the encoding would have to read this stack size from the code, and the code has no
    /// matching `sub` there.
    StackSizeInCode(size: i64) = "stack-size-in-code", "the code has no `sub` with the stack's {size} bytes where the encoding looks for it";
    /// Compact unwind: the return address is signed.
    SignedReturnAddress = "signed-return-address", "the return address is signed";
    /// Compact unwind: a signal frame.
    SignalFrame = "signal-frame", "the frame is a signal's";
    /// Compact unwind: the augmentation has `G`, so the unwinder has to clear the tags of the frame's memory.
    TaggedFrame = "tagged-frame", "the frame's memory is tagged";
    /// Compact unwind: `DW_CFA_GNU_args_size` puts this many bytes of arguments on the stack, and landing pads
    /// depend on it.
    ArgumentsSize(size: u64) = "arguments-size", "{size} bytes of arguments lie on the stack";
    /// Compact unwind: more than a prologue or epilogue lies between this row and the body.
    NotAStep = "not-a-step", "the row is no step of a prologue or epilogue";
    /// Compact unwind: a row outside the body is too long for a prologue or epilogue.
    LongStep = "long-step", "much of the function is outside what could be its body";
    /// Compact unwind: the function makes a call at a PC where the encoding would be wrong.
    CallOutsideBody = "call-outside-body", "there is a call outside the function's body";
    /// Compact unwind: calls cannot be found, because the code cannot be read.
    CodeUnreadable = "code-unreadable", "the code cannot be read";
    /// Compact unwind: llvm-mc keeps DWARF mode for these directives.
    LlvmMcDirectives = "llvm-mc-directives", "llvm-mc has no encoding for these directives";
    /// Compact unwind: llvm-mc keeps DWARF mode for this personality.
    LlvmMcPersonality = "llvm-mc-personality", "llvm-mc has no encoding with this personality";
}

impl core::error::Error for Reason {}

impl Reason {
    /// Returns whether DWARF does not define the meaning of the CFI, so that readers of CFI differ.
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
