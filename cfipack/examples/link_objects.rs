//! Makes the `.sframe` of a link from relocatable ELF objects. It reads the objects with the crate `object`.
//!
//! ```sh
//! cargo run --example link_objects -- OUTPUT OBJECT...
//! ```
//!
//! The relocations of `.eh_frame` and `.sframe` tell which function each start field leads to. If an earlier
//! object has a COMDAT group already, the functions of the group are dead, and get no rows. Code is placed in
//! the order of the objects, unlike in a real linker. The map of the link goes to standard output.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::{env, fs};

use cfipack::format::{Address, Arch, Key, SectionOffset};
use cfipack::linker::sframe::{Field, Live, Merger, Object, Options};
use object::{Architecture, File, RelocationTarget, SectionIndex, SectionKind};
use object::{Object as _, ObjectComdat, ObjectSection, ObjectSymbol};

/// The place that a relocation leads to: a section of the same object, and an offset in the section.
type Place = (SectionIndex, u64);

struct Input<'d> {
    file: File<'d>,
    eh_frame: &'d [u8],
    sframe: &'d [u8],
    places: HashMap<Field, Place>,
}

impl<'d> Input<'d> {
    fn parse(bytes: &'d [u8]) -> Result<Self, Box<dyn Error>> {
        let file = File::parse(bytes)?;
        let mut this = Self { file, eh_frame: &[], sframe: &[], places: HashMap::new() };
        for section in this.file.sections() {
            let name = section.name()?;
            match name {
                ".eh_frame" => this.eh_frame = section.data()?,
                ".sframe" => this.sframe = section.data()?,
                _ => continue,
            }
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                let symbol = this.file.symbol_by_index(symbol)?;
                let Some(target) = symbol.section_index() else { continue };
                let place = (target, symbol.address().wrapping_add_signed(relocation.addend()));
                let at = SectionOffset(offset as usize);
                this.places
                    .insert(if name == ".sframe" { Field::Sframe(at) } else { Field::EhFrame(at) }, place);
            }
        }
        Ok(this)
    }

    fn arch(&self) -> Option<Arch> {
        match (self.file.architecture(), self.file.is_little_endian()) {
            (Architecture::X86_64, true) => Some(Arch::Amd64),
            (Architecture::Aarch64, true) => Some(Arch::Aarch64),
            (Architecture::Aarch64, false) => Some(Arch::Aarch64Be),
            (Architecture::S390x, false) => Some(Arch::S390x),
            _ => None,
        }
    }
}

/// The live sections of code, in the order of the output, with their addresses and sizes.
#[derive(Default)]
struct Code {
    numbers: HashMap<(usize, SectionIndex), usize>,
    sections: Vec<(Address, u64)>,
}

impl Code {
    fn place(inputs: &[Input<'_>], paths: &[String], mut next: u64) -> Result<Self, Box<dyn Error>> {
        let (mut code, mut groups) = (Self::default(), HashSet::new());
        for (number, input) in inputs.iter().enumerate() {
            let mut dead = HashSet::new();
            for group in input.file.comdats() {
                if !groups.insert(group.name()?.to_owned()) {
                    dead.extend(group.sections());
                }
            }
            for section in input.file.sections() {
                if section.kind() == SectionKind::Text && !dead.contains(&section.index()) {
                    next = next.next_multiple_of(section.align().max(1));
                    code.numbers.insert((number, section.index()), code.sections.len());
                    code.sections.push((Address(next), section.size()));
                    println!("{} {}({})", Address(next), paths[number], section.name()?);
                    next += section.size();
                }
            }
        }
        Ok(code)
    }

    /// Returns the function at a place if it is live. The extent ends a function that claims too many bytes.
    fn live(&self, object: usize, &(section, offset): &Place) -> Option<Live> {
        let number = *self.numbers.get(&(object, section))?;
        let extent = self.sections[number].1.saturating_sub(offset);
        Some(Live::new(Key((number as u64) << 32 | offset)).with_extent(u32::try_from(extent).ok()?))
    }

    fn address(&self, key: Key) -> Address {
        Address(self.sections[(key.0 >> 32) as usize].0.0 + (key.0 & 0xffff_ffff))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let [output, paths @ ..] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("usage: link_objects OUTPUT OBJECT...".into());
    };
    let read = paths.iter().map(|path| fs::read(path).map_err(|error| format!("{path}: {error}")));
    let files = read.collect::<Result<Vec<_>, _>>()?;
    let parsed = files
        .iter()
        .zip(paths)
        .map(|(bytes, path)| Input::parse(bytes).map_err(|error| format!("{path}: {error}")));
    let inputs = parsed.collect::<Result<Vec<_>, _>>()?;
    let arch = inputs.first().and_then(Input::arch).ok_or("no object of a known architecture")?;
    let code = Code::place(&inputs, paths, 0x1000)?;

    // The size first ...
    let mut merger = Merger::new(arch, Options::new())?;
    for (number, input) in inputs.iter().enumerate() {
        let object = Object::new().with_eh_frame(input.eh_frame).with_sframe(input.sframe);
        let live = |field: Field| code.live(number, input.places.get(&field)?);
        merger.push_object(&object, live, |note| eprintln!("{}: {note}", paths[number]));
    }
    let section = merger.finish();

    // ... and the addresses later.
    let mut table = vec![0; section.len()];
    let address = Address(0x10_0000);
    section.write(&mut table, address, |key| code.address(key))?;
    fs::write(output, &table)?;
    println!("{address} .sframe: {} entries", section.num_fdes());
    Ok(())
}
