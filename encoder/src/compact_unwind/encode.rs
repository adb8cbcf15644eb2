//! Turns a function's CFI into its compact encoding.

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Arch, Family};

use super::body::Rows;
use super::saved::SavedRegisters;
use super::{arm64, llvm_mc, x86};
use crate::cfi::{Function, Instructions, Interpreter};
use crate::{Reason, Unsupported, UnsupportedFormat};

/// How encodings are made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Makes only true encodings: an encoding restores everything that the CFI describes, in the body of the function
    /// and at every call and system call. If there is no such encoding, the function has none.
    #[default]
    Checked,
    /// Makes the encodings that llvm-mc 23 makes from the same directives, whether they are true or not.
    LlvmMc {
        /// Set this if the function has a personality other than `___gxx_personality_v0` and
        /// `___objc_personality_v0`. For other personalities llvm-mc keeps DWARF mode, unless
        /// `-emit-compact-unwind-non-canonical` is given.
        foreign_personality: bool,
    },
}

/// Finds the compact encodings of functions. Make one encoder and use it for many functions: it allocates nothing per
/// function, unless a function remembers more nested states than any function before.
#[derive(Clone, Debug)]
pub struct Encoder<'a> {
    arch: Arch,
    interpreter: Interpreter<'a, SavedRegisters>,
}

impl<'a> Encoder<'a> {
    /// Makes an encoder for functions of `arch`: x86-64, i386, arm64 or arm64_32.
    ///
    /// # Errors
    /// This function returns an error for any other architecture, because the format has no encodings for it.
    pub fn new(arch: Arch) -> Result<Self, UnsupportedFormat> {
        super::check(arch)?;
        Ok(Self { arch, interpreter: Interpreter::new() })
    }

