//! Why a function is not in a table: asked of the encoder, which is the one that leaves functions out.

use cfipack_encoder::Unsupported;
use cfipack_encoder::cfi::{self, Function};
use cfipack_encoder::sframe::{Builder, Layout, Options};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, SectionOffset};

/// What stands in the way of a function, for each way to write it. `None`: nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// First address of the function.
    pub start: Address,
    /// One past its last address.
    pub end: Address,
    /// Where its FDE starts.
    pub fde: SectionOffset,
    /// With all that version 3 has.
    pub version_3: Option<Unsupported>,
    /// Without flex FDEs; version 2 has none.
    pub without_flex: Option<Unsupported>,
    /// In layout `gnu`, which leaves out what gas leaves out.
    pub gnu: Option<Unsupported>,
}

impl Explanation {
    /// Explains a function.
    pub fn of(function: &Function<'_>) -> Self {
        let refused = |layout, flex| {
            let options = Options { version: Version::V3, layout, flex, merge_functions: 0 };
            Builder::new(function.arch(), options).push(function).err()
        };
        Self {
            start: function.start,
            end: function.end(),
            fde: function.fde,
            version_3: refused(Layout::Small, true),
            without_flex: refused(Layout::Small, false),
            gnu: refused(Layout::Gnu, true),
        }
    }

    /// The first thing that stands in the way.
    pub fn first(&self) -> Option<Unsupported> {
        self.version_3.or(self.without_flex).or(self.gnu)
    }

    /// The name under which a function is counted that a table does not have.
    pub(crate) fn reason(&self) -> &'static str {
        self.first().map_or(NOT_IN_THE_TABLE, |unsupported| unsupported.reason.name())
    }
}

/// A function that could be in the table and is not.
pub(crate) const NOT_IN_THE_TABLE: &str = "not-in-the-table";

/// Explains the function of the FDE at an offset; `None` if the encoder cannot read it.
pub(crate) fn explain_fde(section: &cfi::Section<'_>, fde: SectionOffset) -> Option<Explanation> {
    let next = SectionOffset(fde.0.saturating_add(1));
    let function = section.functions_between(fde, next).next()?.ok()?;
    Some(Explanation::of(&function))
}

/// Explains the functions that have an address, most often one; all functions for `None`. Functions that
/// the encoder cannot read are passed over.
pub fn explain(sections: &[cfi::Section<'_>], address: Option<Address>) -> impl Iterator<Item = Explanation> {
    let functions = sections.iter().flat_map(|section| section.functions()).flatten();
    functions
        .filter(move |function| {
            address.is_none_or(|address| {
                let offset = address.0.wrapping_sub(function.start.0);
                offset < function.size || address == function.start
            })
        })
        .map(|function| Explanation::of(&function))
}
