//! `annotate`: makes directives from the code of an object, for functions of its assembler source without CFI.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::{Placement, has_known_magic};
use cfipack_lint::annotate::{self, Omission, annotate};
use serde::Serialize;

use crate::io::input::{self, Input};
use crate::io::mmap::Bytes;
use crate::io::{check, output};
use crate::report::count::Number;
use crate::report::escaped::FileName;
use crate::report::reasons;
use crate::report::status::{self, Status};
use crate::report::symbol::{Names, SymbolName};

/// Adds .cfi_* directives to the functions of an assembler source that have none
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The directives are made from the object's code. Assemble the source with -g first, so that the
object has a line for each instruction. A function gets directives if every way through it is
decided, and if each directive has a line. Omitted functions are named with the reason. All other
text is kept. This command runs no assembler: assemble the result, and check it:
  as -g foo.s -o foo.o                             or: gcc -g -c foo.S -o foo.o
  cfi2sframe annotate foo.s --object foo.o -o foo.cfi.s
  as foo.cfi.s -o foo.cfi.o && cfi2sframe lint foo.cfi.o
x86-64 and AArch64, ELF. Sources that the C preprocessor reads (.S) are annotated as they are;
directives in conditional parts hold for the configuration of the object.")]
pub struct Arguments {
    /// Assembler source
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// The object that an assembler made from FILE with -g
    #[arg(long, value_name = "FILE")]
    object: PathBuf,
    /// Write the annotated source to OUT instead of standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Exit status 1 if a function is omitted
    #[arg(long)]
    strict: bool,
    /// The summary as one JSON object on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    slice: input::Slice,
}

/// Annotates the source.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let name = FileName::of_path(&arguments.input);
    let destination = arguments.output.as_deref();
    if arguments.json && destination.is_none_or(output::is_standard) {
        bail!("--json asks for standard output too: give --output FILE");
    }
    if let Some(destination) = destination {
        check::written("--output", destination, [&arguments.input, &arguments.object], false, "")?;
    }
    let text = Bytes::open(input::or_standard_input(&arguments.input), |_| u64::MAX);
    let text = text.with_context(|| name.to_string())?;
    if has_known_magic(&text) {
        bail!("{name}: an object, a linked file or an archive, not assembler text");
    }
    let object = Input::open(&arguments.object, &arguments.slice)?;
    let object = object.object(Placement::Apart)?;
    let annotated = annotate(&text, arguments.input.as_os_str().as_encoded_bytes(), object.file()?)
        .with_context(|| object.name.to_string())?;
    let omitted = annotated.omitted.iter().map(|omitted| {
        let symbol = omitted.name.as_ref().map(|name| arguments.names.symbol(name, 0));
        let (line, mnemonic) = (omitted.line, omitted.mnemonic.clone());
        OmittedJson { name: symbol.unwrap_or_default(), reason: omitted.omission.name(), line, mnemonic }
    });
    let omitted: Vec<OmittedJson> = omitted.collect();
    for function in &omitted {
        status::warn(&format_args!("{name}{function}"));
    }
    let status = Status::differs_if(arguments.strict && !omitted.is_empty());
    let written = match destination {
        Some(destination) => output::binary(destination, &annotated.text),
        None => print(&annotated.text),
    };
    written?;
    let summary = AnnotateJson {
        schema: "cfipack/annotate/1",
        file: name,
        object: object.name.plain(),
        annotated: annotated.functions,
        omitted: omitted.len() as u64,
        directives: annotated.directives,
        reasons: annotate::reasons(&annotated),
        functions: omitted,
    };
    let reported = if arguments.json { output::print_json(&summary) } else { summary.print() };
    status::judged(status, reported)
}

fn print(text: &[u8]) -> anyhow::Result<()> {
    let mut out = output::standard();
    out.write_all(text)?;
    Ok(out.flush()?)
}

/// The report of `annotate`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AnnotateJson {
    schema: &'static str,
    /// The path of the assembler source.
    file: FileName,
    /// The path of the object.
    object: FileName,
    /// The number of functions that got directives.
    annotated: u64,
    /// The number of functions, and of other pieces of code without CFI, that got no directives.
    omitted: u64,
    /// The number of added directives, without `.cfi_startproc` and `.cfi_endproc`.
    directives: u64,
    /// The number of omitted functions for each reason.
    reasons: BTreeMap<&'static str, u64>,
    /// The omitted functions and pieces of code, in the order of their addresses.
    functions: Vec<OmittedJson>,
}

/// A function without directives.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OmittedJson {
    #[serde(flatten)]
    name: SymbolName,
    /// The name of the reason.
    reason: &'static str,
    /// The number, from 1, of the line that shows the reason. Null if the source does not have it.
    line: Option<u64>,
    /// The name of the instruction that shows the reason.
    mnemonic: String,
}

impl std::fmt::Display for OmittedJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        let symbol = self.name.text().unwrap_or("(no name)");
        write!(f, ": {symbol}: not annotated: {}", self.reason)?;
        if self.reason == Omission::NoType.name() {
            return write!(f, ", '.type {symbol}, %function' is missing");
        }
        write!(f, " ({})", self.mnemonic)
    }
}

impl AnnotateJson {
    fn print(&self) -> anyhow::Result<()> {
        let functions = Number(self.annotated, "function");
        let directives = Number(self.directives, "directive");
        let name = &self.file;
        let mut line = format!("{name}: {functions} annotated with {directives}, {} omitted", self.omitted);
        if let Some(reasons) = reasons::list(&self.reasons) {
            line += &format!(": {reasons}");
        }
        writeln!(std::io::stderr(), "{line}")?;
        Ok(())
    }
}
