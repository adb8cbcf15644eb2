//! The conversion, the verb without a name: CFI in, a `.sframe` section out.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cfipack_container::{CallFrameSection, File, Kind, Layout};
use cfipack_decoder::sframe;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::Report;
use serde::Serialize;

use crate::cfi_bytes::CfiBytes;
use crate::conversion::{Conversion, TableOptions, most_frequent_first};
use crate::count::{Counts, percent};
use crate::input::{self, Input, Object};
use crate::output;
use crate::place::Places;
use crate::status::Status;
use crate::verify::{self, ReportJson};

/// Options of the conversion
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Object or linked file whose .eh_frame (or .debug_frame, where there is none) is converted
    #[arg(value_name = "INPUT", required = true)]
    input: Option<PathBuf>,
    /// Write the bytes of the .sframe section to FILE, "-" for standard output; of a relocatable
    /// object: before relocation, its relocations in --json. Without it there is only the summary
    #[arg(long, value_name = "FILE")]
    section: Option<PathBuf>,
    /// Where those bytes will lie in memory: starts are relative to their own place
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address)]
    address: Option<Address>,
    #[command(flatten)]
    table: TableOptions,
    /// Convert on N threads; the bytes are the same for every N
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    /// Hold the result against the CFI, which gimli evaluates; exit status 1 if a PC differs
    #[arg(long)]
    verify: bool,
    /// Print the summary as one JSON object to standard output
    #[arg(long)]
    json: bool,
    /// Exit status 1 if less than PERCENT of the functions are converted
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    min_coverage: Option<f64>,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.trim_end_matches('%').parse().map_err(|_| "not a number".to_string())?;
    (0.0..=100.0).contains(&percent).then_some(percent).ok_or_else(|| "not between 0 and 100".to_string())
}

/// Converts the input.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let section = arguments.section.as_deref();
    let Some(path) = arguments.input.as_deref() else { bail!("an INPUT is needed") };
    if arguments.json && section == Some(Path::new("-")) {
        bail!("--section - and --json both ask for standard output");
    }
    if section.is_some_and(|section| is_same_file(section, path)) {
        bail!("{}: --section would overwrite the input", path.display());
    }
    let input = Input::open(path)?;
    let object = input.object(Layout::Apart)?;
    convert(&object, section, arguments).with_context(|| object.name.to_string())
}

fn convert(object: &Object<'_>, section: Option<&Path>, arguments: &Arguments) -> anyhow::Result<Status> {
    let file = object.file()?;
    let is_relocatable = file.kind() == Kind::Relocatable;
    if is_relocatable && arguments.address.is_some() {
        bail!("--address: the linker places the section of a relocatable object");
    }
    let sections = input::call_frame_sections(file)?;
    let conversion = Conversion::of(file, &sections, &arguments.table, arguments.threads.get())?;
    let address = arguments.address.unwrap_or_default();
    let bytes = if is_relocatable { conversion.relocatable()? } else { conversion.linked(address)? };
    let report = if arguments.verify {
        let placed = if is_relocatable { relocated(&conversion, &bytes, file.arch()) } else { None };
        let table = sframe::Section::parse(placed.as_deref().unwrap_or(&bytes), address)?;
        Some(verify::of_file(file, &[table], arguments.table.padding())?)
    } else {
        None
    };
    if let Some(section) = section {
        output::binary(section, &bytes)?;
    }
    let summary =
        Summary { object, file, sections: &sections, conversion: &conversion, report: report.as_ref() };
    if arguments.json {
        let mut out = output::standard();
        output::json(&mut out, &summary.json(bytes.len())?)?;
        out.flush()?;
    } else {
        summary.print(bytes.len())?;
    }
    let is_true = report.is_none_or(|report| report.is_true() && report.missing <= conversion.left_out());
    let is_covered = arguments
        .min_coverage
        .is_none_or(|percent| conversion.converted() as f64 * 100.0 >= percent * conversion.functions as f64);
    if let Some(percent) = arguments.min_coverage.filter(|_| !is_covered) {
        crate::status::warn(&format_args!(
            "{}: less than {percent} % of the functions are converted",
            object.name
        ));
    }
    Ok(Status::differs_if(!is_true || !is_covered))
}

