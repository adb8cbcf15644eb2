//! FDEs that describe no function of their own, counted by reason.

use std::collections::BTreeMap;
use std::fmt;

use cfipack_cfi::{Exclusion, SectionKind};
use cfipack_container::{CallFrameSection, File, Kind};
use cfipack_format::widen::ToU64;

use crate::report::count::Number;
use crate::report::reasons;

/// The number of excluded FDEs by the reason's name.
pub type Excluded = BTreeMap<&'static str, u64>;

/// Counts the excluded FDEs of sections.
pub fn count(sections: &[CallFrameSection<'_>]) -> Excluded {
    let mut counts = Excluded::new();
    for excluded in sections.iter().flat_map(|section| &section.excluded) {
        *counts.entry(excluded.reason.name()).or_default() += 1;
    }
    counts
}

/// Returns the line of a report about excluded FDEs, if there are any.
pub fn line(excluded: &Excluded) -> Option<String> {
    let all = Number(excluded.values().sum(), "FDE");
    reasons::list(excluded).map(|reasons| format!("  excluded: {all}: {reasons}"))
}

/// The FDEs of unknown functions in a file's sections of the same kind. No linker discarded these functions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Unplaced {
    section: &'static str,
    /// The number of FDEs, or 0 for any number.
    fdes: u64,
    is_relocatable: bool,
}

impl Unplaced {
    /// Counts the FDEs of sections.
    pub fn of(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> Vec<Self> {
        let kinds = [(SectionKind::EhFrame, ".eh_frame"), (SectionKind::DebugFrame, ".debug_frame")];
        let of_kind = kinds.map(|(kind, section)| {
            let excluded = sections.iter().filter(|section| section.kind == kind).flat_map(|s| &s.excluded);
            let fdes = excluded.filter(|excluded| excluded.reason == Exclusion::Unplaced).count().to_u64();
            Self { section, fdes, is_relocatable: file.kind() == Kind::Relocatable }
        });
        of_kind.into_iter().filter(|unplaced| unplaced.fdes != 0).collect()
    }

    /// Returns the same without a number, to count files.
    pub fn of_any_number(self) -> Self {
        Self { fdes: 0, ..self }
    }
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { section, fdes, is_relocatable } = *self;
        let fdes = if fdes == 0 { "FDEs".into() } else { Number(fdes, "FDE").to_string() };
        write!(f, "section {section}: {fdes} of unknown functions: ")?;
        f.write_str(if is_relocatable {
            "no relocation is where they start (strip removes relocations), or their layout is not DWARF's"
        } else {
            "they start with no address of the file, so their layout is not DWARF's"
        })
    }
}
