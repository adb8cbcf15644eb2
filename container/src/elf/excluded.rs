//! FDEs that describe no function of their own: found and listed beside the section, whose bytes stay as they
//! are.

use cfipack_cfi::{Excluded, Exclusion, Function, Functions};
use cfipack_format::widen::ToU64;

use super::file::Elf;
use crate::error::Error;
use crate::section::CallFrameSection;

impl Elf<'_> {
    /// Lists what a linker left in a section of a relocatable object of functions in groups that it discarded:
    /// of their FDEs, lld and mold keep the bytes, and the relocation of the start names nothing.
    pub(super) fn exclude_discarded(&self, section: &mut CallFrameSection<'_>) -> Result<(), Error> {
        let Some(index) = section.section.index else { return Ok(()) };
        let fields = self.relocation_index.defined_fields(&self.headers, index, &section.section.bytes)?;
        let is_kept =
            |function: &Function<'_>| fields.binary_search(&function.start_field.0.to_u64()).is_ok();
        section.exclude_where(|function| (!is_kept(function)).then_some(Exclusion::Discarded));
        Ok(())
    }
}

impl CallFrameSection<'_> {
    /// Adds to the list every FDE that counts so far and for which `reason` gives one.
    pub(super) fn exclude_where(&mut self, mut reason: impl FnMut(&Function<'_>) -> Option<Exclusion>) {
        let functions = Functions::new(&self.cfi()).flatten();
        let found = functions
            .filter_map(|function| Some(Excluded { fde: function.fde, reason: reason(&function)? }))
            .collect::<Vec<_>>();
        self.exclude(found);
    }

    /// Adds FDEs to the list.
    pub(super) fn exclude(&mut self, found: impl IntoIterator<Item = Excluded>) {
        self.excluded.extend(found);
        self.excluded.sort_unstable();
    }
}
