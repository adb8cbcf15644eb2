//! The reader of a registry.

use alloc::sync::Arc;

use cfipack_decoder::sframe::Frame;
use cfipack_format::{Address, Arch};

use super::arenas::Arenas;
use super::{block, tree};

/// A reader of a [`Registry`](super::Registry), of which any number may exist, in any threads.
///
/// It stays valid when the registry is dropped, and finds nothing from then on. A clone shares the memory; dropping the last
/// of a registry's readers frees it, which is not for signal handlers.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) arch: Arch,
    pub(super) arenas: Arc<Arenas>,
}

impl Reader {
    /// The architecture of the code, which [`step`](cfipack_decoder::sframe::step) takes beside a row.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Finds the row for a PC. None if the PC is in no registered function, or in one that was
    /// [omitted](super::Registry::add).
    ///
    /// It answers as at one moment between its call and its return: with a region from the return of
    /// [`add`](super::Registry::add) on, without one from the return of [`remove`](super::Registry::remove) on.
    ///
    /// Async-signal-safe: it neither waits, locks, allocates nor uses variables of threads, also in a handler that
    /// interrupts a call of the registry in the same thread. While another thread replaces the whole memory it may look
    /// twice.
    #[inline]
    pub fn lookup(&self, pc: Address) -> Option<Frame> {
        self.arenas.read(|words| {
            let (base, at) = tree::find(words, pc.0)?;
            block::lookup(words.get(usize::try_from(at).ok()?..)?, pc.0 - base)
        })
    }
}
