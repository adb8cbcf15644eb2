//! Explains the functions that a table omits, or a single function.

use std::collections::HashSet;
use std::fmt;
use std::io::Write;

use cfipack_container::{CallFrameSection, File};
use cfipack_decoder::sframe::{Function, Section};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Cfa, Key, RegisterName};
use cfipack_lint::synthesized;
use cfipack_roundtrip::words::Words;
use cfipack_roundtrip::{Options, innermost};
use serde::Serialize;

use super::Arguments;
use crate::conversion::Conversion;
use crate::instructions::listing::Listing;
use crate::io::input::{self, Object};
use crate::report::count::Number;
use crate::report::escaped::Escaped;
use crate::report::explanation::{self, Explanation};
use crate::report::place::Places;
use crate::report::reasons::{self, NOT_IN_THE_TABLE};
use crate::report::row::RowJson;
use crate::report::status::Status;
use crate::report::symbol::SymbolName;
use crate::report::verification;
use crate::table_options::TableOptions;

/// Explains every omitted function, or the function at an address that the user gave.
pub fn explain(
    object: &Object<'_>,
    places: &Places<'_, '_>,
    address: Option<Address>,
    arguments: &Arguments,
) -> anyhow::Result<Status> {
    let file = object.file()?;
    let sections = input::call_frame_sections(file)?;
    let explained = match address {
        None => {
            let conversion = Conversion::placed(file, &sections, &arguments.table.judged(), 1)?;
            let mut explained = omitted(&conversion, places);
            let address = conversion.address;
            explained.extend(not_in_tables(object, &sections, &conversion, places)?);
            explained.extend(innermost_only(file.arch(), &conversion.linked()?, address, places)?);
            explained
        }
        Some(address) => match one_function(file, &sections, address, &arguments.table, places)? {
            Some((mut found, function)) => {
                let tables = object.sframe_sections(Address(0))?;
                let tables = object.tables(&tables)?;
                found.listing = Listing::new(file, &sections, &function, &tables, address, places)?;
                vec![found]
            }
            None => by_code(file, &sections, address, places)?.into_iter().collect(),
        },
    };
    explanation::report(object, &explained, address, "no function is omitted", arguments.json)
}

/// Lists every function that a conversion omits.
fn omitted(conversion: &Conversion, places: &Places<'_, '_>) -> Vec<FunctionJson> {
    let omitted = conversion.omitted.iter().map(|unsupported| FunctionJson {
        pc: Some(places.location(unsupported.pc())),
        reason: Some(unsupported.reason.name()),
        words: Some(unsupported.reason.to_string()),
        ..FunctionJson::at(places, unsupported.function.address())
    });
    let malformed = conversion.malformed.iter().map(|error| FunctionJson {
        reason: Some(reasons::MALFORMED),
        words: Some(error.to_string()),
        ..FunctionJson::default()
    });
    omitted.chain(malformed).collect()
}

