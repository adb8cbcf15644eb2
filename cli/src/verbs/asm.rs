//! `asm`: assembler text in, tables out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cfipack_assembler::text::{self, Format, Label, Reader, Unit};
use cfipack_assembler::{Dialect, Target};
use cfipack_container::has_known_magic;
use cfipack_encoder::sframe::GasDifference;
use cfipack_format::sframe::Abi;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, Key};
use serde::Serialize;

use crate::conversion::TableOptions;
use crate::io::check;
use crate::io::input::or_standard_input;
use crate::io::mmap::Bytes;
use crate::io::output;
use crate::report::count::{Number, percent};
use crate::report::escaped::Escaped;
use crate::report::status::{self, Status};
use crate::report::symbol::{Names, SymbolName};

mod emit;

/// Makes tables from the .cfi_* directives of assembler text: a listing, or a source of data directives
#[derive(clap::Args, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Listing (as -aclmn=FILE --listing-rhs-width=200), or source whose sizes data directives fix
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// Architecture: x86_64, i386, aarch64, aarch64_be, arm64_32, s390x; a listing of code with odd sizes
    /// is x86_64's
    #[arg(long, value_name = "ARCH", value_parser = parse_arch)]
    arch: Option<Arch>,
    /// The file that a listing is of, for lines that it cuts
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// File format of a source: elf or mach-o; it is what the source's sections are without it
    #[arg(long, value_name = "NAME", value_enum)]
    format: Option<FormatName>,
    /// What to make
    #[arg(long, value_name = "WHAT", value_enum, default_value = "sframe")]
    emit: Emit,
    /// Put a .eh_frame into the object too, for code assembled without one
    #[arg(long)]
    with_eh_frame: bool,
    /// The linker that takes the object
    #[arg(long, value_name = "NAME", value_enum, default_value = "ld")]
    linker: LinkerName,
    /// Whose compact encodings: checked ones are true in bodies and at calls
    #[arg(long, value_name = "NAME", value_enum, default_value = "checked")]
    encodings: EncodingsName,
    /// Write it: the bytes of the section before relocation, or the object; "-": standard output
    #[arg(long, short = 'o', visible_alias = "output", value_name = "FILE")]
    section: Option<PathBuf>,
    /// Exit status 1 if a function is omitted or in DWARF mode
    #[arg(long)]
    strict: bool,
    /// The summary as one JSON object on standard output, relocations included
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    table: TableOptions,
}

const HELP: &str = "\
The text is not assembled. A listing has the offset of every instruction:
  gcc -S f.c && as -aclmn=f.lst --listing-rhs-width=200 f.s -o f.o
  gcc -c f.c -Wa,-aclmn=f.lst,--listing-rhs-width=200
  clang -fno-integrated-as -c f.c -Wa,-aclmn=f.lst,--listing-rhs-width=200
A source may have labels, sections, CFI and data (.byte, .skip, .p2align ...), and no
instructions or macros. What is not certain is an error that names the option to add.

--emit object makes a relocatable ELF object that has .sframe and no code. GNU ld joins it with
the object of the code first, since its link drops entries about another object's functions:
  ld -r code.o tables.o -o both.o
