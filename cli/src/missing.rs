//! Why functions are missing in a table: what the judge, which knows nothing of the encoder, asks its caller.

use std::collections::HashMap;

use cfipack_decoder::sframe;
use cfipack_encoder::Unsupported;
use cfipack_encoder::sframe::{Builder, Layout, Options};
use cfipack_encoder::{Reason, cfi};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Key, SectionOffset};
use cfipack_roundtrip::MissingFunction;

/// Reasons for a table of unknown origin: a function is missing for a reason if no table of this version, at
/// this address, can represent it. Any other could be in the table.
#[derive(Debug)]
pub struct OfAnyTable<'a> {
    options: Options,
    table: Option<Address>,
    /// The encoder, for the architecture of the functions that were asked for; `None` for an architecture that
    /// the format does not have.
    builder: Option<(Arch, Option<Builder<'a>>)>,
    asked: u32,
}

/// A builder keeps the functions that it takes, and a new one costs as much as 100 functions: a new one is made
/// after this many.
const FUNCTIONS_PER_BUILDER: u32 = 4096;

impl<'a> OfAnyTable<'a> {
    /// Reasons for the tables of a file, which have the version of the first one.
    pub fn new(tables: &[sframe::Section<'_>]) -> Self {
        let first = tables.first();
        let version = first.map_or(Version::V3, sframe::Section::version);
        // The options that omit the fewest functions.
        let options = Options::new().with_version(version).with_layout(Layout::Small).with_flex(true);
        Self { options, table: first.map(sframe::Section::address), builder: None, asked: 0 }
    }

    /// What prevents a function from being in the table, if anything does.
    pub fn reason(&mut self, missing: &MissingFunction<'a>) -> Option<Unsupported> {
        self.of_the_encoder(missing).or_else(|| self.too_far(missing.start))
    }

    fn of_the_encoder(&mut self, missing: &MissingFunction<'a>) -> Option<Unsupported> {
        let section = &missing.section;
        let after = SectionOffset(missing.fde.0.saturating_add(1));
        let function = cfi::Functions::between(section, missing.fde, after).next()?.ok()?;
        self.asked += 1;
        let is_current = self.builder.as_ref().is_some_and(|(arch, _)| *arch == section.arch);
        if !is_current || self.asked.is_multiple_of(FUNCTIONS_PER_BUILDER) {
            self.builder = Some((section.arch, Builder::new(section.arch, self.options).ok()));
        }
        match &mut self.builder {
            Some((_, Some(builder))) => builder.push(&function).err(),
            _ => Some(Unsupported::function(function.key, Reason::Architecture)),
        }
    }

    /// Version 2 stores starts in 32 bits.
    fn too_far(&self, function: Address) -> Option<Unsupported> {
        let distance = function.distance_from(self.table.filter(|_| self.options.version != Version::V3)?);
        let is_far = i32::try_from(distance).is_err();
        is_far.then(|| Unsupported::function(function.into(), Reason::StartTooFar(distance)))
    }
}

/// Reasons for the table of a conversion: exactly the functions that this conversion omitted and reported have
/// one, each by its start. Of several FDEs with one start, the first in the list counts.
#[derive(Debug)]
pub struct OfConversion(HashMap<Key, Unsupported>);

impl OfConversion {
    /// Takes what the conversion omitted.
    pub fn new(omitted: &[Unsupported]) -> Self {
        Self(omitted.iter().rev().map(|unsupported| (unsupported.function, *unsupported)).collect())
    }

    /// Why the conversion omitted a function; `None` if it did not report that it did.
    pub fn reason(&self, missing: &MissingFunction<'_>) -> Option<Unsupported> {
        self.0.get(&missing.start.into()).copied()
    }
}

#[cfg(test)]
mod tests {
    use cfipack_cfi::SectionKind;
    use cfipack_cfi::write::{Cie, Writer};
    use cfipack_roundtrip::{Options, Table, verify_with_reasons};

    use super::*;

    /// A conversion that omits one function and reports another does not pass, though the numbers agree.
    #[test]
    fn which_functions_a_conversion_omitted() {
        let mut cfi = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0x4000));
        let cie = cfi.cie(&Cie::new(Arch::Amd64, &[0x0c, 7, 8, 0x90, 1])).unwrap();
        cfi.fde(&cie, Address(0x1000), 4, None, &[]).unwrap();
        let section = cfi::Section::new(SectionKind::EhFrame, cfi.as_bytes(), Address(0x4000), Arch::Amd64);
        for (reported, unexplained) in [(0x1000, 0), (0x1004, 1)] {
            let function = Address(reported);
            let reason = Reason::CfaExpression;
            let omitted = OfConversion::new(&[Unsupported::function(function.into(), reason)]);
            let reason = |missing: &MissingFunction<'_>| omitted.reason(missing);
            let report = verify_with_reasons(&[section], &Table::new(&[]), &Options::default(), reason);
            assert_eq!((report.missing, report.unexplained), (1, unexplained));
        }
        let mut any = OfAnyTable::new(&[]);
        let options = Options::default();
        let report =
            verify_with_reasons(&[section], &Table::new(&[]), &options, |missing| any.reason(missing));
        assert_eq!((report.missing, report.unexplained), (1, 1));
    }
}
