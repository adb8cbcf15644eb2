//! The conversion of CFI into a `.sframe` section. It runs if the command line has no verb.

pub mod embed;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::{CallFrameSection, File, Kind, Placement};
use cfipack_format::Address;
use cfipack_format::sframe::Abi;
use cfipack_format::widen::ToU64;
use cfipack_format::{Reason, Unsupported};
use cfipack_lint::coverage::CodeBytes;
use cfipack_roundtrip::{Options, Report};
use serde::Serialize;

use self::embed::Conversions;
use crate::conversion::{self, Conversion};
use crate::io::absent;
use crate::io::check;
use crate::io::debug_file::{DebugFile, DebugFileJson, DebugFileOption};
use crate::io::each::{self, Outcome};
use crate::io::input::{self, CALL_FRAMES, Demand, Input, Object, Parts};
use crate::io::output;
use crate::io::values;
use crate::missing::ConversionReasons;
use crate::report::cfi_bytes::{CfiBytes, TableBytes};
use crate::report::code;
use crate::report::count::{Number, percent};
use crate::report::escaped::{Escaped, FileName};
use crate::report::excluded::{self, Excluded, Unplaced};
use crate::report::fault::TableNames;
use crate::report::limits::{Covered, Limits};
use crate::report::place::{Places, similarity};
use crate::report::reasons;
use crate::report::status::{self, Status};
use crate::report::symbol::Names;
use crate::report::unverified;
use crate::report::verdict::{self, ReportJson};
use crate::report::verification;
use crate::synthesized::SynthesizedCounts;
use crate::table_options::TableOptions;

/// Options of the conversion
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Objects, linked files or archives with .eh_frame or .debug_frame
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Write the .sframe section to FILE; "-" is standard output
    #[arg(long, value_name = "FILE")]
    section: Option<PathBuf>,
    /// Address of the section in memory [default: 0]; functions that version 2 cannot reach from
    /// this address are omitted
    #[arg(long, value_name = "ADDR", value_parser = values::parse_address)]
    address: Option<Address>,
    /// Verify the table against the CFI as gimli evaluates it; exit status 1 if a function in the table
    /// differs or cannot be judged, or if an FDE cannot be read
    #[arg(long)]
    verify: bool,
    /// Print the summary as one JSON object on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    debug_file: DebugFileOption,
    #[command(flatten)]
    slice: input::Slice,
    /// Number of threads; the bytes do not depend on it
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number_in(1..=256_u16))]
    threads: u16,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    limits: Limits,
    /// Also make rows of functions that no CFI covers, from their code: only where every way through a
    /// function is decided
    #[arg(long)]
    synthesize: bool,
    #[command(flatten)]
    table: TableOptions,
    #[command(flatten)]
    embed: embed::FileOptions,
}

/// Converts the input.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    check_verb(&arguments.inputs)?;
    arguments.debug_file.check(&arguments.inputs)?;
    if arguments.embed.writes_files() {
        let table = arguments.table.with_synthesize(arguments.synthesize);
        table.check()?;
        arguments.slice.check_unused()?;
        let Arguments { limits, json, .. } = *arguments;
        let threads = arguments.threads.into();
        let conversions = Conversions { table, threads, limits, json };
        return arguments.embed.run(&arguments.inputs, conversions, &arguments.debug_file);
    }
    arguments.embed.check_unused()?;
    if let Some(path) = arguments.inputs.iter().find(|path| path.is_dir()) {
        bail!("{}: a directory: --in-place -r puts tables into the files in it", path.display());
    }
    let section = arguments.section.as_deref();
    if arguments.address.is_some() && section.is_none() {
        bail!("--address: needs --section, without which no bytes are written");
    }
    let table = arguments.table.with_synthesize(arguments.synthesize);
    table.check()?;
    let parts = Parts::from((&arguments.slice, &arguments.debug_file));
    let parts = parts.demand(Demand::fail_if(arguments.limits.strict()));
    let Some(section) = section else {
        return each::for_each(&arguments.inputs, parts, Placement::Apart, |object, _| {
            convert(object, arguments, &table)
        });
    };
    let [path] = &arguments.inputs[..] else {
        bail!("--section: {} inputs, but one section: convert each by itself", arguments.inputs.len())
    };
    check::written("--section", section, [path], arguments.json, "")?;
    let input = Input::open(path, parts)?;
    let object = input.object(Placement::Apart)?;
    let name = || object.name.to_string();
    let Some(summary) = summary(&object, arguments, &table).with_context(name)? else {
        return Err(absent::from_object(&object, CALL_FRAMES)).with_context(name);
    };
    let written = output::binary(section, &summary.bytes).and_then(|()| summary.write(arguments.json));
    status::judged(summary.status(&arguments.limits), written)
}

/// Converts an object and writes the summary.
fn convert(object: &Object<'_>, arguments: &Arguments, table: &TableOptions) -> anyhow::Result<Outcome> {
    let Some(summary) = summary(object, arguments, table)? else { return Ok(Outcome::Absent(CALL_FRAMES)) };
    let written = summary.write(arguments.json);
    status::judged(summary.status(&arguments.limits), written).map(Outcome::Done)
}

