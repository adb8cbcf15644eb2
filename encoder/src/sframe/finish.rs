//! Options of the end of a section.

use core::fmt;

use cfipack_format::pool::{Pool, Serial};

/// The end of a [`Builder`](super::Builder)'s section: on which threads, and whether keys are places.
#[derive(Clone, Copy)]
pub struct Finish<'p> {
    pub(crate) pool: &'p dyn Pool,
    pub(crate) placed_keys: bool,
}

impl<'p> Finish<'p> {
    /// On the caller's thread; keys mean nothing.
    pub const fn new() -> Self {
        Self::on(&Serial)
    }

    /// On the threads of a pool; keys mean nothing.
    pub const fn on(pool: &'p dyn Pool) -> Self {
        Self { pool, placed_keys: false }
    }

    /// Sets whether the keys of functions without addresses lie as the functions will: where two keys are less apart than the
    /// first one's function has bytes, the functions are as far apart. Functions that share PCs are told apart by their
    /// keys then. Such a key is the number of an input section shifted left by 32 bits, plus the function's offset in
    /// the section.
    ///
    /// In layout `Gnu` too each PC is left to one function then. [`Section::write`](super::Section::write) omits entries
    /// that share PCs all the same.
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
