//! The options of [`Builder::finish_with`](super::Builder::finish_with).

use core::fmt;

use cfipack_format::pool::{Pool, Serial};

/// How a [`Builder`](super::Builder) finishes its section: on which threads, and whether keys are places.
#[derive(Clone, Copy)]
pub struct Finish<'p> {
    pub(crate) pool: &'p dyn Pool,
    pub(crate) placed_keys: bool,
}

impl<'p> Finish<'p> {
    /// Finishes on the caller's thread. Keys are not places.
    pub const fn new() -> Self {
        Self::on(&Serial)
    }

    /// Finishes on the threads of a pool. Keys are not places.
    pub const fn on(pool: &'p dyn Pool) -> Self {
        Self { pool, placed_keys: false }
    }

    /// Sets whether the keys of functions without addresses are places. If two keys are closer than the size of
    /// the first function, then the two functions must lie exactly that far apart. The builder can then
    /// separate functions that share PCs by their keys. For example, shift the number of an input section left
    /// by 32 bits, and add the function's offset in the section.
    ///
    /// Layout `Gnu` then also leaves each PC to a single function. [`Section::write`](super::Section::write)
    /// still omits entries that share PCs after the layout.
    #[must_use]
    pub const fn with_placed_keys(self, placed_keys: bool) -> Self {
        Self { placed_keys, ..self }
    }
}

impl Default for Finish<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Finish<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, placed_keys } = self;
        f.debug_struct("Finish").field("threads", &pool.threads()).field("placed_keys", placed_keys).finish()
    }
}
