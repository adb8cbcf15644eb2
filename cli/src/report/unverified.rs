//! Lists functions that a table lacks, and functions that gimli could not judge, by name. Every verb prints the same
//! list.

use std::io::{self, Write};

use cfipack_format::Unsupported;
use cfipack_format::widen::ToU64;
use cfipack_roundtrip::{Options, Unverified};
use serde::Serialize;

use crate::conversion::Conversion;
use crate::report::escaped::Escaped;
use crate::report::place::Places;

/// Returns a function with the names that the file has for its places.
pub fn listed(places: &Places<'_, '_>, unverified: &Unverified) -> Unverified<String> {
    unverified.named(|place| places.location(place))
}

/// Writes a line for each function, and the number of functions that are not listed.
pub fn print(
    out: &mut impl Write,
    list: &[Unverified],
    more: u64,
    places: &Places<'_, '_>,
) -> io::Result<()> {
    for unverified in list {
        let kind = if unverified.missing { "missing: " } else { "unjudged: " };
        writeln!(out, "  {}", line(places, unverified, kind))?;
    }
    if more != 0 {
        writeln!(out, "  and {more} more missing or unjudged")?;
    }
    Ok(())
}

/// Returns the line about a function, for example `0x1139 <main>: missing: at 0x1141 the reason`.
fn line(places: &Places<'_, '_>, unverified: &Unverified, kind: &str) -> String {
    let Unverified { function, pc, words, .. } = unverified;
    let function = function.map(|function| format!("{}: ", places.name(function)));
    let pc = pc.map(|pc| format!("at {} ", Escaped(places.location(pc))));
    format!("{}{kind}{}{}", function.unwrap_or_default(), pc.unwrap_or_default(), Escaped(words))
}

/// The functions without rows in the report of `stats`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WithoutRows {
    /// The first functions that the table lacks, or that gimli could not judge.
    unverified: Vec<Unverified<String>>,
    more_unverified: u64,
    #[serde(skip)]
    lines: Vec<String>,
}

impl WithoutRows {
    /// Creates a list of functions. `more` is the number of further functions that are not listed.
    pub fn new(places: &Places<'_, '_>, list: &[Unverified], more: u64) -> Self {
        Self {
            unverified: list.iter().map(|unverified| listed(places, unverified)).collect(),
            more_unverified: more,
            lines: list.iter().map(|unverified| line(places, unverified, "")).collect(),
        }
    }

    /// Lists the first functions of a complete list.
    pub fn first(places: &Places<'_, '_>, mut list: Vec<Unverified>) -> Self {
        let all = list.len();
        list.truncate(Options::default().limit);
        Self::new(places, &list, (all - list.len()).to_u64())
    }

    /// Lists the functions that a conversion omits.
    pub fn of_conversion(places: &Places<'_, '_>, conversion: &Conversion) -> Self {
        let omitted = |unsupported: &Unsupported| {
            let (function, pc) = (unsupported.function.address(), unsupported.pc());
            Unverified::missing(Some(function), Some(pc), unsupported.reason.to_string())
        };
        let malformed = conversion.malformed.iter();
        let malformed = malformed.map(|error| Unverified::missing(None, None, error.to_string()));
        Self::first(places, conversion.omitted.iter().map(omitted).chain(malformed).collect())
    }

    /// Writes a line for each function, below the counts by reason.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.lines.iter().try_for_each(|line| writeln!(out, "    {line}"))?;
        match self.more_unverified {
            0 => Ok(()),
            more => writeln!(out, "    and {more} more"),
        }
    }
}
