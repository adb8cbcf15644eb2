//! Decides which FDEs of `.debug_frame` count, so that each function is described once.
//!
//! Some code is described only in `.debug_frame`: code that was built without unwind tables, in a file with a C
//! runtime that has an `.eh_frame`. Other functions are described in both sections, because assemblers and compilers
//! can write both. Then the two descriptions agree.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::hash::Hash;

use cfipack_cfi::{Excluded, Exclusion, Function, SectionKind};
use cfipack_format::Address;
use object::elf::{SHF_ALLOC, SHF_EXECINSTR};
use object::read::elf::SectionHeader as _;

use super::file::Elf;
use crate::kind::Kind;
use crate::section::CallFrameSection;

impl<'a> Elf<'a> {
    /// Returns the sections with each `.eh_frame` first, and with a list of FDEs that do not count. An FDE of
    /// `.debug_frame` does not count if
    ///
    /// - a function in `.eh_frame` has the same start,
    /// - the file is linked and cannot have code at the start, because the linker discarded the function or the FDE has
    ///   another layout, or
    /// - another FDE of `.debug_frame` has the same start and this FDE is [superfluous](Self::superfluous).
    ///
    /// We accept code in every loaded section. Some firmware has no memory protection and runs code from sections
    /// that are not marked as code, and overlays put code and data at the same address. A discarded function starts
    /// at 0, so for this start [`CodeAtZero`] asks for more.
    pub(super) fn each_function_once(
        &self,
        mut sections: Vec<CallFrameSection<'a>>,
    ) -> Vec<CallFrameSection<'a>> {
        sections.sort_by_key(|section| !is_eh_frame(section));
        let (eh_frames, debug_frames) = sections.split_at(sections.partition_point(is_eh_frame));
        // If all sections lie at zero, functions with equal starts need not be the same.
        if debug_frames.is_empty() || self.section_addresses().is_ambiguous() {
            return sections;
        }
        let mut known: Vec<_> = eh_frames.iter().flat_map(starts).collect();
        known.sort_unstable();
        let is_relocatable = self.headers.kind == Kind::Relocatable;
        let code_at_zero = LazyCell::new(|| self.code_at_zero());
        for section in sections.iter_mut().filter(|section| !is_eh_frame(section)) {
            if !is_relocatable {
                self.exclude_beyond_the_last_address(section);
            }
            section.exclude_where(|function| {
                let start = function.key.address();
                if known.binary_search(&start).is_ok() {
                    return Some(Exclusion::Superseded);
                }
                let may_be_code = is_relocatable
                    || self.section_addresses().is_loaded(start)
                        && (start != Address(0) || code_at_zero.may_be(function));
                (!may_be_code).then(|| self.not_loaded(start))
            });
        }
        let superfluous = self.superfluous(&sections);
        for found in superfluous.chunk_by(|(section, _), (next, _)| section == next) {
            sections[found[0].0].exclude(found.iter().map(|(_, excluded)| *excluded));
        }
        sections
    }

    /// Returns the reason to exclude a function of a linked file whose start is in no section.
    fn not_loaded(&self, start: Address) -> Exclusion {
        if self.section_addresses().is_no_start(start) { Exclusion::Unplaced } else { Exclusion::Discarded }
    }

    /// Excludes functions that the linker discarded by setting their start to -1. They end after the last address,
    /// and no section contains their start.
    fn exclude_beyond_the_last_address(&self, section: &mut CallFrameSection<'a>) {
        let mut found = Vec::new();
        for function in cfipack_cfi::Functions::new(&section.cfi()) {
            if let Err(cfipack_cfi::Error::Range { offset, start, .. }) = function
                && !self.section_addresses().is_loaded(start)
            {
                found.push(Excluded { fde: offset, reason: self.not_loaded(start) });
            }
        }
        section.exclude(found);
    }

    /// Finds the FDEs to exclude among FDEs of `.debug_frame` with the same start. Returns them by section.
    ///
    /// Linkers leave the FDEs of discarded functions in the file. Their start is 0, and in firmware there may be code
    /// at 0. When linkers fold equal functions, or keep only one copy of a group, then all FDEs get the start of the
    /// copy that stays.
    fn superfluous(&self, sections: &[CallFrameSection<'a>]) -> Vec<(usize, Excluded)> {
        let several = shared_starts(sections);
        if several.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (index, section) in sections.iter().enumerate().filter(|(_, section)| !is_eh_frame(section)) {
            for function in cfipack_cfi::Functions::new(&section.cfi()).flatten() {
                if function.size != 0 && several.binary_search(&function.key.address()).is_ok() {
                    found.push((index, function));
                }
            }
        }
        found.sort_by_key(|(_, function)| function.key.address());
        let mut symbols = None;
        let mut superfluous = Vec::new();
        for group in found.chunk_by(|(_, a), (_, b)| a.start == b.start) {
            superfluous.extend(superfluous_of(group, || {
                // If the symbols cannot be read, all FDEs count.
                let symbols = symbols.get_or_insert_with(|| self.symbols().ok());
                symbols.as_ref().map(|symbols| symbols.sizes_of_functions(group[0].1.key.address()))
            }));
        }
        superfluous.sort_unstable();
        superfluous
    }

    fn code_at_zero(&self) -> CodeAtZero {
        let endian = self.headers.endian;
        let is_code = self.headers.sections.iter().any(|header| {
            let is_code = header.sh_flags(endian).contains(SHF_ALLOC | SHF_EXECINSTR);
            is_code && header.sh_addr(endian) == 0 && header.sh_size(endian) != 0
        });
        if is_code {
            return CodeAtZero::Any;
        }
        let symbols = self.symbols().ok();
        CodeAtZero::OfSizes(symbols.map(|symbols| symbols.sizes_of_functions(Address(0))).unwrap_or_default())
    }
}

