//! Packs the call frame information of a linked ELF file into a `.sframe` section, verifies the section
//! against it, and writes the section to a file.
//!
//! ```sh
//! cargo run --example convert -- INPUT OUTPUT
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::{env, fs};

use cfipack::cfi::Functions;
use cfipack::container::{CallFrameSection, File};
use cfipack::decoder;
use cfipack::encoder::sframe::{Builder, OmittedFunction, Options};
use cfipack::format::Address;
use cfipack::roundtrip::{self, Table, verify};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [input, output] = &arguments[..] else { return Err("usage: convert INPUT OUTPUT".into()) };
    let bytes = fs::read(input)?;
    let file = File::parse(&bytes)?;
    let call_frame_sections = file.call_frame_sections()?;
    let cfi: Vec<_> = call_frame_sections.iter().map(CallFrameSection::cfi).collect();

    // Encode every function. A function that the format cannot represent is omitted, with a reason.
    let mut builder = Builder::new(file.arch(), Options::default())?;
    let (mut functions, mut omitted) = (0, 0);
    for section in &cfi {
        functions += builder.push_all(Functions::new(section), |function| {
            omitted += 1;
            if let OmittedFunction::Unsupported(unsupported) = function {
                eprintln!("omitted: {unsupported}");
            } else {
                eprintln!("omitted: {function:?}");
            }
        });
    }
    let section = builder.finish();

    // A linker chooses the address of the section. Here the section lies after the call frame information.
    // The functions of a linked file are at their final addresses.
    let ends = cfi.iter().map(|section| section.address.0 + section.bytes.len() as u64);
    let address = Address(ends.max().unwrap_or(0));
    let mut table = vec![0; section.len()];
    section.write(&mut table, address, |function| Address(function.0))?;

    // gimli evaluates the call frame information. The verifier compares each row of the table with gimli's.
    let sections = [decoder::sframe::Section::parse(&table, address)?];
    let report = verify(&cfi, &Table::new(&sections), &roundtrip::Options::default());
    for difference in &report.differences {
        eprintln!("{difference}");
    }
    fs::write(output, &table)?;
    println!("{functions} functions, {omitted} omitted; {} bytes at {address}", table.len());
    println!("verified: {} equal, {} different", report.equal, report.different);
    Ok(if report.is_true() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
