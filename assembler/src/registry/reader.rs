//! The reader of a registry.

use alloc::sync::Arc;

use cfipack_decoder::sframe::Frame;
use cfipack_format::{Address, Arch};

use super::arenas::Arenas;
use super::{block, tree};

/// Finds rows in a [`Registry`](super::Registry). You can have any number of readers, in any threads.
///
/// A reader stays valid after the registry is dropped, but finds nothing. Clones share the memory. Dropping the
/// last reader of a dropped registry frees the memory, so do not drop readers in a signal handler.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) arch: Arch,
    pub(super) arenas: Arc<Arenas>,
}

impl Reader {
    /// Returns the architecture of the code. [`step`](cfipack_decoder::sframe::step) needs it together with a
    /// row.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Finds the row for a PC. Returns `None` if the PC is in no registered function, or in a function that was
    /// [omitted](super::Registry::add).
    ///
    /// The answer is true at some moment between the call and the return of this function. A region is found
    /// after [`add`](super::Registry::add) has returned, and not found after
    /// [`remove`](super::Registry::remove) has returned.
    ///
    /// This function is async-signal-safe: it does not wait, block on a lock, allocate, or use thread-local
    /// variables. You can call it even in a handler that interrupts a call of the registry in the same thread.
    /// While another thread replaces the whole memory, it may look twice.
    ///
    /// A lookup may never end: its thread may be stopped, or the process forks, and the thread does not exist in
    /// the child. No other lookup and no change of the registry waits for it. See
    /// [`Registry`](super::Registry#forks).
    #[inline]
    pub fn lookup(&self, pc: Address) -> Option<Frame> {
        self.arenas.read(|words| {
            let (base, at) = tree::find(words, pc.0)?;
            block::lookup(words.get(usize::try_from(at).ok()?..)?, pc.0.checked_sub(base)?)
        })
    }
}
