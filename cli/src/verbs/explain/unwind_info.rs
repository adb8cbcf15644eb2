//! `explain`: prints why functions have no compact encoding.

use std::io::Write;
use std::ops::Range;

use cfipack_cfi::Function;
use cfipack_container::CallFrameSection;
use cfipack_format::Address;
use cfipack_roundtrip::unwind_info::{Entry, Meaning, MeaningWords, Table};
use serde::Serialize;

use super::Arguments;
use crate::compact::encodings::CompactEncoder;
use crate::compact::source::{Source, check_arch, function_starts, image_base};
use crate::instructions::listing::Listing;
use crate::io::input::Object;
use crate::report::escaped::Escaped;
use crate::report::explanation::{self, Explanation};
use crate::report::place::Places;
use crate::report::reasons::{self, ENCODABLE, NOT_IN_THE_TABLE};
use crate::report::status::Status;
use crate::report::symbol::SymbolName;

/// The reason for a function that has CFI, but an entry without unwind information.
const NO_UNWIND_INFORMATION: &str = "no-unwind-information";

/// Explains every function of the CFI without a compact encoding in the table, or the function at `address`. If the
/// file has no table, the encodings are computed from its CFI.
pub fn explain(
    object: &Object<'_>,
    places: &Places<'_, '_>,
    address: Option<Address>,
    arguments: &Arguments,
) -> anyhow::Result<Status> {
    arguments.table.check_unused()?;
    let source = Source::find(object)?;
    let file = object.file()?;
    check_arch(file.arch())?;
    let mut table = None;
    if !source.is_empty() {
        table = Some(source.entries(file.arch(), image_base(file), source.code())?);
    }
    let sections = file.call_frame_sections()?;
    let encoder = CompactEncoder::new(file.arch(), source.code())?;
    let is_image = source.table.is_some();
    let starts = function_starts(file)?;
    let mut explainer = Explainer { table, is_image, starts, places, encoder };
    let found = match address {
        Some(address) => {
            let mut found: Vec<_> = explainer.at(address, &sections).into_iter().collect();
            // A function without CFI has an encoding and no listing.
            if let (Some(found), Some((function, _))) =
                (found.first_mut(), explanation::function_at(&sections, address))
            {
                found.listing = Listing::new(file, &sections, &function, &[], address, explainer.places)?;
            }
            found
        }
        None => explainer.all(&sections),
    };
    explanation::report(object, &found, address, "no function is in DWARF mode", arguments.json)
}

struct Explainer<'e, 'a, 'f> {
    /// The file's own table, if it has one.
    table: Option<Table<'e>>,
    /// True if code without an entry has no unwind information.
    is_image: bool,
    /// The starts of functions as the linker listed them.
    starts: Vec<Address>,
    places: &'e Places<'e, 'a>,
    encoder: CompactEncoder<'e, 'f>,
}