ld.lld (--linker lld) takes it in the link itself: ld.lld code.o tables.o ...
Its fields lead to global symbols, undefined in it, of the object of the code: for a function,
the last symbol before it in its section that .globl or .weak names, or the first one after
it, and the distance. Of these, .hidden and .protected symbols come first: a shared
library needs one in each section of code, since others may be taken over by other modules. A
function in a section without global symbols, or in a COMDAT group (of which the linker may
keep another object's code), is omitted with a warning. Mach-O linkers drop
rows about code of another object, so that there is no such object for Mach-O.";

/// The product of the verb.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Emit {
    /// .sframe
    Sframe,
    /// .eh_frame
    EhFrame,
    /// __compact_unwind
    CompactUnwind,
    /// an ELF object with only tables
    Object,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum FormatName {
    Elf,
    MachO,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum LinkerName {
    /// GNU ld: ld -r code.o tables.o -o both.o
    Ld,
    /// ld.lld: in the link itself
    Lld,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum EncodingsName {
    Checked,
    LlvmMc,
}

fn parse_arch(name: &str) -> Result<Arch, String> {
    // Of others there is generated code alone.
    let has_table = |arch: &Arch| Abi::for_arch(*arch).is_some() || arch.has_compact_unwind();
    Arch::named(name).filter(has_table).ok_or_else(|| {
        let names: Vec<_> =
            Arch::ALL.iter().filter(|arch| has_table(arch)).map(|arch| arch.names()[0]).collect();
        format!("not one of {}", names.join(", "))
    })
}

/// Errors that are printed of one file.
const ERRORS_SHOWN: usize = 100;

/// Reads the text and makes what is asked for.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let output = arguments.section.as_deref();
    if arguments.json && output.is_some_and(output::is_standard) {
        bail!("--section and --json both ask for standard output");
    }
    arguments.table.check()?;
    if arguments.with_eh_frame && arguments.emit != Emit::Object {
        bail!("--with-eh-frame: only --emit object makes an object");
    }
    if arguments.linker != LinkerName::Ld && arguments.emit != Emit::Object {
        bail!("--linker: only --emit object makes an object");
    }
    if arguments.encodings != EncodingsName::Checked && arguments.emit != Emit::CompactUnwind {
        bail!("--encodings: only --emit compact-unwind makes encodings");
    }
    if !matches!(arguments.emit, Emit::Sframe | Emit::Object) {
        arguments.table.check_unused()?;
    }
    let inputs = [Some(&arguments.input), arguments.source.as_ref()];
    if let Some(output) = output
        && let Some(same) = inputs.into_iter().flatten().find(|input| output::is_same_file(output, input))
    {
        bail!("{}: --section would overwrite the input", same.display());
    }
    output.map_or(Ok(()), check::output)?;
    let text = open(&arguments.input)?;
    let source = arguments.source.as_deref().map(open).transpose()?;
    let Some(unit) = read(arguments, &text, source.as_deref())? else { return Ok(Status::Failed) };
    let name = || arguments.input.display().to_string();
    let made = emit::emit(&unit, arguments).with_context(name)?;
    for omitted in &made.omitted {
        let function = &unit.functions[omitted.function];
        let what = if arguments.emit == Emit::CompactUnwind { "in DWARF mode" } else { "omitted" };
        let symbol = function.name.as_deref().map(|name| arguments.names.symbol(name, 0));
        let symbol = symbol.as_ref().and_then(SymbolName::text).unwrap_or("(no name)");
        status::warn(&format_args!("{}:{}: {symbol}: {what}: {}", name(), function.line, omitted.text));
    }
    warn_of_text(arguments, &unit, &made, &name());
    let written = output.map_or(Ok(()), |output| output::binary(output, &made.bytes));
    let written = written.and_then(|()| match arguments.json {
        true => print_json(&made.json(&unit, &name())),
        false => made.print(&unit, &name()),
    });
    // Functions of the text that no table of the object has, for want of symbols.
    status::judged(
        Status::differs_if(made.is_incomplete || arguments.strict && !made.omitted.is_empty()),
        written,
    )
}

/// Warns as an assembler does, and of functions for which gas's own table is another one.
fn warn_of_text(arguments: &Arguments, unit: &Unit, made: &Made, name: &str) {
    for warning in &unit.warnings {
        status::warn(&format_args!("{name}:{}:{}: {}", warning.line, warning.column, warning.problem));
    }
    for &(key, GasDifference { offset, directive, .. }) in &made.gas_differences {
        let function = &unit.functions[key.0.to_usize()];
        let symbol = function.name.as_deref().map(|name| arguments.names.symbol(name, 0));
        let symbol = symbol.as_ref().and_then(SymbolName::text).unwrap_or("(no name)");
        status::warn(&format_args!(
            "{name}:{}: {symbol}: gas writes other rows from +{offset:#x} on: its {directive} is wrong there \
             (docs/known-errors.md)",
            function.line
        ));
    }
}

fn open(path: &Path) -> anyhow::Result<Bytes> {
    let bytes = Bytes::open(or_standard_input(path), |_| u64::MAX);
    let bytes = bytes.with_context(|| path.display().to_string())?;
    if has_known_magic(&bytes) {
        bail!("{}: an object, a linked file or an archive, not assembler text", path.display());
    }
    Ok(bytes)
}

/// The unit, or none after its errors are printed.
fn read(arguments: &Arguments, text: &[u8], source: Option<&[u8]>) -> anyhow::Result<Option<Unit>> {
    let name = arguments.input.display().to_string();
    if source.is_some() && !text::is_listing(text) {
        bail!("--source: {name} is no listing");
    }
    let mut reader = Reader::new(arguments.arch.unwrap_or(Arch::Amd64));
    match arguments.format {
        Some(FormatName::Elf) => reader = reader.with_format(Format::Elf),
        Some(FormatName::MachO) => reader = reader.with_format(Format::MachO),
        None => {}
    }
    if let Some(source) = source {
        reader = reader.with_source(source);
    }
    match reader.read(text) {
        Ok(unit) if arguments.arch.is_none() && !(text::is_listing(text) && unit.has_odd_sizes) => {
            bail!("{name}: the text does not say for which architecture it is: give --arch")
        }
        Ok(unit) => Ok(Some(unit)),
        Err(errors) => {
            let name = Escaped(&name).to_string();
            let _ = std::io::stderr().write_all(errors.print_first(&name, ERRORS_SHOWN).as_bytes());
            Ok(None)
        }
    }
}

fn print_json(summary: &impl Serialize) -> anyhow::Result<()> {
    let mut out = output::standard();
    output::json(&mut out, summary)?;
    Ok(out.flush()?)
}

/// The product that was made.
#[derive(Debug)]
struct Made {
    section: &'static str,
    bytes: Vec<u8>,
    relocations: Vec<Relocation>,
    omitted: Vec<Omitted>,
    /// Functions for which gas's table is not that of layout `gnu`, if that is asked for.
    gas_differences: Vec<(Key, GasDifference)>,
    /// True if functions are omitted that the format has.
    is_incomplete: bool,
}

/// A function that is not in the table.
#[derive(Debug)]
struct Omitted {
    function: usize,
    /// A short name of the reason.
    reason: &'static str,
    text: String,
}

/// A field that a linker fills.
#[derive(Debug)]
struct Relocation {
    offset: usize,
    kind: String,
    symbol: Option<String>,
    /// The section's place among the unit's.
    section: Option<usize>,
    addend: i64,
}

impl Made {
    /// Functions that are not in the table; one that is missing in two is one.
    fn num_omitted(&self) -> u64 {
        self.omitted.iter().map(|omitted| omitted.function).collect::<BTreeSet<_>>().len().to_u64()
    }

    fn print(&self, unit: &Unit, name: &str) -> anyhow::Result<()> {
        let mut text = Vec::new();
        let functions = unit.functions.len().to_u64();
        let omitted = self.num_omitted();
        let converted = functions - omitted;
        let share = percent(converted, functions);
        let name = Escaped(name);
        let (done, rest) = match self.section {
            "__compact_unwind" => ("with a compact encoding", "in DWARF mode"),
            _ => ("converted", "omitted"),
        };
        let all = Number(functions, "function");
        writeln!(text, "{name}: {all}: {converted} {done} ({share}), {omitted} {rest}")?;
        writeln!(text, "  {}: {}", self.section, Number(self.bytes.len() as u64, "byte"))?;
        if !self.gas_differences.is_empty() {
            let differing = Number(self.gas_differences.len() as u64, "function");
            writeln!(text, "  not what gas writes, by its errors: {differing}")?;
        }
        std::io::stderr().write_all(&text)?;
        Ok(())
    }

    fn json<'r>(&'r self, unit: &'r Unit, name: &str) -> SummaryJson<'r> {
        let mut reasons = BTreeMap::new();
        for function in &self.omitted {
            *reasons.entry(function.reason).or_default() += 1;
        }
        let mut gas_differences = BTreeMap::new();
        for (_, difference) in &self.gas_differences {
            *gas_differences.entry(difference.directive).or_default() += 1;
        }
        let refused = self.num_omitted();
        // A function without a compact encoding is in the section, in DWARF mode.
        let is_compact = self.section == "__compact_unwind";
        SummaryJson {
            schema: "cfipack/asm/1",
            file: name.to_owned(),
            arch: unit.arch.to_string(),
            format: if unit.format == Format::MachO { "mach-o" } else { "elf" },
            functions: unit.functions.len().to_u64(),
            converted: unit.functions.len().to_u64() - refused,
            dwarf: if is_compact { refused } else { 0 },
            omitted: if is_compact { 0 } else { refused },
            reasons,
            gas_differences,
            section: self.section,
            bytes: self.bytes.len(),
            relocations: self.relocations.iter().map(|relocation| relocation.json(unit)).collect(),
        }
    }
}

/// Labels by their names.
type Labels<'u> = BTreeMap<&'u str, &'u Label>;

fn labels(unit: &Unit) -> Labels<'_> {
    unit.labels.iter().map(|label| (label.name.as_str(), label)).collect()
}

impl Relocation {
    fn new(
        (unit, labels): (&Unit, &Labels<'_>),
        offset: usize,
        kind: String,
        target: Target,
        addend: i64,
    ) -> Self {
        let (symbol, place) = match target {
            Target::Function(key) => {
                let function = &unit.functions[key.0.to_usize()];
                (function.name.clone(), Some((function.section, function.offset)))
            }
            Target::Personality(key) | Target::Lsda(key) => {
                let name = &unit.symbols[key.0.to_usize()];
                (Some(name.clone()), labels.get(name.as_str()).map(|label| (label.section, label.offset)))
            }
            _ => (None, None),
        };
        let addend = addend + place.map_or(0, |(_, offset)| offset as i64);
        Self { offset, kind, symbol, section: place.map(|(section, _)| section), addend }
    }

    fn json<'r>(&'r self, unit: &'r Unit) -> RelocationJson<'r> {
        let section = self.section.map(|section| &unit.sections[section]);
        RelocationJson {
            offset: format!("{:#x}", self.offset),
            r#type: &self.kind,
            symbol: self.symbol.as_deref(),
            section: section.map(|section| section.name.as_str()),
            group: section.and_then(|section| section.group.as_deref()),
            addend: self.addend,
        }
    }
}

/// The summary.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SummaryJson<'r> {
    schema: &'static str,
    file: String,
    arch: String,
    format: &'static str,
    functions: u64,
    /// With rows, instructions or a compact encoding in the section.
    converted: u64,
    /// In DWARF mode.
    dwarf: u64,
    omitted: u64,
    reasons: BTreeMap<&'static str, u64>,
    /// Layout `gnu`: the functions for which gas itself writes other rows, by the directive that it gets wrong.
    gas_differences: BTreeMap<&'static str, u64>,
    section: &'static str,
    bytes: usize,
    relocations: Vec<RelocationJson<'r>>,
}

/// A relocation. `addend` counts from the section's start, or from the symbol if the text does not define that.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RelocationJson<'r> {
    offset: String,
    r#type: &'r str,
    symbol: Option<&'r str>,
    section: Option<&'r str>,
    group: Option<&'r str>,
    addend: i64,
}

/// The assembler whose records are written for the text's format.
fn dialect(unit: &Unit) -> Dialect {
    if unit.format == Format::MachO { Dialect::LlvmMachO } else { Dialect::Gas }
}