    /// Returns the encoding of a function, without its flags and personality number; add them yourself. In mode
    /// [`LlvmMc`](Mode::LlvmMc), an x86 function without directives has [`Encoding::NONE`].
    ///
    /// Pass in `code` the function's code from its start on, if you have it. It shows where calls are, and no call
    /// may lie outside the body. Without the code, more functions are refused:
    ///
    /// - x86 functions with more than 255 words of stack;
    /// - functions with a row outside of the likely body that is longer than a step of a prologue or epilogue (15
    ///   bytes on x86, 64 on arm64), because the row may contain a call;
    /// - functions with a body that continues after a part of an epilogue.
    ///
    /// The last two also apply to x86 if the feature `iced-x86` is off, even with the code.
    ///
    /// # Errors
    /// This function returns an error if no encoding represents the CFI, or, in mode `LlvmMc`, if llvm-mc makes none.
    /// Then the function keeps its FDE, and its encoding is [`Encoding::dwarf`]. The error has the PC of the first
    /// row or call that stood in the way.
    pub fn encode(
        &mut self,
        function: &Function<'a>,
        code: Option<&[u8]>,
        mode: Mode,
    ) -> Result<Encoding, Unsupported> {
        let refused = |reason| Unsupported::function(function.key, reason);
        let arch = self.arch;
        if function.arch() != arch {
            return Err(refused(Reason::Architecture));
        }
        match mode {
            Mode::Checked => self.checked(function, arch, code),
            Mode::LlvmMc { foreign_personality } => {
                let frame = llvm_mc::Frame::new()
                    .with_foreign_personality(foreign_personality)
                    .with_signal(function.cie.signal_frame)
                    .with_mte_tagged(function.cie.tagged);
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
        let refused =
            |(reason, at): (Reason, u32)| Unsupported { function: function.key, offset: at.into(), reason };
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
        let encoding = match arch.family() {
            Family::X86 => x86::encode(arch, body, code),
            Family::Aarch64 => arm64::encode(arch, body),
            Family::S390x | Family::Riscv => Err(Reason::Architecture),
        };
        encoding.map_err(|reason| refused((reason, body.row.start.0)))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::cfi::{Section, SectionKind};
    use crate::eh_frame::{CIE, fde};

    /// Encodes an x86-64 function of `size` bytes at address 0 from the instructions of its FDE.
    fn encode(size: u8, instructions: &[u8], code: Option<&[u8]>) -> Result<Encoding, (Reason, u64)> {
        let mut bytes = CIE.to_vec();
        fde(&mut bytes, 0, 0, size.into(), instructions);
        let section = Section::new(SectionKind::EhFrame, &bytes, cfipack_format::Address(0), Arch::Amd64);
        let function = crate::cfi::Functions::new(&section).next().unwrap().unwrap();
        assert_eq!((function.key.0, function.size), (0, size.into()));
        let encoding = Encoder::new(function.arch()).unwrap().encode(&function, code, Mode::Checked);
        encoding.map_err(|unsupported| (unsupported.reason, unsupported.offset))
    }

    /// Returns nops, with other bytes at some places.
    fn code(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut code = vec![0x90; size];
        parts.iter().for_each(|(at, bytes)| code[*at..][..bytes.len()].copy_from_slice(bytes));
        code
    }

    #[cfg(feature = "iced-x86")]
    const CALL: &[u8] = &[0xe8, 0, 0, 0, 0];

    #[test]
    fn steps_lead_out_to_the_entry() {
        // push rbx; ...; pop rbx; ret; restored.
        let out = [0x41, 0x0e, 16, 0x83, 2, 0x0a, 0x50, 0x0e, 8, 0x41, 0x0b];
        assert_eq!(encode(40, &out, None), Ok(Encoding::frameless(2, 1, 0)));
        // 24, 16, 24: down and up again on the way.
        let dip = [0x42, 0x0e, 24, 0x50, 0x0e, 16, 0x44, 0x0e, 24];
        assert_eq!(encode(40, &dip, None), Err((Reason::NotAStep, 22)));
        // rbx in another place.
        let moved = [0x41, 0x0e, 24, 0x83, 2, 0x50, 0x83, 3];
        assert_eq!(encode(40, &moved, None), Err((Reason::NotAStep, 17)));
    }

    #[test]
    fn long_steps_need_the_code() {
        let late = [0x60, 0x0e, 16, 0x83, 2, 0x50, 0x0e, 8];
        assert_eq!(encode(50, &late, None), Err((Reason::LongStep, 0)));
        assert_eq!(encode(50, &late[..5], Some(&[])).map_err(|(reason, _)| reason), {
            if cfg!(feature = "iced-x86") { Err(Reason::CodeUnreadable) } else { Err(Reason::LongStep) }
        });
    }

    #[cfg(feature = "iced-x86")]
    #[test]
    fn calls_are_in_the_body() {
        let late = [0x60, 0x0e, 16, 0x83, 2, 0x50, 0x0e, 8];
        let encoding = Ok(Encoding::frameless(2, 1, 0));
        assert_eq!(encode(50, &late, Some(&code(50, &[(32, CALL)]))), encoding);
        // Without any call, the longest row would be the body, and this is only a guess.
        assert_eq!(encode(50, &late, Some(&code(50, &[]))), Err((Reason::LongStep, 0)));
        let early = code(50, &[(3, CALL), (40, CALL)]);
        assert_eq!(encode(50, &late, Some(&early)), Err((Reason::CallOutsideBody, 3)));
        // The call's last byte is in the body, and only its return address is outside.
        assert_eq!(encode(50, &late, Some(&code(50, &[(43, CALL)]))), encoding);
        let after = code(50, &[(34, CALL), (48, &[0xff, 0xd0])]);
        assert_eq!(encode(50, &late, Some(&after)), Err((Reason::CallOutsideBody, 48)));
    }

    /// 24, 16, 24: a jump leads from 16 to the rest of another epilogue.
    #[cfg(feature = "iced-x86")]
    #[test]
    fn merged_epilogues_of_x86() {
        let dip = [0x42, 0x0e, 24, 0x50, 0x0e, 16, 0x44, 0x0e, 24];
        let encoding = Ok(Encoding::frameless(3, 0, 0));
        assert_eq!(encode(40, &dip, Some(&code(40, &[(18, &[0xeb, 10])]))), encoding);
        let call = code(40, &[(18, &[0xff, 0xd0])]);
        assert_eq!(encode(40, &dip, Some(&call)), Err((Reason::CallOutsideBody, 18)));
        // The CFA offsets are 8, 24, 16, 32. Earlier rows would be steps to the last row.
        let deeper = [0x42, 0x0e, 24, 0x42, 0x0e, 16, 0x41, 0x0e, 32];
        assert_eq!(encode(20, &deeper, Some(&code(20, &[]))), Ok(Encoding::frameless(4, 0, 0)));
        let call = code(20, &[(2, &[0xff, 0xd0])]);
        assert_eq!(encode(20, &deeper, Some(&call)), Err((Reason::CallOutsideBody, 2)));
        assert_eq!(encode(20, &deeper, None), Err((Reason::NotAStep, 5)));
    }

    /// LLVM leaves a row on the `b` at byte 20, which leads into the epilogue at byte 28.
    #[test]
    fn merged_epilogues_of_arm64() {
        let mut bytes = Vec::from(*b"\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x1e\x01\x1b\x0c\x1f\0\0\0\0\0");
        let instructions = [
            // stp x20, x19, [sp, #-32]!; stp x29, x30, [sp, #16]; add x29, sp, #16
            0x44, 0x0e, 32, 0x48, 0x0c, 29, 16, 0x9e, 1, 0x9d, 2, 0x93, 3, 0x94, 4,
            // bl; cbz; b; bl
            0x0a, 0x48, 0x0c, 31, 32, 0x44, 0x0b, 0x0a, //
            // ldp x29, x30, [sp, #16]; ldp x20, x19, [sp], #32; ret
            0x44, 0x0c, 31, 32, 0x48, 0x0e, 0, 0xde, 0xdd, 0xd3, 0xd4, 0x44, 0x0b,
        ];
        fde(&mut bytes, 0, 0, 44, &instructions);
        let section = Section::new(SectionKind::EhFrame, &bytes, cfipack_format::Address(0), Arch::Aarch64);
        let function = crate::cfi::Functions::new(&section).next().unwrap().unwrap();
        let words = |at_20: u32| -> Vec<u8> {
            let words = [
                0xa9be_4ff4_u32,
                0xa901_7bfd,
                0x9100_43fd,
                0x9400_0000,
                0xb400_0060,
                at_20,
                0x9400_0000,
                0xa941_7bfd,
                0xa8c2_4ff4,
                0xd65f_03c0,
                0x9400_0000,
            ];
            words.into_iter().flat_map(u32::to_le_bytes).collect()
        };
        let encode = |code: Option<&[u8]>| {
            let encoding = Encoder::new(function.arch()).unwrap().encode(&function, code, Mode::Checked);
            encoding.map_err(|unsupported| (unsupported.reason, unsupported.offset))
        };
        // x29, x30 and the pair x19, x20: llvm-mc 23 gives 0x04000001 for the prologue.
        assert_eq!(encode(Some(&words(0x1400_0002))), Ok(Encoding(0x0400_0001)));
        assert_eq!(encode(Some(&words(0x9400_0002))), Err((Reason::CallOutsideBody, 20)));
        assert_eq!(encode(None), Err((Reason::NotAStep, 24)));
    }

    #[test]
    fn stack_size_in_the_code() {
        // push rbx; sub rsp, 4096: a stack of 4112 bytes.
        let large = [0x41, 0x0e, 16, 0x47, 0x0e, 0x90, 0x20, 0x83, 2];
        let sub = code(40, &[(1, &[0x48, 0x81, 0xec, 0, 0x10, 0, 0])]);
        assert_eq!(encode(40, &large, Some(&sub)), Ok(Encoding(0x0304_4400)));
        let other = code(40, &[(1, &[0x48, 0x81, 0xec, 0, 0x0f, 0, 0])]);
        let refused = Err((Reason::StackSizeInCode(4112), 8));
        assert_eq!(encode(40, &large, Some(&other)), refused);
        assert_eq!(encode(40, &large, Some(&code(40, &[(1, &[0x48, 0x81, 0xc4, 0, 0x10, 0, 0])]))), refused);
        // Without REX.W it takes from esp.
        assert_eq!(encode(40, &large, Some(&code(40, &[(2, &[0x81, 0xec, 0, 0x10, 0, 0])]))), refused);
        assert_eq!(encode(40, &large, None), refused);
    }

    /// The word of the return address is part of the stack.
    #[test]
    fn a_stack_without_room_for_its_registers() {
        // push rbx; push r12; the CFA is rsp + 24, and the CFI gives less.
        let saved = |size| encode(20, &[0x41, 0x0e, size, 0x83, 2, 0x8c, 3], None);
        assert_eq!(saved(24).map(|encoding| encoding.0 & 0x00ff_0000), Ok(3 << 16));
        assert_eq!(saved(16), Err((Reason::StackSize(16), 1)));
        assert_eq!(saved(8), Err((Reason::StackSize(8), 1)));
    }

    #[test]
    fn a_return_address_in_another_column() {
        let mut bytes = Vec::from(*b"\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x0b\x01\x1b\x0c\x07\x08\x8b\x01\0\0");
        fde(&mut bytes, 0, 0, 16, &[]);
        let section = Section::new(SectionKind::EhFrame, &bytes, cfipack_format::Address(0), Arch::Amd64);
        let function = crate::cfi::Functions::new(&section).next().unwrap().unwrap();
        let encoding = Encoder::new(function.arch()).unwrap().encode(&function, None, Mode::Checked);
        let r11 = cfipack_format::Register(11);
        assert_eq!(encoding.map_err(|unsupported| unsupported.reason), Err(Reason::ReturnColumn(r11)));
    }

    #[test]
    fn holes_and_arguments() {
        // r12 is not just below rbx.
        let hole = [0x41, 0x0e, 32, 0x83, 2, 0x8c, 4];
        assert_eq!(encode(20, &hole, None), Err((Reason::SavedPlace(cfipack_format::Register(12)), 1)));
        // With a frame pointer, a hole is an empty slot.
        let frame = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x83, 3, 0x8c, 5];
        assert_eq!(encode(20, &frame, None), Ok(Encoding::frame(3, [2, 0, 1, 0, 0])));
        let arguments = [0x41, 0x0e, 16, 0x2e, 16];
        assert_eq!(encode(20, &arguments, None), Err((Reason::ArgumentsSize(16), 1)));
    }
}