impl<'f> Explainer<'_, '_, 'f> {
    /// Explains every function without a compact encoding.
    fn all(&mut self, sections: &'f [CallFrameSection<'_>]) -> Vec<FunctionJson> {
        let mut found = Vec::new();
        for section in sections {
            for function in cfipack_cfi::Functions::new(&section.cfi()) {
                let explained = match function {
                    Ok(function) => self.function(&function),
                    Err(error) => FunctionJson {
                        reason: Some(reasons::MALFORMED),
                        words: format!("section {}: {error}", section.section.name),
                        ..FunctionJson::default()
                    },
                };
                if explained.reason.is_some() {
                    found.push(explained);
                }
            }
        }
        found
    }

    /// Explains the function that contains the address, or the table's entry for it.
    fn at(&mut self, address: Address, sections: &'f [CallFrameSection<'_>]) -> Option<FunctionJson> {
        if let Some((function, _)) = explanation::function_at(sections, address) {
            return Some(self.function(&function));
        }
        let table = self.table.as_ref()?;
        let entry = table.find(address)?;
        let mut words = MeaningWords(table.arch(), table.meaning(entry)).to_string();
        let function = self.function_in(entry, address);
        let range = entry.start..entry.end;
        if function != range {
            words += &format!("; the entry is for {}", self.places.range(range));
        }
        Some(FunctionJson {
            encoding: Some(entry.encoding.to_string()),
            words,
            ..self.place(function.start, function.end.0 - function.start.0)
        })
    }

    /// Returns the range of the function that contains the address, by the linker's list or by symbols. An entry may be
    /// for several functions.
    fn function_in(&self, entry: &Entry, address: Address) -> Range<Address> {
        let after = self.starts.partition_point(|start| *start <= address);
        let start = after.checked_sub(1).map(|index| self.starts[index]);
        let start = start.or_else(|| self.places.start_of_symbol(address)).unwrap_or(entry.start);
        let end = self.starts.get(after).copied().unwrap_or(entry.end);
        start.max(entry.start)..end.min(entry.end)
    }

    fn place(&self, start: Address, size: u64) -> FunctionJson {
        FunctionJson {
            start: Some(self.places.location(start)),
            size: Some(size),
            symbol: self.places.symbol(start),
            ..FunctionJson::default()
        }
    }

    /// Explains a function of the CFI: its encoding in the table, or the reason why it has none.
    fn function(&mut self, function: &Function<'f>) -> FunctionJson {
        let mut explained = self.place(function.key.address(), function.size);
        if let Some(table) = &self.table {
            let entry = table.find(function.key.address());
            let meaning = entry.map_or(Meaning::Nothing, |entry| table.meaning(entry));
            explained.encoding = entry.map(|entry| entry.encoding.to_string());
            if let Meaning::Row(..) | Meaning::Malformed(_) = meaning {
                explained.words = MeaningWords(table.arch(), meaning).to_string();
                return explained;
            }
            if self.is_image && meaning == Meaning::Nothing {
                let reason = if entry.is_some() { NO_UNWIND_INFORMATION } else { NOT_IN_THE_TABLE };
                explained.reason = Some(reason);
                explained.words = match self.encoder.encode(function) {
                    Ok(encoding) => format!("its CFI could be encoded as {encoding}"),
                    Err(_) => "its CFI could be in DWARF mode".to_owned(),
                };
                return explained;
            }
        }
        match self.encoder.encode(function) {
            Err(unsupported) => {
                explained.pc = Some(self.places.location(unsupported.pc()));
                explained.reason = Some(unsupported.reason.name());
                explained.words = unsupported.reason.to_string();
            }
            Ok(encoding) if self.table.is_some() => {
                explained.reason = Some(ENCODABLE);
                explained.words = format!("could be encoded as {encoding}");
            }
            Ok(encoding) => {
                explained.encoding = Some(encoding.to_string());
                explained.words = "can be encoded".to_owned();
            }
        }
        explained
    }
}

/// A function with its `encoding`, a description in `words`, and the `reason` if it has no compact encoding.
#[derive(Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactFunction"))]
pub struct FunctionJson {
    start: Option<String>,
    size: Option<u64>,
    #[serde(flatten)]
    symbol: SymbolName,
    encoding: Option<String>,
    pc: Option<String>,
    reason: Option<&'static str>,
    words: String,
    #[serde(flatten)]
    listing: Option<Listing>,
}

impl Explanation for FunctionJson {
    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Some(start) = &self.start else { return writeln!(out, "omitted: {}", Escaped(&self.words)) };
        write!(out, "{}", Escaped(start))?;
        write!(out, "{}", self.symbol.in_angles())?;
        if let Some(encoding) = &self.encoding {
            write!(out, ": encoding {encoding}")?;
        }
        match self.reason {
            None => {}
            Some(NOT_IN_THE_TABLE) => write!(out, ": missing in the table")?,
            Some(NO_UNWIND_INFORMATION) => write!(out, ": without unwind information in the table")?,
            Some(_) => write!(out, ": in DWARF mode")?,
        }
        match &self.pc {
            Some(pc) => writeln!(out, ": at {} {}", Escaped(pc), self.words)?,
            None => writeln!(out, ": {}", self.words)?,
        }
        self.listing.as_ref().map_or(Ok(()), |listing| listing.print(out))
    }
}
