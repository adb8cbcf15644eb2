//! `unwind-info`: builds an `__unwind_info` section.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use cfipack_container::{File, Placement};
use cfipack_encoder::unwind_info::Warning;
use cfipack_format::Address;
use cfipack_format::widen::ToU64;
use cfipack_roundtrip::unwind_info::Stats;
use serde::Serialize;

use crate::compact::encodings::Coverage;
use crate::compact::entries::Entries;
use crate::compact::source::Source;
use crate::compact::table::{BuiltTable, TableOptions};
use crate::io::check;
use crate::io::each::{self, Outcome};
use crate::io::input::{self, CALL_FRAMES, Input, Object};
use crate::io::output;
use crate::report::compact_verdict::{self, Verdict};
use crate::report::count::{Counts, Number, percent};
use crate::report::escaped::FileName;
use crate::report::place::Places;
use crate::report::reasons::{self, MALFORMED};
use crate::report::status::{self, Status};
use crate::report::symbol::Names;

/// Builds an __unwind_info section
#[derive(clap::Args, Debug)]
#[command(after_help = "\
For a linked Mach-O file, the entries are those of its own __unwind_info. For a Mach-O
object, they are its __compact_unwind rows and the FDEs of functions without a row;
addresses are the object's. For an ELF file, or with --from-cfi, each function's encoding
is computed from its call frame information and checked against it; functions that cannot
be encoded are in DWARF mode, and the summary on standard error counts the reasons.

Examples:
  cfi2sframe unwind-info libfoo.dylib                     the size of the smallest table
  cfi2sframe unwind-info libfoo.dylib --layout ld-prime --section table
  cfi2sframe unwind-info libfoo.so --verify               a table from ELF CFI, verified
  cfi2sframe diff libfoo.dylib table                      compare with what --section wrote")]
pub struct Arguments {
    /// Mach-O or ELF file, fat file, or archive of objects
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the section to F; "-" is standard output
    #[arg(long, value_name = "F")]
    section: Option<PathBuf>,
    /// Verify the table against the CFI as gimli evaluates it
    #[arg(long)]
    verify: bool,
    /// Exit status 1 for every warning, also for functions that a reader has to search for
    #[arg(long)]
    strict: bool,
    /// Print the summary as JSON on standard output, one object for each file, one per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    slice: input::Slice,
    #[command(flatten)]
    table: TableOptions,
}

/// Builds the table of every object in the file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let Some(section) = arguments.section.as_deref() else {
        let files = std::slice::from_ref(&arguments.file);
        return each::for_each(files, &arguments.slice, Placement::Apart, |object, _| {
            if Source::find(object)?.is_empty() && object.file()?.call_frame_sections()?.is_empty() {
                return Ok(Outcome::Absent(CALL_FRAMES));
            }
            Ok(Outcome::Done(build(object, arguments)?.0))
        });
    };
    check::written("--section", section, [&arguments.file], arguments.json, "")?;
    let input = Input::open(&arguments.file, &arguments.slice)?;
    let object = input.object(Placement::Apart)?;
    let (status, bytes) = build(&object, arguments).with_context(|| object.name.to_string())?;
    status::judged(status, output::binary(section, &bytes))
}

