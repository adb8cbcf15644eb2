//! `lookup`: prints the row for a PC.

pub mod sframe;
pub mod unwind_info;

use std::path::PathBuf;

use cfipack_format::Address;

use crate::io::each;
use crate::io::input::{self, Object};
use crate::io::values;
use crate::report::place::Places;
use crate::report::status::Status;
use crate::report::symbol::Names;
use crate::report::target::{self, Target};

/// Prints the row for a PC
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cfi2sframe lookup a.out 0x1139
  cfi2sframe lookup a.out main 'a::h(int)'+0x4       by symbols
  cfi2sframe lookup --json a.out 0x1139 0x1140 | jq .row.cfa
  cfi2sframe lookup foo.o .text.foo+0x4              in an object
  cfi2sframe lookup foo.o '.text.foo[5]+0x4'         the .text.foo with index 5 of several
  cfi2sframe lookup --address 0x2f0 table 0x1139     in a bare section, as --section writes it")]
pub struct Arguments {
    /// Object, linked file, or bare .sframe or __unwind_info section
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// PCs of the file, decimal or hexadecimal with 0x; in an object SECTION+OFFSET, or OFFSET if only one
    /// section has a function there; or symbols, mangled or as the source has them, also with +OFFSET
    #[arg(value_name = "ADDRESS", required = true, value_parser = target::parse)]
    pub addresses: Vec<Target>,
    /// Address of a bare .sframe section in memory [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = values::parse_address)]
    pub address: Option<Address>,
    /// Print one JSON object for each address, one per line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    slice: input::Slice,
}

/// Looks up every address.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let Arguments { file, slice, json, .. } = arguments;
    each::for_each_slice(file, slice, *json, |object| lookup(object, arguments))
}

fn lookup(object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Status> {
    object.check_address(arguments.address)?;
    let places = Places::of_object(object).with_names(arguments.names);
    if object.is_compact() {
        return unwind_info::lookup(object, &places, arguments);
    }
    sframe::lookup(object, &places, arguments)
}
