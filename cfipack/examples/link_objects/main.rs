//! Makes the unwind table of a link, as a linker in Rust does that reads objects with the crate `object` and works on
//! rayon's threads: the `.sframe` of ELF objects, or the `__unwind_info` of Mach-O objects.
//!
//! ```sh
//! cargo run --example link_objects -- OUTPUT OBJECT...
//! ```
//!
//! `tables.rs` is what a linker needs. This file is what a linker has: it keeps or discards whole sections, places them
//! in the order of the objects after a PLT, and moves them by a relayout. The map of the link goes to standard output.

mod tables;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::{env, fs};

use cfipack::link::{Address, Key};
use cfipack::linker::stubs::{Shape, StubKind, Stubs};
use object::{Architecture, BinaryFormat, SectionKind};
use object::{Object as _, ObjectComdat, ObjectSection, ObjectSymbol};
use rayon::prelude::*;

use tables::{Layout, Object};

/// The address of the `.sframe`, or of the pointer slots of an image.
const TABLE: u32 = 0x100_0000;

fn main() -> Result<(), Box<dyn Error>> {
    let [output, paths @ ..] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("usage: link_objects OUTPUT OBJECT...".into());
    };
    let read = paths.iter().map(|path| fs::read(path).map_err(|error| format!("{path}: {error}")));
    let files = read.collect::<Result<Vec<_>, _>>()?;
    let parsed = paths
        .par_iter()
        .zip(&files)
        .map(|(path, bytes)| Object::parse(path, bytes).map_err(|error| format!("{path}: {error}")));
    let mut objects = parsed.collect::<Result<Vec<_>, _>>()?;

    // The first section of the link is the PLT, with an entry for each symbol that no object defines.
    let (mut sections, mut symbols, mut defined) = (1, HashMap::new(), HashSet::new());
    for object in &mut objects {
        object.first = sections;
        sections += object.file.sections().map(|section| section.index().0).max().unwrap_or(0) + 1;
        for symbol in object.file.symbols().filter(|symbol| symbol.is_global()) {
            let Ok(name) = symbol.name_bytes() else { continue };
            let number = symbols.len() as u64;
            symbols.entry(name).or_insert(number);
            if symbol.is_definition() {
                defined.insert(name);
            }
        }
    }
    let first = objects.first().ok_or("no objects")?;
    let kind = stubs(first).ok_or("an unknown architecture")?;
    let undefined = (symbols.len() - defined.len()) as u32;
    let shape = if undefined == 0 { Shape::new() } else { kind.shape() };
    let plt = Stubs::keyed(Key(0), shape).with_entries(undefined);
    let layouts = [0x1000, 0x4000].map(|start| lay_out(&objects, start, plt.len(), sections));

    let table = match first.file.format() {
        BinaryFormat::Elf => tables::sframe(kind.arch(), &objects, &plt, &layouts, Address(TABLE.into()))?,
        _ => tables::unwind_info(kind.arch(), &objects, &symbols, &layouts, TABLE)?,
    };
    fs::write(output, &table)?;
    print_map(&objects, &layouts[1]);
    Ok(())
}

/// Returns the PLT of an object's architecture.
fn stubs(object: &Object<'_>) -> Option<StubKind> {
    match (object.file.architecture(), object.file.is_little_endian()) {
        (Architecture::X86_64, true) => Some(StubKind::Amd64LazyPlt),
        (Architecture::Aarch64, true) => Some(StubKind::Aarch64Plt),
        (Architecture::S390x, false) => Some(StubKind::S390xPlt),
        _ => None,
    }
}

/// Places the PLT, and the code and LSDAs of all objects. Of sections of a COMDAT group, the first object's stay.
fn lay_out(objects: &[Object<'_>], plt: u64, plt_len: u64, sections: usize) -> Layout {
    let (mut layout, mut groups, mut next) = (vec![None; sections], HashSet::new(), plt + plt_len);
    layout[0] = Some((plt, plt_len));
    for object in objects {
        let mut dead = HashSet::new();
        for group in object.file.comdats() {
            if group.name_bytes().is_ok_and(|name| !groups.insert(name)) {
                dead.extend(group.sections());
            }
        }
        for section in object.file.sections().filter(|section| !dead.contains(&section.index())) {
            let is_kept = section.kind() == SectionKind::Text || section.name() == Ok("__gcc_except_tab");
            if let Ok(data) = section.data()
                && is_kept
            {
                let size = data.len() as u64;
                next = next.next_multiple_of(section.align().clamp(1, 0x4000));
                layout[object.first + section.index().0] = Some((next, size));
                next += size;
            }
        }
    }
    layout
}

fn print_map(objects: &[Object<'_>], layout: &Layout) {
    println!("{} table", Address(TABLE.into()));
    for object in objects {
        for section in object.file.sections() {
            if let Some((start, _)) = &layout[object.first + section.index().0] {
                println!("{} {}({})", Address(*start), object.path, section.name().unwrap_or_default());
            }
        }
    }
}
