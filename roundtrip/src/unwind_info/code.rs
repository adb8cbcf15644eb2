//! The code that the entries of a table describe.

use cfipack_format::Address;
use cfipack_format::widen::ToU64;

/// Sections of code, by address.
#[derive(Clone, Debug, Default)]
pub struct Code<'a> {
    sections: Vec<(Address, &'a [u8])>,
}

impl<'a> Code<'a> {
    /// Takes sections of code in any order, each with the address of its first byte.
    pub fn new(sections: impl IntoIterator<Item = (Address, &'a [u8])>) -> Self {
        let mut sections: Vec<_> = sections.into_iter().collect();
        sections.sort_by_key(|section| section.0);
        Self { sections }
    }

    /// Returns the end of the last section, or `None` if there is no code.
    pub(super) fn end(&self) -> Option<Address> {
        self.sections.iter().map(|(start, bytes)| Address(start.0.saturating_add(bytes.len().to_u64()))).max()
    }

    /// Returns the code from an address to the end of its section. Returns an empty slice if there is no code.
    pub fn starting_at(&self, address: Address) -> &'a [u8] {
        let after = self.sections.partition_point(|section| section.0 <= address);
        let Some((start, bytes)) = after.checked_sub(1).and_then(|i| self.sections.get(i)) else {
            return &[];
        };
        let offset = usize::try_from(address.0 - start.0).unwrap_or(usize::MAX);
        bytes.get(offset..).unwrap_or_default()
    }
}
