//! `lookup` in `.sframe`.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context as _, bail};
use cfipack_decoder::sframe::{Function, Section};
use cfipack_format::{Address, Arch, FunctionOffset, Row};
use cfipack_roundtrip::words::Words;
use serde::Serialize;

use super::Arguments;
use crate::io::absent::{self, SFRAME_TABLE};
use crate::io::input::Object;
use crate::io::output;
use crate::report::escaped::{Escaped, FileName};
use crate::report::place::{Place, Places};
use crate::report::row::RowJson;
use crate::report::status::{self, Status};
use crate::report::symbol::SymbolName;
use crate::report::target::Target;

/// Looks up every address.
pub fn lookup(object: &Object<'_>, places: &Places<'_, '_>, arguments: &Arguments) -> anyhow::Result<Status> {
    let sections = object.sframe_sections(arguments.address.unwrap_or_default())?;
    let tables = object.tables(&sections)?;
    if tables.is_empty() {
        return Err(absent::from_object(object, SFRAME_TABLE));
    }
    let tables = object.found_tables(&sections, tables);
    let mut out = output::standard();
    let mut status = Status::Done;
    for target in &arguments.addresses {
        let pc = match target.plain().filter(|_| object.is_relocatable()) {
            Some(place) => in_one_section(&tables, places, place)?,
            None => Some(target.find(places)?),
        };
        let answer =
            pc.map_or(Ok(None), |pc| Answer::find(&tables, pc)).with_context(|| format!("pc {target}"))?;
        status = status.max(Status::differs_if(answer.as_ref().is_none_or(|answer| answer.row.is_none())));
        if arguments.json {
            output::json(&mut out, &AnswerJson::new((pc, target), answer.as_ref(), places, object))?;
        } else {
            let pc = pc.map_or_else(|| Escaped(target).to_string(), |pc| places.name(pc));
            writeln!(out, "{pc}: {}", words(answer.as_ref(), places))?;
        }
    }
    status::judged(status, out.flush().map_err(Into::into))
}

/// Returns the address for an offset without a section, if exactly one section has a function there.
fn in_one_section(
    tables: &[Section<'_>],
    places: &Places<'_, '_>,
    place: &Place,
) -> anyhow::Result<Option<Address>> {
    let mut found = BTreeMap::new();
    for function in tables.iter().flat_map(Section::functions) {
        // A function that cannot be read has no known offsets.
        let Ok(function) = function else { continue };
        let Some((section, start)) = places.in_object(function.start()) else { continue };
        let offset = place.offset.distance_from(start);
        if (0..i64::from(function.size())).contains(&offset) {
            found.insert(section, function.start().offset(offset));
        }
    }
    if found.len() > 1 {
        let sections: Vec<_> = found.keys().map(|section| format!("{section}+{place}")).collect();
        bail!("several sections have a function at {place}, choose one: {}", sections.join(", "));
    }
    Ok(found.into_values().next())
}

/// A table's row for a PC.
struct Answer<'a> {
    arch: Arch,
    function: Function<'a>,
    row: Option<Row>,
}

impl<'a> Answer<'a> {
    /// Returns the row of the first table that contains the PC, if any table contains it.
    fn find(tables: &[Section<'a>], pc: Address) -> anyhow::Result<Option<Self>> {
        for table in tables {
            let Some(function) = table.find(pc)? else { continue };
            let offset = pc.distance_from(function.start());
            // The function contains the PC, and its size is 32 bits wide.
            let row = function.lookup(FunctionOffset(offset as u32))?;
            return Ok(Some(Self { arch: table.arch(), function, row }));
        }
        Ok(None)
    }
}

/// Returns an answer as text.
fn words(answer: Option<&Answer<'_>>, places: &Places<'_, '_>) -> String {
    let Some(Answer { arch, function, row, .. }) = answer else { return "no function".to_string() };
    let end = function.start().offset(function.size().into());
    let repeats = if function.is_pc_mask() {
        format!(", repeating every {} bytes", function.rep_size())
    } else {
        String::new()
    };
    let signal_frame = if function.is_signal_frame() { ", signal frame" } else { "" };
    let row = match row {
        Some(row) => format!("row +{}: {}", row.start, Words(*arch, *row)),
        None => "no row".to_string(),
    };
    format!("function {}{repeats}{signal_frame}, {row}", places.range(function.start()..end))
}

/// The row for a PC. `function` and `row` are null if no table has a function or a row for the PC. In an object, `pc`
/// and the function's `start` are offsets in `section`, which is null in other files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SframeAnswer"))]
pub struct AnswerJson {
    schema: &'static str,
    file: FileName,
    section: Option<String>,
    pc: String,
    #[serde(flatten)]
    symbol: SymbolName,
    function: Option<Extent>,
    row: Option<RowJson>,
    words: Option<String>,
}

/// A function of a table.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Function"))]
struct Extent {
    start: String,
    size: u32,
    signal_frame: bool,
    repeats: Option<u16>,
}

impl AnswerJson {
    fn new(
        (pc, target): (Option<Address>, &Target),
        answer: Option<&Answer<'_>>,
        places: &Places<'_, '_>,
        object: &Object<'_>,
    ) -> Self {
        let in_section = pc.and_then(|pc| places.in_object(pc));
        let row = answer.and_then(|answer| Some((answer.arch, answer.row?)));
        Self {
            schema: "cfipack/lookup/1",
            file: object.name.plain(),
            section: in_section.map(|(section, _)| section),
            pc: pc.map_or_else(|| target.to_string(), |pc| places.offset(pc).to_string()),
            symbol: pc.map(|pc| places.symbol(pc)).unwrap_or_default(),
            function: answer.map(|Answer { function, .. }| Extent {
                start: places.offset(function.start()).to_string(),
                size: function.size(),
                signal_frame: function.is_signal_frame(),
                repeats: function.is_pc_mask().then(|| function.rep_size()),
            }),
            row: row.map(|(arch, row)| RowJson::new(arch, &row)),
            words: row.map(|(arch, row)| Words(arch, row).to_string()),
        }
    }
}
