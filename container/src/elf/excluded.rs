//! Lists FDEs that do not count. The bytes of the section stay as they are.

use cfipack_cfi::{Excluded, Exclusion, Function, Functions};
use cfipack_format::widen::ToU64;

use super::file::Elf;
use crate::error::Error;
use crate::section::CallFrameSection;

impl Elf<'_> {
    /// Lists FDEs in a relocatable object for functions in groups that the linker discarded. After `-r`, lld and mold
    /// keep the bytes of these FDEs, but their starts have no relocation that leads to a section.
    pub(super) fn exclude_discarded(&self, section: &mut CallFrameSection<'_>) -> Result<(), Error> {
        let Some(index) = section.section.index else { return Ok(()) };
        let fields = self.relocation_index.defined_fields(&self.headers, index, &section.section.bytes)?;
        section.exclude_where(|function| {
            let is_kept = fields.binary_search(&function.start_field.0.to_u64()).is_ok();
            (!is_kept).then_some(Exclusion::Discarded)
        });
        Ok(())
    }
}

impl CallFrameSection<'_> {
    /// Adds every FDE to the list for which `reason` returns a reason.
    pub(super) fn exclude_where(&mut self, mut reason: impl FnMut(&Function<'_>) -> Option<Exclusion>) {
        let functions = Functions::new(&self.cfi()).flatten();
        let found = functions
            .filter_map(|function| Some(Excluded { fde: function.fde, reason: reason(&function)? }))
            .collect::<Vec<_>>();
        self.exclude(found);
    }

    /// Adds FDEs to the list and keeps it sorted.
    pub(super) fn exclude(&mut self, found: impl IntoIterator<Item = Excluded>) {
        self.excluded.extend(found);
        self.excluded.sort_unstable();
    }
}
