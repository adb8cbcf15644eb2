//! Links three objects, and gives the output a `.sframe` section. It shows the page "For linkers" at work.
//!
//! ```sh
//! cargo run --example linker
//! ```
//!
//! One object has a table of version 3, and one has a table of version 2. One comes from an older assembler,
//! and has only call frame information (CFI). One function is dead. The linker adds its own PLT. The size of
//! the section is known before anything has an address. Then the section is written at two layouts, and
//! compared with the CFI of the output each time. Merging and writing run on a pool of threads.

use std::collections::HashMap;
use std::error::Error;

use cfipack::cfi::write::{Cie, InstructionWriter, Writer, WrittenCie};
use cfipack::cfi::{Functions, Instruction, SectionKind};
use cfipack::decoder;
use cfipack::encoder::sframe::{At, Builder, Finish, Layout};
use cfipack::format::pool::Threads;
use cfipack::format::sframe::Version;
use cfipack::format::{Address, Arch, Key, Register, SectionOffset};
use cfipack::linker::sframe::{self as linker, Field, Live, Merger};
use cfipack::linker::stubs::{StubKind, Stubs};
use cfipack::roundtrip::{self, Table, verify};

const ARCH: Arch = Arch::Amd64;

/// A function of an input section of code.
#[derive(Clone, Copy)]
struct Function {
    /// The offset in its section.
    offset: u64,
    size: u64,
    /// True if the linker keeps the function.
    is_live: bool,
}

/// An input object with one section of code.
struct Object {
    functions: Vec<Function>,
    /// The section as the assembler wrote it. Starts are zero.
    eh_frame: Vec<u8>,
    /// The `.sframe`, if the assembler wrote one.
    sframe: Option<Vec<u8>>,
    /// The function that the relocation of a start field leads to.
    relocations: HashMap<Field, Function>,
}

/// You choose unique keys: here the object's number and the function's offset. They are in the order of the
/// addresses, so functions of an object that share code are separated before the size is known.
fn key(object: usize, function: &Function) -> Key {
    Key((object as u64) << 32 | function.offset)
}

/// The PLT has a key too.
const PLT: Key = Key(u64::MAX << 32);
const PLT_ENTRIES: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let live = |offset, size| Function { offset, size, is_live: true };
    let dead = |offset, size| Function { offset, size, is_live: false };
    let objects = [
        object(vec![live(0, 16), dead(16, 32), live(48, 8)], Some(Version::V3))?,
        object(vec![live(0, 24), live(24, 16)], None)?,
        object(vec![live(0, 40), live(48, 12)], Some(Version::V2))?,
    ];

    // Sizes first. The merger asks which function a start field leads to: `None` if it is discarded. The
    // extent reaches to the end of the section, and ends a function that claims too many bytes.
    let pool = Threads(2);
    let mut merger = Merger::new(ARCH, linker::Options::new())?;
    let inputs: Vec<_> = objects.iter().map(Object::input).collect();
    let live = |number: usize| {
        let object = &objects[number];
        move |field: Field| {
            let function = object.relocations.get(&field)?;
            let extent = (object.code_len() - function.offset) as u32;
            function.is_live.then(|| Live::new(key(number, function)).with_extent(extent))
        }
    };
    let sum = merger.push_objects(&pool, &inputs, live, |object, note| eprintln!("object {object}: {note}"));
    // No input describes the code that the linker writes itself.
    let plt = Stubs::keyed(PLT, StubKind::Amd64LazyPlt).with_entries(PLT_ENTRIES);
    merger.push_stubs(&plt)?;
    let section = merger.finish_with(Finish::on(&pool).with_placed_keys(true));
    let linker::Contribution { copied, reencoded, from_cfi, dead, .. } = sum;
    println!(
        "{} functions, {} bytes: {copied} copied, {reencoded} of version 2, {from_cfi} from CFI, {dead} dead",
        sum.functions(),
        section.len()
    );

    // Addresses later, and again after a relayout. Nothing is read again, and the size stays the same.
    let mut bytes = vec![0; section.len()];
    for (code, at) in [(Address(0x40_1000), Address(0x40_4000)), (Address(0x1_0000_0000), Address(0x2000))] {
        let addresses = layout(&objects, plt.len(), code);
        let written = section.write(&mut bytes, At::on(at, &pool), |key| addresses[&key])?;
        for conflict in written.conflicts {
            eprintln!("{} is omitted: it shares code with {}", conflict.function, conflict.other);
        }
        check(&objects, &addresses, &bytes, at)?;
        println!("code at {code}, .sframe at {at}: verified");
    }
    Ok(())
}

/// Places the PLT, and the live functions after it.
fn layout(objects: &[Object], plt_len: u64, code: Address) -> HashMap<Key, Address> {
    let mut addresses = HashMap::from([(PLT, code)]);
    let mut next = code.0 + plt_len;
    for (number, object) in objects.iter().enumerate() {
        for function in object.functions.iter().filter(|function| function.is_live) {
            addresses.insert(key(number, function), Address(next));
            next += function.size.next_multiple_of(16);
        }
    }
    addresses
}

