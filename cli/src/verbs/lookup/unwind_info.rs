//! `lookup` in `__unwind_info` and `__compact_unwind`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;

use anyhow::Context as _;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, Arch, ImageOffset};
use cfipack_roundtrip::unwind_info::{Entry, Meaning, MeaningWords};
use serde::Serialize;

use super::Arguments;
use crate::compact::source::Source;
use crate::io::input::Object;
use crate::io::output;
use crate::report::escaped::FileName;
use crate::report::place::Places;
use crate::report::row::{self, RowJson};
use crate::report::status::{self, Status};
use crate::report::symbol::SymbolName;

/// Looks up every address. After an error, the lookups go on with the next address.
pub fn lookup(object: &Object<'_>, places: &Places<'_, '_>, arguments: &Arguments) -> anyhow::Result<Status> {
    let mut addresses = Vec::new();
    for target in &arguments.addresses {
        // A Mach-O object has addresses of its own.
        addresses.push(match target.plain() {
            Some(place) => place.offset,
            None => target.find(places)?,
        });
    }
    let source = Source::with_table(object)?;
    let (arch, base) = (source.arch()?, source.base());
    let section = source.parse()?;
    let code = source.code();
    // Images have an index for lookups. An object's rows have no order.
    let rows = match section {
        Some(_) => None,
        None => Some(source.entries(arch, base, source.code())?),
    };
    let mut out = output::standard();
    let mut status = Status::Done;
    for pc in addresses {
        let found = match &section {
            Some(section) => in_image(section, base, pc),
            None => Ok(rows.as_ref().and_then(|rows| rows.find(pc).copied())),
        };
        let entry = match found {
            Ok(entry) => entry,
            Err(error) => {
                status::report_error(&format_args!("{}: {error:#}", object.name));
                status = Status::Failed;
                continue;
            }
        };
        let meaning = entry.map_or(Meaning::Nothing, |entry| {
            Meaning::of(arch, entry.encoding, code.starting_at(entry.start))
        });
        if let Meaning::Malformed(error) = meaning {
            status::report_error(&format_args!("{}: pc {pc}: {error}", object.name));
            status = Status::Failed;
            continue;
        }
        status = status.max(Status::differs_if(meaning == Meaning::Nothing));
        let symbol = places.symbol(pc);
        let answer = Answer { pc, symbol, arch, entry, meaning, is_image: section.is_some() };
        if arguments.json {
            output::json(&mut out, &AnswerJson::new(&answer, object.name.plain()))?;
        } else {
            writeln!(out, "{answer}")?;
        }
    }
    status::judged(status, out.flush().map_err(Into::into))
}

fn in_image(
    section: &cfipack_decoder::unwind_info::Section<'_>,
    base: Address,
    pc: Address,
) -> anyhow::Result<Option<Entry>> {
    let Ok(offset) = u32::try_from(pc.0.wrapping_sub(base.0)) else { return Ok(None) };
    let name = || format!("section __unwind_info: pc {pc}");
    let Some(entry) = section.lookup(ImageOffset(offset)).with_context(name)? else { return Ok(None) };
    let personality = section.personality(&entry).with_context(name)?;
    let lsda = section.lsda(&entry).with_context(name)?;
    Ok(Some(Entry::of_image(base, &entry, personality, lsda)))
}

/// A table's entry for a PC.
struct Answer {
    pc: Address,
    symbol: SymbolName,
    arch: Arch,
    entry: Option<Entry>,
    meaning: Meaning,
    is_image: bool,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: ", self.pc, self.symbol.in_angles())?;
        let Some(Entry { start, end, encoding, personality, lsda }) = self.entry else {
            return f.write_str("no entry");
        };
        write!(f, "entry {start}..{end}, encoding {encoding}: ")?;
        match self.meaning {
            Meaning::Nothing => f.write_str("no unwind information")?,
            Meaning::Dwarf => match encoding.dwarf_offset() {
                0 => f.write_str("its FDE in __eh_frame, at an unknown offset")?,
                offset => write!(f, "its FDE in __eh_frame, at or after offset {offset:#x}")?,
            },
            meaning => write!(f, "{}", MeaningWords(self.arch, meaning))?,
        }
        match (personality, self.is_image) {
            (0, _) => {}
            (slot, true) => write!(f, ", personality in the slot at {slot:#x}")?,
            (number, false) => write!(f, ", personality number {number}")?,
        }
        lsda.map_or(Ok(()), |lsda| write!(f, ", LSDA at {lsda}"))
    }
}

/// A table's entry for a PC. `entry` is null if the table has none for the PC, and `row` if the entry encodes no row.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactAnswer"))]
pub struct AnswerJson {
    schema: &'static str,
    file: FileName,
    pc: String,
    #[serde(flatten)]
    symbol: SymbolName,
    entry: Option<EntryJson>,
    row: Option<RowJson>,
    /// The saved registers, each with its distance from the CFA in bytes.
    saved: BTreeMap<String, i32>,
    words: Option<String>,
}

/// An entry of a table.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactEntry"))]
struct EntryJson {
    start: Address,
    end: Address,
    encoding: Encoding,
    /// In an image, the address of the slot that points to the personality. In an object, the personality's number.
    personality: Option<String>,
    lsda: Option<Address>,
    /// In DWARF mode, the offset in `__eh_frame` at which the search for the FDE starts.
    eh_frame_offset: Option<String>,
}

impl AnswerJson {
    fn new(answer: &Answer, file: FileName) -> Self {
        let Answer { arch, meaning, .. } = *answer;
        let (mut row, mut saved, mut words) = (None, BTreeMap::new(), None);
        if let Meaning::Row(found, registers) = meaning {
            row = Some(RowJson::new(arch, &found));
            words = Some(MeaningWords(arch, meaning).to_string());
            saved = row::saved(arch, &registers);
        }
        let entry = answer.entry.map(|entry| EntryJson {
            start: entry.start,
            end: entry.end,
            encoding: entry.encoding,
            personality: (entry.personality != 0).then(|| format!("{:#x}", entry.personality)),
            lsda: entry.lsda,
            eh_frame_offset: (meaning == Meaning::Dwarf)
                .then(|| format!("{:#x}", entry.encoding.dwarf_offset())),
        });
        let (schema, pc) = ("cfipack/lookup/1", answer.pc.to_string());
        Self { schema, file, pc, symbol: answer.symbol.clone(), entry, row, saved, words }
    }
}