/// Lists every function that the file's own tables lack, although the conversion does not omit it. Without tables the
/// list is empty.
fn not_in_tables(
    object: &Object<'_>,
    sections: &[CallFrameSection<'_>],
    conversion: &Conversion,
    places: &Places<'_, '_>,
) -> anyhow::Result<Vec<FunctionJson>> {
    let tables = object.sframe_sections(Address(0))?;
    let tables = object.tables(&tables)?;
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let omitted: HashSet<_> = conversion.omitted.iter().map(|omitted| omitted.function.address()).collect();
    let options = Options::new().with_limit(usize::MAX);
    let report = verification::against_any(object.file()?, sections, &tables, &options, 1)?;
    let mut explained = Vec::new();
    for missing in report.unverified.iter().filter(|unverified| unverified.missing) {
        let Some(start) = missing.function else { continue };
        if omitted.contains(&start) {
            continue;
        }
        explained.push(FunctionJson {
            pc: missing.pc.map(|pc| places.location(pc)),
            reason: Some(NOT_IN_THE_TABLE),
            words: Some(missing.words.clone()),
            ..FunctionJson::at(places, start)
        });
    }
    Ok(explained)
}

/// Lists every function of a table with a row that unwinds only an innermost frame.
fn innermost_only(
    arch: Arch,
    table: &[u8],
    address: Address,
    places: &Places<'_, '_>,
) -> anyhow::Result<Vec<FunctionJson>> {
    let mut found = Vec::new();
    for function in Section::parse(table, address)?.functions() {
        let function = function?;
        found.extend(InnermostJson::find(arch, &function, places).map(|innermost| FunctionJson {
            size: Some(function.size().into()),
            innermost_only: Some(innermost),
            ..FunctionJson::at(places, function.start())
        }));
    }
    Ok(found)
}

/// Returns the function without CFI that contains the address, with the rows that `--synthesize` makes from its code.
fn by_code(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    address: Address,
    places: &Places<'_, '_>,
) -> anyhow::Result<Option<FunctionJson>> {
    let Some((range, rows)) = synthesized::at(file, sections, address)? else { return Ok(None) };
    let mut found = FunctionJson {
        size: Some(range.end.0 - range.start.0),
        origin: Some("code"),
        ..FunctionJson::at(places, range.start)
    };
    match rows {
        Ok(rows) => {
            for row in rows {
                found.row_words.push(format!("+{}: {}", row.start, Words(file.arch(), row)));
                found.rows.push(RowOfPart { row: RowJson::new(file.arch(), &row), repeats: None });
            }
        }
        Err(refused) => {
            let reason = refused.omission.name();
            found.reason = Some(reason);
            found.words = Some(format!("no rows can be made of its code: {reason}"));
        }
    }
    Ok(Some(found))
}

/// Returns the function that contains the address, with its rows or the reason why it is omitted.
fn one_function<'s>(
    file: &File<'_>,
    sections: &'s [CallFrameSection<'_>],
    address: Address,
    options: &TableOptions,
    places: &Places<'_, '_>,
) -> anyhow::Result<Option<(FunctionJson, cfipack_cfi::Function<'s>)>> {
    let Some((function, others)) = explanation::function_at(sections, address) else { return Ok(None) };
    let mut found = FunctionJson {
        size: Some(function.size),
        others: others.iter().map(|start| places.location(*start)).collect(),
        ..FunctionJson::at(places, function.key.address())
    };
    let mut builder = cfipack_encoder::sframe::Builder::new(file.arch(), options.get())?;
    let mut unsupported = builder.push(&function).err();
    if unsupported.is_none() {
        // The function's own CFI is no reason to omit it, but other functions of the file can be a reason.
        let all = Conversion::placed(file, sections, options, 1)?.section;
        unsupported = all.omitted().iter().find(|omitted| omitted.function == function.key).copied();
    }
    if let Some(unsupported) = unsupported {
        found.pc = Some(places.location(unsupported.pc()));
        found.reason = Some(unsupported.reason.name());
        found.words = Some(unsupported.reason.to_string());
        return Ok(Some((found, function)));
    }
    let section = builder.finish();
    let mut bytes = vec![0; section.len()];
    section.write(&mut bytes, function.key.address(), Key::address)?;
    for part in Section::parse(&bytes, function.key.address())?.functions() {
        let part = part?;
        found.innermost_only =
            found.innermost_only.or_else(|| InnermostJson::find(file.arch(), &part, places));
        for row in part.rows() {
            let mut row = row?;
            // The table divides a PLT, and a function with very many rows, into several FDEs.
            row.start.0 += part.start().distance_from(function.key.address()) as u32;
            let repeats = part.is_pc_mask().then(|| format!(", repeating every {} bytes", part.rep_size()));
            let words = Words(file.arch(), row);
            found.row_words.push(format!("+{}: {words}{}", row.start, repeats.unwrap_or_default()));
            let repeats = part.is_pc_mask().then(|| part.rep_size());
            found.rows.push(RowOfPart { row: RowJson::new(file.arch(), &row), repeats });
        }
    }
    Ok(Some((found, function)))
}