/// The code that a linked file can have at address 0.
enum CodeAtZero {
    /// A section of code lies at 0.
    Any,
    /// No section of code lies at 0, but function symbols with these sizes in bytes do.
    OfSizes(HashSet<u64>),
}

impl CodeAtZero {
    fn may_be(&self, function: &Function<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::OfSizes(sizes) => sizes.contains(&function.size),
        }
    }
}

fn is_eh_frame(section: &CallFrameSection<'_>) -> bool {
    section.kind == SectionKind::EhFrame
}

/// Returns the starts of a section's functions that are not empty.
fn starts(section: &CallFrameSection<'_>) -> Vec<Address> {
    let functions = cfipack_cfi::Functions::new(&section.cfi()).flatten();
    functions.filter(|function| function.size != 0).map(|function| function.key.address()).collect()
}

/// Returns the starts that several functions of `.debug_frame` share, ascending.
fn shared_starts(sections: &[CallFrameSection<'_>]) -> Vec<Address> {
    let debug_frames = sections.iter().filter(|section| !is_eh_frame(section));
    let mut all: Vec<_> = debug_frames.flat_map(starts).collect();
    all.sort_unstable();
    let mut several: Vec<_> = all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    several.dedup();
    several
}

/// Decides which FDEs in a group with the same start do not count.
///
/// An FDE that repeats another FDE does not count. If different FDEs remain, only an FDE counts whose size is
/// the size of a function symbol at the start (`sizes`). If no symbol decides, all of them count, and the
/// verifier leaves the function unjudged.
fn superfluous_of(
    group: &[(usize, Function<'_>)],
    sizes: impl FnOnce() -> Option<HashSet<u64>>,
) -> Vec<(usize, Excluded)> {
    let mut seen = HashSet::new();
    let (different, repeated): (Vec<_>, Vec<_>) =
        group.iter().partition(|(_, function)| seen.insert(rows_and_size(function)));
    let mut discarded = Vec::new();
    if different.len() > 1
        && let Some(sizes) = sizes()
    {
        let (named, others): (Vec<_>, Vec<_>) =
            different.into_iter().partition(|(_, function)| sizes.contains(&function.size));
        if !named.is_empty() {
            discarded = others;
        }
    }
    let repeated = repeated.into_iter().map(|found| (found, Exclusion::Repeated));
    let discarded = discarded.into_iter().map(|found| (found, Exclusion::Discarded));
    repeated
        .chain(discarded)
        .map(|((section, function), reason)| (section, Excluded { fde: function.fde, reason }))
        .collect()
}

/// Returns everything that an FDE says about the code at its start, including the content of its CIE.
fn rows_and_size<'f>(function: &Function<'f>) -> impl Eq + Hash + use<'f> {
    let cie = function.cie;
    let of_cie = (cie.augmentation, cie.code_alignment, cie.data_alignment, cie.return_address);
    (function.size, function.instructions, cie.instructions, of_cie)
}
