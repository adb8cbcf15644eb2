//! What `.debug_frame` says that `.eh_frame` does not.
//!
//! Code built without unwind tables is described there alone, in files whose C runtime has an `.eh_frame`.
//! Assemblers and compilers can also be told to write both, which say the same then.

use cfipack_encoder::cfi::{Function, SectionKind};
use cfipack_format::{Address, SectionOffset};
use object::SectionIndex;
use object::elf::SHF_EXECINSTR;
use object::read::elf::SectionHeader as _;

use super::Elf;
use crate::{CallFrameSection, Kind};

impl<'a> Elf<'a> {
    /// The sections, every `.eh_frame` first, without the functions of `.debug_frame` that start where
    /// one of `.eh_frame` does, or where a linked file has no code: those the linker discarded. A
    /// `.debug_frame` that has nothing else is left out.
    pub(super) fn each_function_once(
        &self,
        mut sections: Vec<CallFrameSection<'a>>,
    ) -> Vec<CallFrameSection<'a>> {
        let is_eh_frame = |section: &CallFrameSection<'_>| section.kind == SectionKind::EhFrame;
        sections.sort_by_key(|section| !is_eh_frame(section));
        let (eh_frames, debug_frames) = sections.split_at(sections.partition_point(is_eh_frame));
        // Where all sections lie at zero, equal starts say nothing.
        if debug_frames.is_empty() || self.addresses.is_ambiguous() {
            return sections;
        }
        let mut known: Vec<_> = eh_frames.iter().flat_map(starts).collect();
        known.sort_unstable();
        let is_new = |function: &Function<'_>| {
            known.binary_search(&function.start).is_err()
                && (self.headers.kind == Kind::Relocatable || self.is_code(function.start))
        };
        sections.retain_mut(|section| is_eh_frame(section) || retain(section, is_new));
        sections
    }

    /// Whether an address lies in a section of code, be its bytes in the file or not.
    fn is_code(&self, address: Address) -> bool {
        let section = self.locate(address).map(|location| SectionIndex(location.section));
        let header = section.and_then(|index| self.headers.sections.section(index).ok());
        header.is_some_and(|header| header.sh_flags(self.headers.endian).contains(SHF_EXECINSTR))
    }
}

/// Where the functions of a section start that have any code.
fn starts(section: &CallFrameSection<'_>) -> Vec<Address> {
    let functions = section.cfi().functions().flatten();
    functions.filter(|function| function.size != 0).map(|function| function.start).collect()
}

/// Keeps some of a section's functions, and what cannot be read. Returns whether there is any.
fn retain(section: &mut CallFrameSection<'_>, is_kept: impl Fn(&Function<'_>) -> bool) -> bool {
    let (mut others, mut any) = (Vec::new(), false);
    for function in section.cfi().functions() {
        match function {
            Ok(function) if !is_kept(&function) => others.push(function.fde),
            _ => any = true,
        }
    }
    if any {
        others.into_iter().for_each(|fde| take_out(section, fde));
    }
    any
}

/// Makes an FDE look like a CIE, which nothing refers to: all other records stay where they are.
fn take_out(section: &mut CallFrameSection<'_>, fde: SectionOffset) {
    let record = &mut section.section.bytes.to_mut()[fde.0..];
    let is_64_bit = record.starts_with(&[0xff; 4]);
    let id = if is_64_bit { 12..20 } else { 4..8 };
    record[id].fill(0xff);
}