/// A function. If it is omitted, it has a `reason` with the description `words`. Otherwise it has `rows`, or only
/// `innermost_only` in the list of all functions that are not covered completely.
#[derive(Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SframeFunction"))]
pub struct FunctionJson {
    start: Option<String>,
    size: Option<u64>,
    #[serde(flatten)]
    symbol: SymbolName,
    pc: Option<String>,
    reason: Option<&'static str>,
    words: Option<String>,
    innermost_only: Option<InnermostJson>,
    /// `code` if no CFI covers the function. Then `rows` are the rows that `--synthesize` makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'static str>,
    rows: Vec<RowOfPart>,
    /// The starts of other functions that contain the address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<String>,
    #[serde(flatten)]
    listing: Option<Listing>,
    #[serde(skip)]
    row_words: Vec<String>,
}

impl FunctionJson {
    /// Makes a report that has only the place of a function.
    fn at(places: &Places<'_, '_>, start: Address) -> Self {
        Self { start: Some(places.location(start)), symbol: places.symbol(start), ..Self::default() }
    }
}

/// The first PC with a row that unwinds an innermost frame only, and the register that this row needs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InnermostJson {
    pc: String,
    register: String,
    /// What the row takes from the register: `CFA` or `return address`.
    value: &'static str,
}

impl InnermostJson {
    fn find(arch: Arch, function: &Function<'_>, places: &Places<'_, '_>) -> Option<Self> {
        let (row, register) = innermost(arch, function)?;
        let pc = places.location(function.start().offset(row.start.0.into()));
        let value = match row.cfa {
            Cfa::Register { register: base, .. } | Cfa::Memory { register: base, .. } if base == register => {
                "CFA"
            }
            _ => "return address",
        };
        Some(Self { pc, register: RegisterName(arch, register).to_string(), value })
    }
}

impl fmt::Display for InnermostJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pc, register, value } = self;
        write!(f, "from {} on, its {value} depends on {register}, which tables do not restore", Escaped(pc))
    }
}

/// A row. `start` counts from the function's start. The row of a PLT applies again after `repeats` bytes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RowOfPart {
    #[serde(flatten)]
    row: RowJson,
    repeats: Option<u16>,
}

impl Explanation for FunctionJson {
    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if let Some(start) = &self.start {
            write!(out, "{}", Escaped(start))?;
        }
        write!(out, "{}", self.symbol.in_angles())?;
        if let Some(innermost) = self.innermost_only.as_ref().filter(|_| self.rows.is_empty()) {
            return writeln!(out, ": unwound as an innermost frame only: {innermost}");
        }
        let kind = if self.reason == Some(NOT_IN_THE_TABLE) { "missing" } else { "omitted" };
        match (&self.words, &self.pc) {
            (Some(words), Some(pc)) => writeln!(out, ": {kind}: at {} {words}", Escaped(pc))?,
            (Some(words), None) if self.origin.is_some() => {
                writeln!(out, ": no CFI covers it; {}", Escaped(words))?;
            }
            (Some(words), None) if self.start.is_some() => writeln!(out, ": {kind}: {}", Escaped(words))?,
            (Some(words), None) => writeln!(out, "{kind}: {}", Escaped(words))?,
            (None, _) => {
                let rows = Number(self.rows.len().to_u64(), "row");
                let origin = self.origin.map_or("", |_| " from its code (--synthesize): no CFI covers it");
                writeln!(out, ": {}, {rows}{origin}", Number(self.size.unwrap_or(0), "byte"))?;
            }
        }
        if !self.others.is_empty() {
            let others = self.others.join(", ");
            writeln!(out, "  the address is also in the functions at {}", Escaped(others))?;
        }
        // A listing has no rows of a PLT, because they repeat.
        if self.listing.is_none() || self.rows.iter().any(|row| row.repeats.is_some()) {
            self.row_words.iter().try_for_each(|row| writeln!(out, "  {row}"))?;
        }
        if let Some(listing) = &self.listing {
            listing.print(out)?;
        }
        let mut innermost = self.innermost_only.iter();
        innermost.try_for_each(|words| writeln!(out, "  unwound as an innermost frame only: {words}"))
    }
}