fn build(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<(Status, Vec<u8>)> {
    let source = Source::find(object)?;
    let file = object.file()?;
    let built = BuiltTable::build(file, &source, &arguments.table)?;
    let verdict = if arguments.verify { Some(built.verify(file, &source)?) } else { None };
    let own = source.table.as_ref().map(|section| section.bytes.len());
    let summary = Summary {
        object,
        file,
        built: &built,
        own,
        verdict,
        options: &arguments.table,
        names: arguments.names,
    };
    let strict = Status::differs_if(arguments.strict && !built.warnings.is_empty());
    let written = if arguments.json { output::print_json(&summary.json()?) } else { summary.print() };
    Ok((status::judged(summary.status().max(strict), written)?, built.bytes))
}

/// The data of the report.
struct Summary<'s, 'a> {
    object: &'s Object<'a>,
    file: &'s File<'a>,
    built: &'s BuiltTable,
    /// Bytes of the file's own section.
    own: Option<usize>,
    verdict: Option<Verdict>,
    options: &'s TableOptions,
    names: Names,
}

impl Summary<'_, '_> {
    fn status(&self) -> Status {
        let mut warnings = self.built.warnings.iter();
        let is_lost = warnings.any(|warning| matches!(warning, Warning::FourthPersonality { fde: None, .. }));
        let is_good = self.verdict.as_ref().is_none_or(Verdict::is_good);
        let Entries { without_fde, after_sentinel, .. } = &self.built.entries;
        let is_omitted = *without_fde != 0 || !after_sentinel.is_empty();
        Status::differs_if(is_omitted || !is_good || is_lost)
    }

    /// Returns the number of warnings of each kind, with the first of them.
    fn warnings(&self) -> Vec<(u64, &Warning)> {
        let mut kinds: Vec<(u64, &Warning)> = Vec::new();
        for warning in &self.built.warnings {
            let kind = std::mem::discriminant(warning);
            match kinds.iter_mut().find(|(_, first)| std::mem::discriminant(*first) == kind) {
                Some((count, _)) => *count += 1,
                None => kinds.push((1, warning)),
            }
        }
        kinds
    }

    /// Writes the summary to standard error, in a single write.
    fn print(&self) -> anyhow::Result<()> {
        let mut text = Vec::new();
        let (name, layout) = (&self.object.name, self.options.layout_name());
        let stats = self.built.stats(self.file)?;
        let encodings = &self.built.entries.encodings;
        if self.built.entries.source == "cfi" {
            let (functions, compact) = (encodings.functions, encodings.compact());
            let all = Number(functions, "function");
            let part = percent(compact, functions);
            write!(text, "{name}: {all}: {compact} with a compact encoding ({part})")?;
            let unread = [("that cannot be read", encodings.malformed.len().to_u64())];
            writeln!(text, ", {} in DWARF mode{}", encodings.in_dwarf_mode.len(), Counts(&unread))?;
            let mut reasons = encodings.reasons();
            reasons.remove(MALFORMED);
            reasons::print(&mut text, "in DWARF mode", &reasons)?;
        } else {
            writeln!(text, "{name}: from its __{}", self.built.entries.source)?;
        }
        write!(text, "  __unwind_info ({layout}): {} bytes", self.built.bytes.len())?;
        match self.own {
            Some(own) => {
                let part = percent(self.built.bytes.len().to_u64(), own.to_u64());
                writeln!(text, ", {part} of the file's own ({own})")?;
            }
            None => writeln!(text)?,
        }
        let Stats { entries, compressed_pages, regular_pages, modes, .. } = &stats;
        let kinds = [("in DWARF mode", modes.dwarf), ("without unwind information", modes.none)];
        write!(text, "  entries: {entries}{}, ", Counts(&kinds))?;
        writeln!(text, "in {compressed_pages} compressed and {regular_pages} regular pages")?;
        writeln!(text, "  personalities: {}, LSDAs: {}", stats.personalities, stats.lsdas)?;
        if let Some(Verdict { report, broken }) = &self.verdict {
            writeln!(text, "  verified against the CFI, as gimli evaluates it:")?;
            compact_verdict::print(&mut text, report, &Places::new(self.file).with_names(self.names))?;
            compact_verdict::print_violations(&mut text, "__unwind_info", broken)?;
        }
        std::io::stderr().write_all(&text)?;
        self.warn();
        Ok(())
    }

    fn warn(&self) {
        let (name, without_fde) = (&self.object.name, self.built.entries.without_fde);
        if without_fde != 0 {
            status::warn(&format_args!(
                "{name}: {without_fde} compact entries for code without an FDE are omitted"
            ));
        }
        let omitted = &self.built.entries.after_sentinel;
        if !omitted.is_empty() {
            let places = Places::new(self.file).with_names(self.names);
            let first: Vec<_> = omitted.iter().take(WARNINGS).map(|start| places.name(*start)).collect();
            let more = [("more", omitted.len().saturating_sub(WARNINGS).to_u64())];
            status::warn(&format_args!(
                "{name}: {} after the sentinel of the file's table, where no reader looks for them, are omitted: {}{}",
                Number(omitted.len().to_u64(), "function"),
                first.join(", "),
                Counts(&more)
            ));
        }
        for (count, first) in self.warnings() {
            status::warn(&format_args!("{name}: {}, the first: {first}", Number(count, "function")));
        }
    }

    fn json(&self) -> anyhow::Result<SummaryJson<'_>> {
        let (warnings, omitted) = (&self.built.warnings, &self.built.entries.after_sentinel);
        Ok(SummaryJson {
            schema: "cfipack/unwind-info/1",
            file: self.object.name.plain(),
            source: self.built.entries.source,
            layout: self.options.layout_name(),
            coverage: self.built.entries.encodings.coverage(),
            after_sentinel: omitted.iter().take(WARNINGS).map(Address::to_string).collect(),
            more_after_sentinel: omitted.len().saturating_sub(WARNINGS),
            without_fde: self.built.entries.without_fde,
            unwind_info: self.built.stats(self.file)?,
            own_bytes: self.own,
            warnings: warnings.iter().take(WARNINGS).map(Warning::to_string).collect(),
            more_warnings: warnings.len().saturating_sub(WARNINGS),
            verify: self.verdict.as_ref(),
        })
    }
}

/// The number of warnings that are listed.
const WARNINGS: usize = 100;

/// The summary, as `cfipack/unwind-info/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SummaryJson<'r> {
    schema: &'static str,
    file: FileName,
    /// `cfi`, `unwind_info` or `compact_unwind`.
    source: &'static str,
    layout: &'static str,
    /// The functions of the CFI from which entries are made. Unless `source` is `cfi`, these functions have no row.
    #[serde(flatten)]
    coverage: Coverage,
    /// The first functions that are omitted because they are after the sentinel of the file's table, where no reader
    /// finds them.
    after_sentinel: Vec<String>,
    more_after_sentinel: usize,
    /// The number of compact entries that are omitted because their code has no FDE.
    without_fde: u64,
    unwind_info: Stats,
    /// The size of the file's own `__unwind_info` in bytes, or null if it has none.
    own_bytes: Option<usize>,
    warnings: Vec<String>,
    more_warnings: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<&'r Verdict>,
}
