//! Functions that the verifier cannot judge. A conversion omits them, so that the rest of its table can be verified.

use cfipack_cfi::{self as cfi, Excluded, Exclusion};
use cfipack_container::{CallFrameSection, File};
use cfipack_encoder::sframe::{Builder, Options};
use cfipack_format::{Reason, SectionOffset, Unsupported};
use cfipack_roundtrip::cfi::unjudged;

use crate::report::place::Places;

/// The functions of a file that the verifier cannot judge.
#[derive(Default)]
pub struct Unjudged<'a> {
    /// The sections of the file without these functions, or nothing if there are no such functions.
    pub excluded: Vec<CallFrameSection<'a>>,
    /// The functions. Most have [`Reason::Unjudged`], and the others a reason of the encoder.
    pub omitted: Vec<Unsupported>,
    /// The number of functions of `omitted` whose CFI DWARF does not define.
    pub outside_dwarf: u64,
    /// The name and the verifier's reason of each function that the encoder would take.
    pub lines: Vec<String>,
}

impl<'a> Unjudged<'a> {
    /// Finds the functions. FDEs that the conversion cannot read either are not among them.
    pub fn find(
        file: &File<'_>,
        sections: &[CallFrameSection<'a>],
        options: Options,
    ) -> anyhow::Result<Self> {
        let all: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
        let found = unjudged(&all);
        if found.is_empty() {
            return Ok(Self::default());
        }
        let places = Places::new(file);
        let mut encoder = Builder::new(file.arch(), options)?;
        let mut this = Self { excluded: sections.to_vec(), ..Self::default() };
        for unjudged in found {
            let fde = unjudged.fde;
            let after = SectionOffset(fde.0.saturating_add(1));
            let function = cfi::Functions::between(&all[unjudged.section], fde, after).next();
            let Some(Ok(function)) = function else { continue };
            this.excluded[unjudged.section].excluded.push(Excluded { fde, reason: Exclusion::Unjudged });
            if let Err(unsupported) = encoder.push(&function) {
                this.omitted.push(unsupported);
                continue;
            }
            this.omitted.push(Unsupported::function(function.key, Reason::Unjudged));
            let name = places.name(function.key.address());
            this.lines.push(format!("{name}: omitted, because it cannot be verified: {}", unjudged.reason));
        }
        this.outside_dwarf = encoder.undefined_cfi();
        for section in &mut this.excluded {
            section.excluded.sort();
        }
        Ok(this)
    }
}