/// Whether both paths lead to one file.
fn is_same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// The section of a relocatable object as it would be at address 0, with every section of code where
/// [`Layout::Apart`] has it: what a linker would make of the bytes and their relocations.
fn relocated(conversion: &Conversion, bytes: &[u8], arch: Arch) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let endian = arch.endian();
    let is_wide = conversion.version == Version::V3;
    for (field, start) in conversion.section.start_fields() {
        let distance = start.distance_from(Address(field.0 as u64)).cast_unsigned();
        if is_wide {
            bytes.get_mut(field.0..)?.first_chunk_mut().map(|field| *field = endian.put_u64(distance))?;
        } else {
            bytes
                .get_mut(field.0..)?
                .first_chunk_mut()
                .map(|field| *field = endian.put_u32(distance as u32))?;
        }
    }
    Some(bytes)
}

/// What there is to say about a conversion.
struct Summary<'s, 'a> {
    object: &'s Object<'a>,
    file: &'s File<'a>,
    sections: &'s [CallFrameSection<'a>],
    conversion: &'s Conversion,
    report: Option<&'s Report>,
}

impl Summary<'_, '_> {
    /// Writes it to standard error, in one piece.
    fn print(&self, sframe: usize) -> anyhow::Result<()> {
        let Conversion { functions, .. } = *self.conversion;
        let (converted, left_out) = (self.conversion.converted(), self.conversion.left_out());
        let mut text = Vec::new();
        write!(text, "{}: {functions} functions: {converted} converted", self.object.name)?;
        writeln!(text, " ({}), {left_out} left out", percent(converted, functions))?;
        let reasons = most_frequent_first(&self.conversion.reasons());
        if !reasons.is_empty() {
            writeln!(text, "  left out: {}", Counts(&reasons).list())?;
        }
        let cfi = CfiBytes::of(self.file, self.sections)?;
        writeln!(text, "  .sframe: {sframe} bytes, {} of {cfi}", percent(sframe as u64, cfi.total()))?;
        if let Some(report) = self.report {
            writeln!(text, "  verified against the CFI, as gimli evaluates it:")?;
            verify::print(&mut text, report, &Places::new(self.file))?;
        }
        std::io::stderr().write_all(&text)?;
        Ok(())
    }

    fn json(&self, sframe: usize) -> anyhow::Result<SummaryJson<'_>> {
        Ok(SummaryJson {
            schema: "cfipack/convert/1",
            file: self.object.name.to_string(),
            functions: self.conversion.functions,
            converted: self.conversion.converted(),
            unsupported: self.conversion.left_out(),
            reasons: self.conversion.reasons(),
            bytes: BytesJson { sframe, cfi: CfiBytes::of(self.file, self.sections)? },
            relocations: self.relocations(),
            verify: self.report.map(ReportJson::new),
        })
    }

    /// What a relocatable object's section needs; null for a linked file.
    fn relocations(&self) -> Option<Vec<RelocationJson>> {
        if self.file.kind() != Kind::Relocatable {
            return None;
        }
        let kind = relocation_type(self.file.arch(), self.conversion.version);
        let fields = self.conversion.section.start_fields();
        let relocations = fields.map(|(field, start)| {
            let place = self.file.locate(start);
            RelocationJson {
                offset: field.to_string(),
                r#type: kind,
                section: place.as_ref().map(|place| place.section),
                symbol: place.as_ref().map(|place| place.name.to_string()),
                addend: place.map_or(start.0, |place| place.offset),
            }
        });
        Some(relocations.collect())
    }
}

/// The relocation of a start field, which is relative to itself, as gas writes it.
fn relocation_type(arch: Arch, version: Version) -> &'static str {
    match (arch, version) {
        (Arch::S390x, Version::V3) => "R_390_PC64",
        (Arch::S390x, _) => "R_390_PC32",
        (Arch::Aarch64 | Arch::Aarch64Be, Version::V3) => "R_AARCH64_PREL64",
        (Arch::Aarch64 | Arch::Aarch64Be, _) => "R_AARCH64_PREL32",
        (_, Version::V3) => "R_X86_64_PC64",
        (_, _) => "R_X86_64_PC32",
    }
}

/// The summary.
#[derive(Serialize)]
struct SummaryJson<'r> {
    schema: &'static str,
    file: String,
    functions: u64,
    converted: u64,
    unsupported: u64,
    reasons: BTreeMap<&'static str, u64>,
    bytes: BytesJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    relocations: Option<Vec<RelocationJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<ReportJson<'r>>,
}

/// Bytes of the result and of what it was made from.
#[derive(Serialize)]
struct BytesJson {
    sframe: usize,
    #[serde(flatten)]
    cfi: CfiBytes,
}

/// A relocation against the symbol of a section. `section` is its place in the section table: names
/// need not be unique.
#[derive(Serialize)]
struct RelocationJson {
    offset: String,
    r#type: &'static str,
    section: Option<usize>,
    symbol: Option<String>,
    addend: u64,
}
