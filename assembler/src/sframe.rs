//! Makes `.sframe` from directives.

use alloc::vec::Vec;

use cfipack_format::sframe::Version;
use cfipack_format::{Reason, Unsupported};

use crate::assembly::{Assembly, AssemblyError, Function};
use crate::call_frames::{Relocation, Target};
use crate::encoder::sframe::{Builder, GasMarks, Layout, Marked, Options, Section};
use crate::instructions::MarkKind;
use crate::parts::Parts;

/// With up to this number of functions, a builder is faster without its fast paths.
pub(crate) const FEW: usize = 16;

/// A `.sframe` section, and the functions that it omits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sframe {
    /// The section. [Write](Section::write) it if you know the functions' addresses, or write a
    /// [relocatable](Section::write_relocatable) section.
    pub section: Section<'static>,
    /// The functions that the section omits, with the reasons.
    pub omitted: Vec<Unsupported>,
    version: Version,
}

impl Sframe {
    /// Returns the fields of a [relocatable](Section::write_relocatable) section that depend on an address,
    /// in ascending order: the start of each entry. Use them as you use
    /// [`CallFrames::relocations`](crate::CallFrames::relocations). Each field is signed and relative to
    /// itself, and leads to a [`Target::Function`]. It has 8 bytes in version 3, and 4 bytes in version 2.
    ///
    /// ```
    /// use cfipack_assembler::{Assembly, Directives, Target};
    /// use cfipack_encoder::sframe::Options;
    /// use cfipack_format::{Arch, Key};
    ///
    /// let mut assembly = Assembly::new(Arch::Amd64);
    /// assembly.push(Key(7), &Directives::new(Arch::Amd64, 16))?;
    /// let sframe = assembly.sframe(Options::new())?;
    /// let relocations: Vec<_> = sframe.relocations().collect();
    /// assert_eq!((relocations[0].offset.0, relocations[0].target), (28, Target::Function(Key(7))));
    /// assert_eq!(relocations[0].elf_type(Arch::Amd64).unwrap().name, "R_X86_64_PC64");
    /// # Ok::<(), cfipack_assembler::AssemblyError>(())
    /// ```
    pub fn relocations(&self) -> impl Iterator<Item = Relocation> + '_ {
        self.section.start_fields().map(|start| Relocation {
            offset: start.field,
            size: self.version.start_size() as u8,
            is_pc_relative: true,
            is_signed: true,
            target: Target::Function(start.function),
            addend: start.offset as i64,
        })
    }
}

impl Assembly {
    /// Returns the `.sframe` of the functions. The rows are the rows of the [`.eh_frame`](Self::eh_frame). In
    /// layout [`Gnu`](Layout::Gnu) they are the rows that gas 2.47 writes for the same directives, even if gas
    /// knows more than the CFI has.
    ///
    /// # Errors
    /// The format does not have the architecture.
    pub fn sframe(&self, options: Options) -> Result<Sframe, AssemblyError> {
        let arch = self.arch;
        let marked = if options.layout == Layout::Gnu { self.with_zero_advances() } else { Vec::new() };
        let options = options.with_few(self.functions.len() <= FEW);
        let mut builder = Builder::new(arch, options).map_err(AssemblyError::Unsupported)?;
        let (mut parts, mut omitted) = (Parts::new(self), Vec::new());
        for (number, own) in self.functions.iter().enumerate() {
            let marked = marked.get(number).and_then(Option::as_deref);
            let function = parts.function(own, marked);
            omitted.extend(builder.push(Marked::new(&function, self.gas_marks(own))).err());
        }
        Ok(Sframe { section: builder.finish().into_owned(), omitted, version: options.version })
    }

    /// Returns the facts that gas knows about a function.
    fn gas_marks(&self, function: &Function) -> GasMarks {
        let marks = self.marks_of(function);
        if marks.is_empty() {
            return GasMarks::default();
        }
        let omitted = marks.iter().find_map(|mark| match mark.kind {
            MarkKind::ZeroAdvance => None,
            MarkKind::Label => Some((mark.location, Reason::GasLabel)),
            MarkKind::OpaqueEscape(first) => Some((mark.location, Reason::GasInstruction(first))),
        });
        let all = GasMarks::default().with_zero_advances(true);
        omitted.map_or(all, |(offset, reason)| all.with_omitted(offset, reason))
    }
}