/// Verifies the table against the call frame information of the output. gimli evaluates this information.
fn check(
    objects: &[Object],
    addresses: &HashMap<Key, Address>,
    bytes: &[u8],
    at: Address,
) -> Result<(), Box<dyn Error>> {
    let mut output = Writer::new(SectionKind::EhFrame, ARCH, Address(code_end(addresses)));
    for (number, object) in objects.iter().enumerate() {
        write_eh_frame(&mut output, &object.functions, |function| {
            addresses.get(&key(number, function)).copied()
        })?;
    }
    write_plt(&mut output, addresses[&PLT])?;
    // `addresses` has the header of the PLT, but not its entries.
    let functions = addresses.len() + PLT_ENTRIES as usize;
    let sections = [decoder::sframe::Section::parse(bytes, at)?];
    let report = verify(&[output.section()], &Table::new(&sections), &roundtrip::Options::default());
    for difference in &report.differences {
        eprintln!("{difference}");
    }
    if !report.is_complete() || report.functions as usize != functions {
        return Err(format!("{} of {functions} functions are equal", report.equal).into());
    }
    Ok(())
}

/// Returns an address after all code, for the output's `.eh_frame`.
fn code_end(addresses: &HashMap<Key, Address>) -> u64 {
    addresses.values().map(|address| address.0 + 0x1000).max().unwrap_or(0)
}

impl Object {
    /// Returns the number of bytes in the object's section of code.
    fn code_len(&self) -> u64 {
        self.functions.iter().map(|function| function.offset + function.size).max().unwrap_or(0)
    }

    /// Returns the input of the merger: sections as in the file, before relocation.
    fn input(&self) -> linker::Object<'_> {
        let input = linker::Object::new().with_eh_frame(&self.eh_frame);
        self.sframe.iter().fold(input, |input, bytes| input.with_sframe(bytes))
    }
}

/// Makes an object as an assembler writes it, with a table of this version or without a table.
fn object(functions: Vec<Function>, table: Option<Version>) -> Result<Object, Box<dyn Error>> {
    let mut writer = Writer::new(SectionKind::EhFrame, ARCH, Address(0));
    let start_fields = write_eh_frame(&mut writer, &functions, |_| Some(Address(0)))?;
    // Start fields are zero until they are relocated.
    let mut eh_frame = writer.into_bytes();
    for field in start_fields.keys() {
        eh_frame[field.0..][..4].fill(0);
    }
    let fields = start_fields.iter().map(|(&field, &function)| (Field::EhFrame(field), function));
    let mut relocations: HashMap<_, _> = fields.collect();
    let mut sframe = None;
    if let Some(version) = table {
        let mut options = cfipack::encoder::sframe::Options::default();
        (options.version, options.layout) = (version, Layout::Gnu);
        let mut builder = Builder::new(ARCH, options)?;
        let section = cfipack::cfi::Section::new(SectionKind::EhFrame, &eh_frame, Address(0), ARCH);
        for function in Functions::keyed(&section, |field| Some(key(0, &start_fields[&field]))) {
            builder.push(&function?)?;
        }
        let section = builder.finish();
        let bytes = sframe.insert(vec![0; section.relocatable_len()]);
        section.write_relocatable(bytes)?;
        let by_key: HashMap<_, _> = functions.iter().map(|&function| (key(0, &function), function)).collect();
        relocations.extend(section.start_fields().map(|it| (Field::Sframe(it.field), by_key[&it.function])));
    }
    Ok(Object { functions, eh_frame, sframe, relocations })
}

/// Writes a CIE, and an FDE for each function that has an address. The functions push rbp, and pop it before
/// they return. Returns the places of the start fields.
fn write_eh_frame(
    writer: &mut Writer,
    functions: &[Function],
    address_of: impl Fn(&Function) -> Option<Address>,
) -> Result<HashMap<SectionOffset, Function>, Box<dyn Error>> {
    let rbp = Register(6);
    let cie = write_cie(writer)?;
    let mut start_fields = HashMap::new();
    for function in functions {
        let Some(address) = address_of(function) else { continue };
        let mut body = InstructionWriter::for_cie(&cie);
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

/// Writes a CIE with the rules at the entry of every function.
fn write_cie(writer: &mut Writer) -> Result<WrittenCie, Box<dyn Error>> {
    let (rsp, rip) = (Register(7), Register(16));
    let mut at_entry = InstructionWriter::new(ARCH, 1, -8);
    at_entry.put(Instruction::DefCfa(rsp, 8))?;
    at_entry.put(Instruction::Offset(rip, -8))?;
    Ok(writer.cie(&Cie::new(ARCH, at_entry.as_bytes()))?)
}

/// Writes an FDE for the header of the PLT, and an FDE for each entry. The header has two values on the stack
/// and pushes a third value. An entry pushes its index.
fn write_plt(writer: &mut Writer, plt: Address) -> Result<(), Box<dyn Error>> {
    let cie = write_cie(writer)?;
    let mut header = InstructionWriter::for_cie(&cie);
    header.put(Instruction::DefCfaOffset(16))?;
    header.put(Instruction::Advance(6))?;
    header.put(Instruction::DefCfaOffset(24))?;
    writer.fde(&cie, plt, 16, None, header.as_bytes())?;
    for entry in 1..=u64::from(PLT_ENTRIES) {
        let mut body = InstructionWriter::for_cie(&cie);
        body.put(Instruction::Advance(11))?;
        body.put(Instruction::DefCfaOffset(16))?;
        writer.fde(&cie, Address(plt.0 + 16 * entry), 16, None, body.as_bytes())?;
    }
    Ok(())
}
