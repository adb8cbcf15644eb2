//! From a function's CFI to its encoding.

use cfipack_format::Arch;
use cfipack_format::compact_unwind::Encoding;

use super::body::Rows;
use super::saved::SavedRegisters;
use super::{arm64, llvm_mc, x86};
use crate::cfi::{Function, Instructions, Interpreter};
use crate::{Reason, Unsupported};

/// Whose encodings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Such as are true: an encoding restores what the CFI says, in the body of the function and
    /// at every call, or the function has none.
    #[default]
    Checked,
    /// What llvm-mc 23 gives for the same directives, true or not.
    LlvmMc {
        /// The function has a personality other than `___gxx_personality_v0` and
        /// `___objc_personality_v0`, for which llvm-mc keeps DWARF mode unless it is told
        /// `-emit-compact-unwind-non-canonical`.
        foreign_personality: bool,
    },
}

/// Finds the encodings of functions, one after the other. Nothing is allocated for a function
/// (unless it remembers states deeper than any before).
#[derive(Clone, Debug, Default)]
pub struct Encoder<'a> {
    interpreter: Interpreter<'a, SavedRegisters>,
}

impl<'a> Encoder<'a> {
    /// An encoder that has seen no function.
    pub fn new() -> Self {
        Self::default()
    }

    /// The encoding of a function of x86-64, i386, arm64 or arm64_32, without flags and
    /// personality, which are the caller's to add. [`Encoding::NONE`] is llvm-mc's for x86
    /// functions without directives.
    ///
    /// `code` is the function's code from its start on. Without it, x86 stacks of more than 255
    /// words are refused, and so are functions that, outside what looks like their body, have a
    /// row longer than a step of a prologue or epilogue takes (15 bytes; arm64: 64): there may be
    /// calls. The same holds for x86 without the feature `iced-x86`, except for the stacks. With
    /// the code, no call is outside the body.
    ///
    /// # Errors
    /// No encoding says what the CFI says (or, in mode [`LlvmMc`](Mode::LlvmMc), llvm-mc gives
    /// none): the function keeps its FDE, and its encoding is [`Encoding::dwarf`]. The PC is that
    /// of the first row, or call, that stood in the way.
    pub fn encode(
        &mut self,
        function: &Function<'a>,
        code: Option<&[u8]>,
        mode: Mode,
    ) -> Result<Encoding, Unsupported> {
        let refused = |reason| Unsupported { function: function.start, pc: function.start, reason };
        let arch = function.arch();
        if !matches!(arch, Arch::Amd64 | Arch::I386 | Arch::Aarch64 | Arch::Arm64_32) {
            return Err(refused(Reason::Architecture));
        }
        match mode {
            Mode::Checked => self.checked(function, arch, code),
            Mode::LlvmMc { foreign_personality } => {
                let frame = llvm_mc::Frame {
                    foreign_personality,
                    signal: function.cie.signal_frame,
                    mte_tagged: function.cie.tagged,
                };
                let instructions = Instructions::new(function, function.instructions);
                llvm_mc::encode(arch, frame, instructions).map_err(refused)
            }
        }
    }

    fn checked(
        &mut self,
        function: &Function<'a>,
        arch: Arch,
        code: Option<&[u8]>,
    ) -> Result<Encoding, Unsupported> {
        let refused = |(reason, at): (Reason, u32)| {
            let pc = cfipack_format::Address(function.start.0.wrapping_add(at.into()));
            Unsupported { function: function.start, pc, reason }
        };
        if function.cie.signal_frame {
            return Err(refused((Reason::SignalFrame, 0)));
        }
        if function.cie.tagged {
            return Err(refused((Reason::TaggedFrame, 0)));
        }
        if function.cie.return_address != arch.return_address() {
            return Err(refused((Reason::ReturnColumn(function.cie.return_address), 0)));
        }
        let size = u32::try_from(function.size).map_err(|_| refused((Reason::FunctionSize, 0)))?;
        let mut rows = Rows::new(arch, code);
        if let Err(unsupported) = self.interpreter.run(function, &mut rows) {
            return Err(match rows.stopped_at {
                Some(at) => refused((unsupported.reason, at)),
                None => unsupported,
            });
        }
        let body = rows.finish(size).map_err(refused)?;
        let encoding = match arch {
            Arch::Amd64 | Arch::I386 => x86::encode(arch, body, code),
            _ => arm64::encode(arch, body),
        };
        encoding.map_err(|reason| refused((reason, body.row.start.0)))
    }
}
