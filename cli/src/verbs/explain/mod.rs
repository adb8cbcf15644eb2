//! `explain`: prints why functions are omitted, or prints a function's rows beside its instructions.

pub mod sframe;
pub mod unwind_info;

use std::path::PathBuf;

use crate::io::debug_file::DebugFileOption;
use crate::io::each;
use crate::io::input::{self, Object};
use crate::report::place::Places;
use crate::report::status::Status;
use crate::report::symbol::Names;
use crate::report::target::{self, Target};
use crate::table_options::TableOptions;

/// Explains why a table omits functions, or one function's rows
#[derive(clap::Args, Debug)]
#[command(after_help = "\
With ADDRESS, prints the function's instructions, before each the row of the CFI (* where a
row starts; ra@-8: the return address is stored at CFA-8), and the frame at ADDRESS. Lines
with ! mark where instructions move the CFA's register and the CFI does not, or the other way
round (x86 and AArch64), and where the row of the file's own table differs.

Examples:
  cfi2sframe explain libcrypto.so                every omitted function and the reason; and every
                                                 function unwound as an innermost frame only
  cfi2sframe explain libcrypto.so 0x1a2b40       one function: its instructions and rows
  cfi2sframe explain libcrypto.so AES_encrypt    the same by its symbol
  cfi2sframe explain libfoo.so 'a::h(int)'       a::h, if there is one of that name alone
  cfi2sframe explain foo.o .text.foo+0x4         the same in an object
  cfi2sframe explain foo.o '.text.foo[5]+0x4'    the .text.foo with index 5 of several
  cfi2sframe explain --no-flex a.out             what a table without flex FDEs omits
  cfi2sframe explain libfoo.dylib                every function in DWARF mode and the reason")]
pub struct Arguments {
    /// Object or linked file with CFI
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An address in the function, decimal or hexadecimal with 0x; in an object SECTION+OFFSET; or a symbol, mangled
    /// or as the source has it, also with +OFFSET
    #[arg(value_name = "ADDRESS", value_parser = target::parse)]
    address: Option<Target>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    debug_file: DebugFileOption,
    #[command(flatten)]
    slice: input::Slice,
    #[command(flatten)]
    names: Names,
    /// Explain why functions have no compact encoding, for ELF files too
    #[arg(long)]
    pub unwind_info: bool,
    #[command(flatten)]
    pub table: TableOptions,
}

/// Explains the functions that a table omits.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let parts = (&arguments.slice, &arguments.debug_file);
    each::for_each_slice(&arguments.file, parts, arguments.json, |object| explain(object, arguments))
}

fn explain(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Status> {
    let file = object.file()?;
    arguments.table.check()?;
    let places = Places::new(file).with_names(arguments.names);
    let address = arguments.address.as_ref().map(|target| target.find(&places)).transpose()?;
    if object.is_compact() || arguments.unwind_info {
        return unwind_info::explain(object, &places, address, arguments);
    }
    sframe::explain(object, &places, address, arguments)
}