/// Converts an object. Returns `None` if it has no CFI.
fn summary<'s, 'a>(
    object: &'s Object<'a>,
    arguments: &Arguments,
    table: &TableOptions,
) -> anyhow::Result<Option<Summary<'s, 'a>>> {
    let file = object.file()?;
    if file.as_macho().is_some() {
        bail!("{}", absent::mach_o(file));
    }
    let sections = file.call_frame_sections()?;
    if !arguments.synthesize && !input::describe_functions(&sections) {
        return Ok(None);
    }
    let summary = Summary::new(object, file, &sections, arguments, table)?;
    let has_unproven_rows = summary.report.as_ref().is_some_and(Report::has_unproven_rows);
    match table.judged_only().filter(|_| has_unproven_rows) {
        Some(table) => Summary::new(object, file, &sections, arguments, &table).map(Some),
        None => Ok(Some(summary)),
    }
}

/// Refuses an input that is no file and could be a misspelt verb.
fn check_verb(inputs: &[PathBuf]) -> anyhow::Result<()> {
    let Some(name) = inputs.first().filter(|path| !path.exists()).and_then(|path| path.to_str()) else {
        return Ok(());
    };
    let command = crate::command();
    let verbs = command.get_subcommands().map(clap::Command::get_name);
    match verbs.max_by_key(|verb| similarity(name, verb)).filter(|verb| similarity(name, verb) > 750) {
        Some(verb) if verb == name => {
            bail!("{name}: a command, which comes before the options; there is no file of that name")
        }
        Some(verb) => bail!("{name}: no file, and no command; a similar command: {verb}"),
        None => Ok(()),
    }
}

fn is_far(unsupported: &&Unsupported) -> bool {
    matches!(unsupported.reason, Reason::StartTooFar(_))
}

/// A conversion, and the data of its report.
struct Summary<'s, 'a> {
    object: &'s Object<'a>,
    file: &'s File<'a>,
    conversion: Conversion,
    /// The section.
    bytes: Vec<u8>,
    cfi: CfiBytes,
    /// The code, if it was counted.
    code: Option<CodeBytes>,
    /// FDEs that describe no function of their own.
    excluded: Excluded,
    unplaced: Vec<Unplaced>,
    report: Option<Report>,
    names: Names,
}

