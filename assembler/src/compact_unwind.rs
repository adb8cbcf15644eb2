//! Makes `__compact_unwind` from directives.

use alloc::vec::Vec;

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Key, Reason, Unsupported, UnsupportedFormat};

use crate::assembly::{Assembly, Function};
use crate::call_frames::Target;
use crate::cfi::{self, Instructions};
use crate::encoder::compact_unwind::{self, Encoder, Entry, Mode, Section, llvm_mc};
use crate::parts::Parts;

/// How functions get their encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Encodings {
    /// True encodings. They restore what the directives describe, in the function's body and at every call.
    #[default]
    Checked,
    /// The encodings that llvm-mc 23 gives for the same directives, true or not.
    LlvmMc,
}

/// Options of a `__compact_unwind`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CompactOptions<'a> {
    /// How functions get their encodings.
    pub encodings: Encodings,
    /// The keys of `___gxx_personality_v0` and `___objc_personality_v0`. llvm-mc keeps DWARF mode for other
    /// personalities, because a linker has room for three.
    pub canonical_personalities: &'a [Key],
}

/// A `__compact_unwind` section, and the functions that need `__eh_frame`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactUnwind {
    /// The rows, and their relocations.
    pub section: Section,
    /// The functions in DWARF mode, with the reasons. They need their FDEs.
    pub in_dwarf_mode: Vec<Unsupported>,
}

impl<'a> CompactOptions<'a> {
    /// Returns the default options, with true encodings.
    pub const fn new() -> Self {
        Self { encodings: Encodings::Checked, canonical_personalities: &[] }
    }

    /// Sets how functions get their encodings.
    pub const fn with_encodings(self, encodings: Encodings) -> Self {
        Self { encodings, ..self }
    }

    /// Sets the keys of the personalities for which llvm-mc has encodings.
    pub const fn with_canonical_personalities(self, canonical_personalities: &'a [Key]) -> Self {
        Self { canonical_personalities, ..self }
    }
}

impl Assembly {
    /// Returns the `__compact_unwind` of a Mach-O object, with a row for each function in order. `code_of`
    /// returns a function's code, from its start on, if you have it. Without code, fewer functions get a
    /// checked [encoding](Encoder::encode). `target_of` returns the place in the object of a function, a
    /// personality or an LSDA.
    ///
    /// ```
    /// use cfipack_assembler::{Assembly, CompactOptions, Directives, Target};
    /// use cfipack_encoder::compact_unwind::RelocationTarget;
    /// use cfipack_format::{Arch, Key, Register};
    ///
    /// let named = |name| Register::named(Arch::Aarch64, name).expect("a register");
    /// let (fp, lr) = (named("x29"), named("x30"));
    /// // stp x29, x30, [sp, #-16]!; mov x29, sp; bl f; ldp; ret
    /// let mut directives = Directives::new(Arch::Aarch64, 20);
    /// directives.at(8).def_cfa(fp, 16).offset(lr, -8).offset(fp, -16);
    ///
    /// let mut assembly = Assembly::new(Arch::Aarch64);
    /// assembly.push(Key(1), &directives)?;
    /// let compact = assembly.compact_unwind(
    ///     CompactOptions::new(),
    ///     // The function's code, if it is at hand: more functions have an encoding then.
    ///     |_key| None,
    ///     |target| match target {
    ///         // The object's first section has the code, and the function is 64 bytes into it.
    ///         Target::Function(Key(1)) => RelocationTarget::Section { number: 1, address: 64 },
    ///         other => panic!("no such target: {other:?}"),
    ///     },
    /// )?;
    /// assert!(compact.in_dwarf_mode.is_empty()); // no function needs its FDE
    /// let row = compact.section.as_bytes();
    /// assert_eq!(row.len(), 32);
    /// // Start and length of the function.
    /// assert_eq!(row[..12], [64, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0]);
    /// assert_eq!(row[12..16], 0x0400_0000_u32.to_le_bytes()); // UNWIND_ARM64_MODE_FRAME
    /// let relocations = compact.section.relocations().map(|relocation| relocation.write());
    /// let relocations: Vec<[u8; 8]> = relocations.collect();
    /// assert_eq!(relocations.len(), 1); // of the function's pointer
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The format does not have the architecture.
    pub fn compact_unwind<'c>(
        &self,
        options: CompactOptions<'_>,
        code_of: impl Fn(Key) -> Option<&'c [u8]>,
        target_of: impl Fn(Target) -> compact_unwind::RelocationTarget,
    ) -> Result<CompactUnwind, UnsupportedFormat> {
        let (mut parts, mut encoder) = (Parts::new(self), Encoder::new(self.arch)?);
        let mut result = CompactUnwind { section: Section::new(self.arch)?, in_dwarf_mode: Vec::new() };
        for own in &self.functions {
            let function = parts.function(own, None);
            let Ok(length) = u32::try_from(own.size) else {
                result.in_dwarf_mode.push(Unsupported::function(own.key, Reason::FunctionSize));
                continue;
            };
            let encoding = match options.encodings {
                Encodings::Checked => encoder.encode(&function, code_of(own.key), Mode::Checked),
                Encodings::LlvmMc => self.as_llvm_mc(own, &function, options.canonical_personalities),
            };
            let encoding = encoding.unwrap_or_else(|unsupported| {
                result.in_dwarf_mode.push(unsupported);
                Encoding::dwarf(self.arch, 0)
            });
            result.section.push(&Entry {
                function: target_of(Target::Function(own.key)),
                length,
                encoding,
                personality: own
                    .frame
                    .personality
                    .map(|(_, routine)| target_of(Target::Personality(routine))),
                lsda: own.frame.lsda.map(|(_, table)| target_of(Target::Lsda(table))),
            });
        }
        Ok(result)
    }

    /// Returns the encoding that llvm-mc gives for a function's directives.
    fn as_llvm_mc(
        &self,
        own: &Function,
        function: &cfi::Function<'_>,
        canonical: &[Key],
    ) -> Result<Encoding, Unsupported> {
        let is_foreign = own.frame.personality.is_some_and(|(_, routine)| !canonical.contains(&routine));
        let frame = llvm_mc::Frame::new()
            .with_foreign_personality(is_foreign)
            .with_signal(own.frame.is_signal_frame)
            .with_mte_tagged(own.frame.is_mte_tagged_frame);
        let instructions = &own.instructions;
        let bytes = &self.bytes[instructions.bytes.start + instructions.at_entry..instructions.bytes.end];
        // If a directive is not an instruction of its own, llvm-mc keeps DWARF mode. So this error comes
        // first.
        let altered = instructions.is_altered.then_some(Err(Reason::LlvmMcDirectives));
        let directives = altered.into_iter().chain(Instructions::new(function, bytes));
        let encoding = llvm_mc::encode(self.arch, frame, directives);
        encoding.map_err(|reason| Unsupported::function(own.key, reason))
    }
}
