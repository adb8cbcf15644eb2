//! Converts a file to a table as users of the library do it.

use std::borrow::Borrow;
use std::collections::HashMap;

use cfipack_cfi as cfi;
use cfipack_container::CallFrameSection;
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{self, Builder, Layout, OmittedFunction, Options, Parallel};
use cfipack_format::Unsupported;
use cfipack_format::pool::Serial;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Key};
use cfipack_roundtrip::{Report, Table, verify_with_reasons};

/// A table, and everything that is not in it.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The section.
    pub bytes: Vec<u8>,
    /// The address of the table.
    pub address: Address,
    /// Functions that the table cannot represent.
    pub omitted: Vec<Unsupported>,
    /// Functions that the table cannot distinguish from others.
    pub ambiguous: Vec<Unsupported>,
    /// FDEs that cannot be read.
    pub malformed: Vec<cfi::Error>,
    /// FDEs of the CFI.
    pub functions: usize,
}

/// Returns the options of both layouts in both versions.
pub fn all_options() -> impl Iterator<Item = Options> {
    Layout::ALL.into_iter().flat_map(|layout| {
        [Version::V3, Version::V2].map(|version| Options::new().with_layout(layout).with_version(version))
    })
}

/// Collects the functions of some sections. Returns refused functions and unreadable FDEs too.
pub fn build<'a>(
    sections: impl IntoIterator<Item = cfi::Section<'a>>,
    arch: Arch,
    options: Options,
) -> (sframe::Section<'a>, Vec<Unsupported>, Vec<cfi::Error>) {
    let mut builder = Builder::new(arch, options).expect("an architecture of the format");
    let (mut omitted, mut malformed) = (Vec::new(), Vec::new());
    for section in sections {
        let omit = |function| match function {
            OmittedFunction::Unsupported(reason) => omitted.push(reason),
            OmittedFunction::Malformed(error) => malformed.push(error),
        };
        builder.push_all(Parallel::new(&section, &Serial), omit);
    }
    (builder.finish(), omitted, malformed)
}

/// Converts the CFI of a linked file, or of an object with addresses. The table is for `address`.
pub fn convert(sections: &[cfi::Section<'_>], arch: Arch, address: Address, options: Options) -> Converted {
    let (section, omitted, malformed) = build(sections.iter().copied(), arch, options);
    let mut bytes = vec![0; section.len()];
    section.write(&mut bytes, address, Key::address).expect("the table reaches its functions");
    let ambiguous = section.omitted().to_vec();
    let functions = sections.iter().map(|section| cfipack_cfi::Functions::new(section).count()).sum();
    Converted { bytes, address, omitted, ambiguous, malformed, functions }
}

/// Converts sections of a file into input for the CFI's reader.
pub fn cfi_of<'a>(sections: &'a [impl Borrow<CallFrameSection<'a>>]) -> Vec<cfi::Section<'a>> {
    sections.iter().map(|section| section.borrow().cfi()).collect()
}

impl Converted {
    /// Parses the table.
    pub fn table(&self) -> Section<'_> {
        Section::parse(&self.bytes, self.address).expect("what was written can be read")
    }

    /// Verifies the table against the CFI. The conversion gives the reasons for missing functions.
    pub fn verify(&self, cfi: &[cfi::Section<'_>]) -> Report {
        let sections = [self.table()];
        let reported = self.omitted.iter().chain(&self.ambiguous);
        let reported: HashMap<_, _> = reported.map(|omitted| (omitted.function, *omitted)).collect();
        let options = cfipack_roundtrip::Options::default();
        verify_with_reasons(cfi, &Table::new(&sections), &options, |missing| {
            reported.get(&missing.start.into()).copied()
        })
    }
}
