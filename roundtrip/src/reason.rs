//! Why a function is not in a table: asked of the encoder, which is the one that leaves functions out.

use cfipack_encoder::Unsupported;
use cfipack_encoder::cfi;
use cfipack_encoder::sframe::{Builder, Layout, Options};
use cfipack_format::{Arch, SectionOffset};

/// Finds out what stood in the way of functions.
///
/// Who made the table is not known: of the ways to write it, the one that can say the most is asked
/// first, then one without flex FDEs (version 2 has none), then layout `gnu`, which leaves out what gas
/// leaves out.
#[derive(Debug)]
pub(crate) struct Reasons<'a> {
    builders: [Builder<'a>; 3],
    asked: u32,
}

/// A builder keeps what it takes, and a new one costs as much as 100 functions: a new one after this many.
const FUNCTIONS_PER_BUILDER: u32 = 4096;

impl<'a> Reasons<'a> {
    /// Reasons for functions of `arch`.
    pub(crate) fn new(arch: Arch) -> Self {
        let ways = [(Layout::Small, true), (Layout::Small, false), (Layout::Gnu, true)];
        let builders =
            ways.map(|(layout, flex)| Builder::new(arch, Options { layout, flex, ..Options::default() }));
        Self { builders, asked: 0 }
    }

    /// What stood in the way of the function whose FDE is at an offset, if anything did.
    pub(crate) fn of(&mut self, section: &cfi::Section<'a>, fde: SectionOffset) -> Option<Unsupported> {
        self.asked += 1;
        if self.asked == FUNCTIONS_PER_BUILDER {
            *self = Self::new(section.arch);
        }
        let behind = SectionOffset(fde.0.saturating_add(1));
        let function = section.functions_between(fde, behind).next()?.ok()?;
        self.builders.iter_mut().find_map(|builder| builder.push(&function).err())
    }
}