impl<'s, 'a> Summary<'s, 'a> {
    fn new(
        object: &'s Object<'a>,
        file: &'s File<'a>,
        sections: &[CallFrameSection<'a>],
        arguments: &Arguments,
        options: &TableOptions,
    ) -> anyhow::Result<Self> {
        let is_relocatable = file.kind() == Kind::Relocatable;
        if is_relocatable && arguments.address.is_some() {
            bail!("--address: the linker places the section of a relocatable object");
        }
        let address = match (arguments.address, &arguments.section) {
            (Some(address), _) => address,
            // Verbs that read a bare section assume this address.
            (None, Some(_)) => Address(0),
            (None, None) => conversion::place(file, sections)?,
        };
        let threads = arguments.threads.into();
        let conversion = Conversion::at(file, sections, options, threads, address)?;
        if let Some(far) = conversion.section.omitted().iter().find(is_far)
            && arguments.address.is_none()
            && arguments.section.is_some()
        {
            let place = conversion::place(file, sections)?;
            bail!(
                "--address: the default, 0x0, is too far: function {}: {}; {place} is near the code",
                far.function,
                far.reason
            );
        }
        let bytes = conversion.bytes(file)?;
        let code = conversion.code(file, &bytes, &arguments.limits)?;
        let mut report = None;
        if arguments.verify {
            let options = Options::new().with_padding(options.get().padding());
            let reasons = ConversionReasons::new(&conversion.omitted);
            report = Some(conversion.with_table(file, &bytes, |tables| {
                verification::against(file, sections, tables, &options, threads, |missing| {
                    reasons.reason(missing)
                })
            })?);
        }
        let cfi = CfiBytes::measure(file, sections)?;
        let excluded = excluded::count(sections);
        let (unplaced, names) = (Unplaced::of(file, sections), arguments.names);
        Ok(Self { object, file, conversion, bytes, cfi, code, excluded, unplaced, report, names })
    }

    /// Returns `Done` if the table passes its verification, every FDE can be read, and enough functions are converted.
    fn status(&self, limits: &Limits) -> Status {
        let is_true = self
            .report
            .as_ref()
            .is_none_or(|report| verification::passes(report, false) && self.conversion.malformed.is_empty());
        let covered = Covered {
            functions: self.conversion.functions,
            converted: self.conversion.converted(),
            code: self.code,
            unplaced: &self.unplaced,
        };
        Status::differs_if(!is_true).max(limits.status(&self.object.name, &covered))
    }

    fn write(&self, json: bool) -> anyhow::Result<()> {
        if json { output::print_json(&self.json()) } else { self.print() }
    }

    /// Writes the summary to standard error, in a single write.
    fn print(&self) -> anyhow::Result<()> {
        let Conversion { functions, .. } = self.conversion;
        let (converted, omitted) = (self.conversion.converted(), self.conversion.num_omitted());
        let mut text = Vec::new();
        let all = Number(functions, "function");
        write!(text, "{}: {all}", self.object.name)?;
        if functions + omitted == 0 {
            writeln!(text, " with CFI")?;
        } else {
            writeln!(text, ": {converted} converted ({}), {omitted} omitted", percent(converted, functions))?;
        }
        reasons::print(&mut text, "omitted", &self.conversion.reasons())?;
        for unjudged in &self.conversion.unjudged {
            writeln!(text, "  {}", Escaped(unjudged))?;
        }
        if let Some(synthesized) = &self.conversion.synthesized {
            synthesized.counts.lines().try_for_each(|line| writeln!(text, "  {line}"))?;
        }
        if let Some(line) = excluded::line(&self.excluded) {
            writeln!(text, "{line}")?;
        }
        if self.conversion.outside_dwarf != 0 {
            let omitted = Number(self.conversion.outside_dwarf, "function");
            writeln!(text, "  CFI not defined by DWARF: {omitted} omitted")?;
        }
        let (sframe, cfi) = (self.bytes.len().to_u64(), &self.cfi);
        write!(text, "  .sframe: {}", Number(sframe, "byte"))?;
        match cfi.total() {
            0 => writeln!(text)?,
            total => writeln!(text, ", {} of {cfi}", percent(sframe, total))?,
        }
        if let Some(code) = self.code.filter(|code| code.wanted() != 0) {
            writeln!(text, "  {}", code::line(&code))?;
        }
        self.object.print_debug_file(&mut text)?;
        if let Some(report) = &self.report {
            writeln!(text, "  {}:", verdict::heading(report))?;
            let places = Places::new(self.file).with_names(self.names);
            verdict::print(&mut text, report, &TableNames::default(), &places)?;
            // The reasons of functions that the conversion omits are printed above, and `explain` names the functions.
            if report.unexplained != 0 {
                unverified::print(&mut text, &report.unverified, report.more_unverified, &places)?;
            }
        }
        std::io::stderr().write_all(&text)?;
        Ok(())
    }

    fn json(&self) -> SummaryJson<'_> {
        SummaryJson {
            schema: "cfipack/convert/1",
            file: self.object.name.plain(),
            functions: self.conversion.functions,
            converted: self.conversion.converted(),
            omitted: self.conversion.num_omitted(),
            reasons: self.conversion.reasons(),
            outside_dwarf: self.conversion.outside_dwarf,
            ambiguous: self.conversion.omitted_for(Reason::Ambiguous.name()),
            synthesized: self.conversion.synthesized.as_ref().map(|own| &own.counts),
            excluded: &self.excluded,
            debug_file: self.object.debug_file.map(DebugFile::json),
            bytes: TableBytes { sframe: self.bytes.len().to_u64(), cfi: self.cfi },
            code_coverage: self.code,
            relocations: self.relocations(),
            verify: self
                .report
                .as_ref()
                .map(|report| ReportJson::new(report, &TableNames::default(), &Places::new(self.file))),
        }
    }

    /// Returns the relocations that a relocatable object's section needs, or `None` for a linked file.
    fn relocations(&self) -> Option<Vec<RelocationJson>> {
        if self.file.kind() != Kind::Relocatable {
            return None;
        }
        let kind = Abi::for_arch(self.file.arch())?.start_relocation(self.conversion.version).name;
        let fields = self.conversion.section.start_fields();
        let relocations = fields.map(|field| {
            let (field, start) = (field.field, field.address());
            let place = self.file.locate(start);
            RelocationJson {
                offset: field.to_string(),
                r#type: kind,
                section_index: place.as_ref().map(|place| place.section),
                symbol: place.as_ref().map(|place| place.name.to_string()),
                addend: place.map_or(start.0, |place| place.offset),
            }
        });
        Some(relocations.collect())
    }
}

/// The summary, as `cfipack/convert/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SummaryJson<'r> {
    schema: &'static str,
    file: FileName,
    functions: u64,
    converted: u64,
    omitted: u64,
    reasons: BTreeMap<&'static str, u64>,
    /// The number of omitted functions whose CFI DWARF does not define, and of FDEs that cannot be read.
    outside_dwarf: u64,
    ambiguous: u64,
    /// The functions that no CFI covers, if `--synthesize` is given. The other counts do not include them.
    #[serde(skip_serializing_if = "Option::is_none")]
    synthesized: Option<&'r SynthesizedCounts>,
    excluded: &'r Excluded,
    /// The separate debug file that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    debug_file: Option<DebugFileJson>,
    bytes: TableBytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    code_coverage: Option<CodeBytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relocations: Option<Vec<RelocationJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<ReportJson<'r>>,
}

/// A relocation against the symbol of a section. `section_index` is the section's number in the section table, because
/// several sections can have the same name.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RelocationJson {
    offset: String,
    r#type: &'static str,
    section_index: Option<usize>,
    symbol: Option<String>,
    addend: u64,
}
