//! Sizes of a file's sections of call frame information.

use std::fmt;

use cfipack_cfi::SectionKind;
use cfipack_container::{CallFrameSection, File};
use cfipack_format::widen::ToU64;
use serde::Serialize;

/// The size of each section of call frame information, in bytes.
#[derive(Clone, Copy, Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CfiBytes {
    eh_frame: u64,
    eh_frame_hdr: u64,
    debug_frame: u64,
}

/// The sizes of a table and of its CFI, in bytes.
#[derive(Clone, Copy, Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TableBytes {
    /// The size of the table.
    pub sframe: u64,
    /// The sizes of the sections of CFI.
    #[serde(flatten)]
    pub cfi: CfiBytes,
}

impl CfiBytes {
    /// Measures `sections` and the index `.eh_frame_hdr`.
    pub fn measure(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> anyhow::Result<Self> {
        let of_kind = |kind| {
            let sections =
                sections.iter().filter(|section| section.kind == kind && !section.is_superfluous());
            sections.map(|section| section.section.bytes.len().to_u64()).sum()
        };
        Ok(Self {
            eh_frame: of_kind(SectionKind::EhFrame),
            eh_frame_hdr: file.as_elf().map_or(0, |elf| elf.eh_frame_hdr_size()),
            debug_frame: of_kind(SectionKind::DebugFrame),
        })
    }

    /// Returns the sum of the sizes.
    pub fn total(&self) -> u64 {
        self.eh_frame + self.eh_frame_hdr + self.debug_frame
    }
}

impl fmt::Display for CfiBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { eh_frame, eh_frame_hdr, debug_frame } = *self;
        let parts = [(".eh_frame", eh_frame), (".eh_frame_hdr", eh_frame_hdr), (".debug_frame", debug_frame)];
        let mut separator = "";
        for (name, size) in parts.into_iter().filter(|&(_, size)| size != 0) {
            write!(f, "{separator}{name} ({size})")?;
            separator = " and ";
        }
        Ok(())
    }
}
