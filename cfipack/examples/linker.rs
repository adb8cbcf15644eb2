//! Links two objects into an output with a `.sframe` section, as a linker does: sizes first, addresses later.
//!
//! ```sh
//! cargo run --example linker
//! ```
//!
//! The functions of both objects start at offset 0 of their sections, and one function is dead. The call
//! frame information is read as it is in the objects, before relocation. The table is written at two
//! layouts, and each time compared with the relocated call frame information.

use std::collections::HashMap;
use std::error::Error;

use cfipack::cfi::write::{Cie, InstructionWriter, Writer};
use cfipack::cfi::{Functions, Instruction, SectionKind};
use cfipack::decoder;
use cfipack::encoder::sframe::{Builder, Options};
use cfipack::format::{Address, Arch, Key, Register, SectionOffset};
use cfipack::roundtrip::{self, Table, verify};

const ARCH: Arch = Arch::Amd64;

/// A function of an input section of code.
#[derive(Clone, Copy)]
struct Function {
    /// The offset in its section.
    offset: u64,
    size: u64,
    /// Whether the linker keeps it.
    is_live: bool,
}

/// An input object: one section of code, and its `.eh_frame`.
struct Object {
    functions: Vec<Function>,
    /// As the assembler wrote it; starts are zero.
    eh_frame: Vec<u8>,
    /// For the offset of a start field, the function that its relocation leads to.
    relocations: HashMap<SectionOffset, Function>,
}

/// A key is any number that is unique per function: here the object's number and the function's offset.
fn key(object: usize, function: &Function) -> Key {
    Key((object as u64) << 32 | function.offset)
}

fn main() -> Result<(), Box<dyn Error>> {
    let live = |offset, size| Function { offset, size, is_live: true };
    let dead = |offset, size| Function { offset, size, is_live: false };
    let objects =
        [object(vec![live(0, 16), dead(16, 32), live(48, 8)])?, object(vec![live(0, 24), live(24, 16)])?];

    // Sizes first. The key of an FDE is what the relocation of its start field leads to; none if that is dead.
    let mut builder = Builder::new(ARCH, Options::default())?;
    for (number, object) in objects.iter().enumerate() {
        let section = eh_frame(object);
        let key_of = |start_field: SectionOffset| {
            let function = object.relocations.get(&start_field)?;
            function.is_live.then(|| key(number, function))
        };
        for function in Functions::keyed(&section, key_of) {
            if let Err(unsupported) = builder.push(&function?) {
                eprintln!("omitted: {unsupported}");
            }
        }
    }
    let table = builder.finish();
    println!("{} functions, {} bytes", table.num_fdes(), table.len());

    // Addresses later, and again after a relayout: nothing is parsed again, and the size stays.
    let mut bytes = vec![0; table.len()];
    for (code, at) in [(Address(0x40_1000), Address(0x40_4000)), (Address(0x1_0000_0000), Address(0x2000))] {
        let addresses = layout(&objects, code);
        table.write(&mut bytes, at, |key| addresses[&key])?;
        check(&objects, &addresses, &bytes, at)?;
        println!("code at {code}, .sframe at {at}: verified");
    }
    Ok(())
}

/// Places the live functions one after the other.
fn layout(objects: &[Object], code: Address) -> HashMap<Key, Address> {
    let mut next = code.0;
    let mut addresses = HashMap::new();
    for (number, object) in objects.iter().enumerate() {
        for function in object.functions.iter().filter(|function| function.is_live) {
            addresses.insert(key(number, function), Address(next));
            next += function.size.next_multiple_of(16);
        }
    }
    addresses
}

/// Verifies the table against the call frame information of the output, as gimli evaluates it.
fn check(
    objects: &[Object],
    addresses: &HashMap<Key, Address>,
    bytes: &[u8],
    at: Address,
) -> Result<(), Box<dyn Error>> {
    let mut output = Writer::new(SectionKind::EhFrame, ARCH, Address(code_end(addresses)));
    for (number, object) in objects.iter().enumerate() {
        let placed = |function: &Function| addresses.get(&key(number, function)).copied();
        write_eh_frame(&mut output, &object.functions, placed)?;
    }
    let sections = [decoder::sframe::Section::parse(bytes, at)?];
    let report = verify(&[output.section()], &Table::new(&sections), &roundtrip::Options::default());
    for difference in &report.differences {
        eprintln!("{difference}");
    }
    match report.is_complete() && report.functions as usize == addresses.len() {
        true => Ok(()),
        false => Err(format!("{} of {} functions are equal", report.equal, addresses.len()).into()),
    }
}

/// An address after all code, where the output's `.eh_frame` lies.
fn code_end(addresses: &HashMap<Key, Address>) -> u64 {
    addresses.values().map(|address| address.0 + 0x1000).max().unwrap_or(0)
}

/// The `.eh_frame` of an object, for its reader. It has no address yet.
fn eh_frame(object: &Object) -> cfipack::cfi::Section<'_> {
    cfipack::cfi::Section::new(SectionKind::EhFrame, &object.eh_frame, Address(0), ARCH)
}

/// An object as an assembler writes it.
fn object(functions: Vec<Function>) -> Result<Object, Box<dyn Error>> {
    let mut writer = Writer::new(SectionKind::EhFrame, ARCH, Address(0));
    let relocations = write_eh_frame(&mut writer, &functions, |_| Some(Address(0)))?;
    // The fields of starts are zero until they are relocated.
    let mut eh_frame = writer.into_bytes();
    for field in relocations.keys() {
        eh_frame[field.0..][..4].fill(0);
    }
    Ok(Object { functions, eh_frame, relocations })
}

/// Writes a CIE and an FDE for each function that has an address. The functions push rbp and pop it before they
/// return. Returns where the start fields lie.
fn write_eh_frame(
    writer: &mut Writer,
    functions: &[Function],
    address_of: impl Fn(&Function) -> Option<Address>,
) -> Result<HashMap<SectionOffset, Function>, Box<dyn Error>> {
    let (rbp, rsp, rip) = (Register(6), Register(7), Register(16));
    let mut at_entry = InstructionWriter::new(ARCH, 1, -8);
    at_entry.put(Instruction::DefCfa(rsp, 8))?;
    at_entry.put(Instruction::Offset(rip, -8))?;
    let cie = writer.cie(&Cie::new(ARCH, at_entry.as_bytes()))?;
    let mut start_fields = HashMap::new();
    for function in functions {
        let Some(address) = address_of(function) else { continue };
        let mut body = InstructionWriter::of(&cie);
        body.put(Instruction::Advance(1))?;
        body.put(Instruction::DefCfaOffset(16))?;
        body.put(Instruction::Offset(rbp, -16))?;
        body.put(Instruction::Advance(function.size - 2))?;
        body.put(Instruction::Restore(rbp))?;
        body.put(Instruction::DefCfaOffset(8))?;
        let start_field = writer.fde(&cie, address, function.size, None, body.as_bytes())?;
        start_fields.insert(start_field, *function);
    }
    Ok(start_fields)
}
