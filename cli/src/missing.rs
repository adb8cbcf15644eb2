//! Finds the reasons why functions are missing in a table. The verifier needs them, but does not depend on the encoder.

use std::collections::HashMap;

use cfipack_cfi as cfi;
use cfipack_decoder::sframe;
use cfipack_encoder::sframe::{Builder, Layout, Options};
use cfipack_format::Reason;
use cfipack_format::Unsupported;
use cfipack_format::sframe::{FdeType, Version};
use cfipack_format::{Address, Key, SectionOffset};
use cfipack_roundtrip::MissingFunction;

/// The reasons why functions are missing in a table of unknown origin. A function has a reason if no table of this
/// version at this address can represent it, or if a producer omits it whose options the table shows: without flex
/// FDEs, for glibc 2.43, or gas.
#[derive(Debug)]
pub struct AnyTableReasons<'a> {
    version: Version,
    table: Option<Address>,
    /// The encoder that omits the fewest functions comes first.
    encoders: [Encoder<'a>; 3],
}

impl<'a> AnyTableReasons<'a> {
    /// Creates reasons for the tables of a file. All tables are assumed to have the version of the first table.
    pub fn new(tables: &[sframe::Section<'_>]) -> Self {
        let first = tables.first();
        let version = first.map_or(Version::DEFAULT, sframe::Section::version);
        let most = Options::new().with_version(version).with_layout(Layout::Small).with_flex(true);
        let has_flex = tables
            .iter()
            .flat_map(sframe::Section::functions)
            .flatten()
            .any(|it| it.fde_type() == FdeType::Flex);
        let cautious = most.with_flex(has_flex).with_outermost(version != Version::V2);
        let gas = cautious.with_layout(Layout::Gnu);
        let encoders = [most, cautious, gas].map(Encoder::new);
        Self { version, table: first.map(sframe::Section::address), encoders }
    }

    /// Returns the reason why a function cannot be in the table, if there is a reason.
    pub fn reason(&mut self, missing: &MissingFunction<'a>) -> Option<Unsupported> {
        let too_far = self.too_far(missing.start);
        too_far.or_else(|| self.encoders.iter_mut().find_map(|encoder| encoder.reason(missing)))
    }

    fn too_far(&self, function: Address) -> Option<Unsupported> {
        let distance = function.distance_from(self.table?);
        let is_far = !self.version.reaches(distance);
        is_far.then(|| Unsupported::function(function.into(), Reason::StartTooFar(distance)))
    }
}

/// An encoder with one set of options.
#[derive(Debug)]
struct Encoder<'a> {
    options: Options,
    builder: Option<Builder<'a>>,
    num_functions: u32,
}

/// A builder is replaced after this many functions, because it keeps the functions that it accepts. Creating a builder
/// costs as much as 100 functions.
const FUNCTIONS_PER_BUILDER: u32 = 4096;

impl<'a> Encoder<'a> {
    fn new(options: Options) -> Self {
        Self { options, builder: None, num_functions: 0 }
    }

    fn reason(&mut self, missing: &MissingFunction<'a>) -> Option<Unsupported> {
        let section = &missing.section;
        let after = SectionOffset(missing.fde.0.saturating_add(1));
        let function = cfi::Functions::between(section, missing.fde, after).next()?.ok()?;
        if self.num_functions.is_multiple_of(FUNCTIONS_PER_BUILDER) {
            // The format does not have every architecture.
            self.builder = Builder::new(section.arch, self.options).ok();
        }
        self.num_functions += 1;
        match &mut self.builder {
            Some(builder) => builder.push(&function).err(),
            None => Some(Unsupported::function(function.key, Reason::Architecture)),
        }
    }
}

/// The reasons why functions are missing in the table of a conversion. Only functions that the conversion omitted and
/// reported have a reason, by their starts. If several FDEs have the same start, the first in the list counts.
#[derive(Debug)]
pub struct ConversionReasons(HashMap<Key, Unsupported>);

impl ConversionReasons {
    /// Takes the reasons from the functions that the conversion omitted.
    pub fn new(omitted: &[Unsupported]) -> Self {
        Self(omitted.iter().rev().map(|unsupported| (unsupported.function, *unsupported)).collect())
    }

    /// Returns the reason why the conversion omitted a function, or `None` if the conversion did not report it.
    pub fn reason(&self, missing: &MissingFunction<'_>) -> Option<Unsupported> {
        self.0.get(&missing.start.into()).copied()
    }
}

#[cfg(test)]
mod tests {
    use cfipack_cfi::SectionKind;
    use cfipack_cfi::write::{Cie, Writer};
    use cfipack_format::Arch;
    use cfipack_roundtrip::{Options, Table, verify_with_reasons};

    use super::*;

    /// A conversion that omits a function but reports a different function does not pass, although the numbers agree.
    #[test]
    fn which_functions_a_conversion_omitted() {
        let mut cfi = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0x4000));
        let cie = cfi.cie(&Cie::new(Arch::Amd64, &[0x0c, 7, 8, 0x90, 1])).unwrap();
        cfi.fde(&cie, Address(0x1000), 4, None, &[]).unwrap();
        let section = cfi::Section::new(SectionKind::EhFrame, cfi.as_bytes(), Address(0x4000), Arch::Amd64);
        for (reported, unexplained) in [(0x1000, 0), (0x1004, 1)] {
            let function = Address(reported);
            let reason = Reason::CfaExpression;
            let omitted = ConversionReasons::new(&[Unsupported::function(function.into(), reason)]);
            let (table, options) = (Table::new(&[]), Options::default());
            let report = verify_with_reasons(&[section], &table, &options, |missing| omitted.reason(missing));
            assert_eq!((report.missing, report.unexplained), (1, unexplained));
        }
        let mut any = AnyTableReasons::new(&[]);
        let options = Options::default();
        let report =
            verify_with_reasons(&[section], &Table::new(&[]), &options, |missing| any.reason(missing));
        assert_eq!((report.missing, report.unexplained), (1, 1));
    }
}
