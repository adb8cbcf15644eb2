//! Functions taken out of a copy of call frame information, in which all other records stay where they are.

use cfipack_cfi::{Function, SectionKind};
use cfipack_format::SectionOffset;

use super::Elf;
use crate::{CallFrameSection, Error};

impl Elf<'_> {
    /// Takes out of a section of a relocatable object what a linker left of functions in groups that it
    /// discarded: of their FDEs, lld and mold keep the bytes, and the relocation of the start names nothing.
    pub(super) fn take_out_discarded(&self, section: &mut CallFrameSection<'_>) -> Result<(), Error> {
        let Some(index) = section.section.index else { return Ok(()) };
        let fields = self.relocation_index.defined_fields(&self.headers, index, &section.section.bytes)?;
        let is_kept =
            |function: &Function<'_>| fields.binary_search(&(function.start_field.0 as u64)).is_ok();
        let (discarded, _) = others(section, is_kept);
        discarded.into_iter().for_each(|fde| take_out(section, fde));
        Ok(())
    }
}

/// Where the FDEs of a section are for which something does not hold, and whether there are others or
/// some that cannot be read.
pub(super) fn others(
    section: &CallFrameSection<'_>,
    mut is_kept: impl FnMut(&Function<'_>) -> bool,
) -> (Vec<SectionOffset>, bool) {
    let (mut others, mut any) = (Vec::new(), false);
    for function in cfipack_cfi::Functions::new(&section.cfi()) {
        match function {
            Ok(function) if !is_kept(&function) => others.push(function.fde),
            _ => any = true,
        }
    }
    (others, any)
}

/// Makes an FDE look like a CIE, which nothing refers to.
pub(super) fn take_out(section: &mut CallFrameSection<'_>, fde: SectionOffset) {
    let kind = section.kind;
    let record = &mut section.section.bytes.to_mut()[fde.0..];
    let is_64_bit = record.starts_with(&[0xff; 4]);
    let id = match (kind, is_64_bit) {
        (SectionKind::DebugFrame, true) => 12..20,
        (_, true) => 12..16,
        (_, false) => 4..8,
    };
    record[id].fill(if kind == SectionKind::DebugFrame { 0xff } else { 0 });
}
