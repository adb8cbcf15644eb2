//! `dump`: prints tables as readelf and llvm-objdump do, as JSON, or by symbols.

pub mod sframe;
pub mod symbols;
pub mod unwind_info;

use std::path::PathBuf;

use cfipack_container::Placement;
use cfipack_format::Address;

use crate::io::each;
use crate::io::input;
use crate::io::values;
use crate::report::status::Status;
use crate::report::symbol::Names;

/// Prints tables as readelf --sframe and llvm-objdump --unwind-info do
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The text is that of binutils 2.47 or LLVM 23, byte for byte. A part that cannot be read is
replaced by an error, and the exit status is 2 after the rest is printed.

Examples:
  cfi2sframe dump a.out                     as readelf --sframe a.out
  cfi2sframe dump libfoo.dylib              as llvm-objdump --unwind-info libfoo.dylib
  cfi2sframe dump --json libfoo.so | jq '.functions[0].rows'
  cfi2sframe dump --symbols libfoo.so       the rows of each function by its symbol
  cfi2sframe dump --address 0x2f0 table     a bare section, as --section writes it")]
pub struct Arguments {
    /// Objects, linked files, archives of objects, or bare .sframe or __unwind_info sections
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Address of a bare .sframe section in memory [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = values::parse_address)]
    pub address: Option<Address>,
    /// Print one JSON object for each table, one per line
    #[arg(long)]
    pub json: bool,
    /// Print the rows of .sframe tables by symbols and offsets, in words: the text depends neither on addresses nor
    /// on how a table encodes its rows
    #[arg(long)]
    pub symbols: bool,
    #[command(flatten)]
    pub names: Names,
    #[command(flatten)]
    slice: input::Slice,
}

/// Dumps every table of every file. In text, sections of relocatable objects are at 0, as in readelf's output. JSON and
/// `--symbols` name the section or the symbol of each function.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let placement = if arguments.json || arguments.symbols { Placement::Apart } else { Placement::Zero };
    each::for_each(&arguments.files, &arguments.slice, placement, |object, several| {
        object.check_address(arguments.address)?;
        if object.is_compact() {
            return unwind_info::dump(object, arguments);
        }
        if arguments.symbols {
            return symbols::dump(object, several, arguments);
        }
        sframe::dump(object, several, arguments)
    })
}
