//! The unfinished table of a builder.

use cfipack_format::sframe::Abi;

use crate::Reason;
use crate::sframe::options::Options;
use crate::sframe::rows::fres::Fres;
use crate::sframe::table::block::Blocks;
use crate::sframe::table::by_key::ByKey;
use crate::sframe::table::entries::Entries;

/// An unfinished table: its functions, and the rows of the next function.
#[derive(Clone, Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) abi: Abi,
    pub(crate) options: Options,
    /// The FREs of functions that have no block yet.
    pub(crate) fres: Fres,
    pub(crate) entries: Entries<'a>,
    pub(crate) by_key: ByKey,
}

impl Draft<'_> {
    /// Creates a table without functions. If `seed` is `None`, the table chooses a seed itself.
    pub(super) fn new(abi: Abi, options: Options, seed: Option<u64>) -> Self {
        let fres = Fres::new(abi.arch().endian(), options.few);
        let seed = seed.unwrap_or_else(|| fres.seed());
        let entries = Entries::new(Blocks::new(options, abi.arch().endian(), seed));
        Self { abi, options, fres, entries, by_key: ByKey::default() }
    }

    /// Allocates memory for `functions` functions, and for `index` bytes before the rows.
    pub(super) fn reserve_after(&mut self, index: usize, functions: usize, fre_bytes: Option<usize>) {
        // The size of a typical block in bytes.
        const TYPICAL_SIZE: usize = 64;
        let Entries { list, blocks, .. } = &mut self.entries;
        list.reserve(functions);
        // In a large program, somewhat less than two thirds of the functions share a block.
        let distinct = functions / 5 * 2;
        let is_exact = fre_bytes.is_some() && blocks.index.is_none();
        let fre_bytes = fre_bytes.unwrap_or(distinct * TYPICAL_SIZE);
        blocks.reserve(index, if is_exact { functions } else { distinct }, fre_bytes);
    }

    /// Checks that a function can be added. `have_addresses` is true if the function has an address.
    #[inline]
    pub(super) fn can_take(&self, have_addresses: bool) -> Result<(), Reason> {
        match self.entries.have_addresses {
            Some(others) if others != have_addresses => Err(Reason::KeysMixed),
            _ if !have_addresses && self.options.merges() => Err(Reason::PlaceUnknown),
            _ => Ok(()),
        }
    }

    /// Finds or adds the blocks of the last functions, which are looked up together.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.entries.settle();
        self.entries.flush(&mut self.fres);
    }

    /// Returns the current end of the table, for [`back_to`](Self::back_to).
    pub(super) fn mark(&mut self) -> (usize, u64) {
        self.entries.settle();
        self.entries.mark()
    }

    /// Removes the functions that were added since `mark`.
    #[cold]
    pub(super) fn back_to(&mut self, mark: (usize, u64)) {
        self.entries.back_to(mark, &mut self.fres);
    }
}
