//! Adds common functions to a section.

use cfipack_format::Key;
use cfipack_format::sframe::FdeType;

use crate::cfi::{Code, PlainFde};
use crate::sframe::builder::Builder;
use crate::sframe::fast::memo::Remembered;
use crate::sframe::table::wide_attribute::WideAttribute;

impl Builder<'_> {
    /// Adds the function of a plain FDE if it is common, and remembers its rows. `code` are its instructions, in the
    /// section that the memo has begun. Returns whether the function was added.
    #[inline(never)]
    pub(crate) fn push_plain(&mut self, cie: u8, fde: &PlainFde, code: &Code<'_>) -> bool {
        let Some((end, rows)) = self.push_common(cie, fde.key, code, fde.size) else { return false };
        if end < fde.size.into() {
            self.machines.memo.remember(cie, code, end, rows);
        }
        true
    }

    /// Adds a function if it is common. Returns the location after the function's last advance, and its rows.
    #[inline]
    pub(crate) fn push_common(
        &mut self,
        cie: u8,
        function: Key,
        code: &Code<'_>,
        size: u32,
    ) -> Option<(u64, Remembered)> {
        self.draft.flush();
        let (end, attribute) = self.run_common(cie, code, size)?;
        let (fres, blocks) = (&self.draft.fres, &mut self.draft.entries.blocks);
        let (place, num_fres) = (fres.block(blocks.version()), fres.count());
        let block = blocks.find_or_add(fres.tail(place), place.len, attribute)?;
        self.draft.entries.push(function.0, size, block, num_fres);
        Some((end, Remembered { block, num_fres }))
    }

    /// Puts the FREs of a function into the buffer if it is common. Returns the location after the function's
    /// last advance, and the attribute.
    #[inline(always)]
    fn run_common(&mut self, cie: u8, code: &Code<'_>, size: u32) -> Option<(u64, WideAttribute)> {
        if size == 0 {
            return None;
        }
        let common = self.machines.cies.common(cie)?;
        let end = self.machines.common.run(common, code, size, &mut self.draft.fres)?;
        let attribute =
            self.draft.entries.blocks.begin_block(&mut self.draft.fres, common.info, FdeType::Default, 0);
        Some((end, attribute))
    }
}
