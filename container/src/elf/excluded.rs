//! Lists FDEs that do not count. The bytes of the section stay as they are.

use cfipack_cfi::{Excluded, Exclusion, Function, Functions, SectionKind};
use cfipack_format::widen::ToU64;

use super::file::Elf;
use crate::error::Error;
use crate::section::CallFrameSection;

impl Elf<'_> {
    /// Lists FDEs in a relocatable object whose starts have no relocation that leads to a section. After `-r`, lld and
    /// mold keep the bytes of the FDEs of discarded groups, without this relocation.
    ///
    /// In two cases the function is unknown instead. Without any relocation of a section, `strip` has removed all of
    /// them, or a compiler wrote none. In `.debug_frame`, a relocation inside the first two fields shows another layout,
    /// for example that of Free Pascal 3.2, whose CIE pointers have 8 bytes.
    pub(super) fn exclude_discarded(&self, section: &mut CallFrameSection<'_>) -> Result<(), Error> {
        let Some(index) = section.section.index else { return Ok(()) };
        let fields = self.relocation_index.defined_fields(&self.headers, index, &section.section.bytes)?;
        let fields_len = match section.kind {
            SectionKind::EhFrame => 0,
            SectionKind::DebugFrame => 2 * u64::from(section.arch.pointer_size()),
        };
        section.exclude_where(|function| {
            let start = function.start_field.0.to_u64();
            let next = fields.partition_point(|&field| field < start);
            match fields.get(next) {
                Some(&field) if field == start => None,
                Some(&field) if field < start + fields_len => Some(Exclusion::Unplaced),
                _ if fields.is_empty() => Some(Exclusion::Unplaced),
                _ => Some(Exclusion::Discarded),
            }
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
