//! Why a function is not in a table: asked of the encoder, which is the one that leaves functions out.

use cfipack_encoder::sframe::{Builder, Layout, Options};
use cfipack_encoder::{Reason, Unsupported};
use cfipack_format::cfi;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, SectionOffset};

/// Finds out what stood in the way of functions.
///
/// Where it is not known what made the table, only what no table of its version can say is a reason: what one
/// could say is not in the table for reasons of its maker's.
#[derive(Debug)]
pub(crate) struct Reasons<'a> {
    options: Options,
    /// None for an architecture that the format does not have.
    builder: Option<Builder<'a>>,
    asked: u32,
}

/// A builder keeps what it takes, and a new one costs as much as 100 functions: a new one after this many.
const FUNCTIONS_PER_BUILDER: u32 = 4096;

impl<'a> Reasons<'a> {
    /// Reasons for functions of `arch`, in a table that was made with these options.
    pub(crate) fn new(arch: Arch, options: Options) -> Self {
        Self { options, builder: Builder::new(arch, options).ok(), asked: 0 }
    }

    /// The options that leave out the fewest functions of a table of this version.
    pub(crate) fn best(version: Version) -> Options {
        Options { version, layout: Layout::Small, flex: true, ..Options::default() }
    }

    /// What stood in the way of the function whose FDE is at an offset, if anything did.
    pub(crate) fn of(&mut self, section: &cfi::Section<'a>, fde: SectionOffset) -> Option<Unsupported> {
        self.asked += 1;
        if self.asked == FUNCTIONS_PER_BUILDER {
            *self = Self::new(section.arch, self.options);
        }
        let behind = SectionOffset(fde.0.saturating_add(1));
        let function = cfipack_cfi::Functions::between(section, fde, behind).next()?.ok()?;
        let Some(builder) = &mut self.builder else {
            return Some(Unsupported::function(function.key, Reason::Architecture));
        };
        builder.push(&function).err()
    }
}

/// Whether a table of this version, at this address, cannot reach a function: version 2 stores starts in 32 bits.
pub(crate) fn too_far(version: Version, table: Option<Address>, function: Address) -> Option<Unsupported> {
    let distance = function.distance_from(table.filter(|_| version != Version::V3)?);
    let is_far = i32::try_from(distance).is_err();
    is_far.then_some(Unsupported::function(function.into(), Reason::StartTooFar(distance)))
}
