//! The unwind tables: paste this file into a linker.

use std::collections::HashMap;
use std::error::Error;

use cfipack::encoder::unwind_info::Options;
use cfipack::format::pool::Task;
use cfipack::format::{ImageOffset, LsdaKey, PersonalityKey};
use cfipack::link::{self, Address, Arch, At, Finish, Key, Live, Merger, Pool, SectionOffset};
use cfipack::linker::stubs::Stubs;
use cfipack::linker::unwind_info::{Addresses, Builder, Fde, Field, Input, Part, Resolve};
use object::{File, Relocation, RelocationTarget, Section, SectionIndex};
use object::{Object as _, ObjectSection, ObjectSymbol};
use rayon::prelude::*;

/// rayon's threads do the library's work.
struct Rayon;

impl Pool for Rayon {
    fn threads(&self) -> usize {
        rayon::current_num_threads()
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        tasks.into_par_iter().for_each(|task| task());
    }
}

/// The unwind sections of an object: [`TABLE`] and [`CFI`], each by its name in ELF and in Mach-O objects.
const UNWIND: [[&str; 2]; 2] = [[".sframe", "__compact_unwind"], [".eh_frame", "__eh_frame"]];
const TABLE: usize = 0;
const CFI: usize = 1;

/// A section of an object, and an address in the object.
type Place = (SectionIndex, u64);

/// Where a relocation leads: the name of a global symbol, and its place if the object defines it.
type Target<'d> = (Option<&'d [u8]>, Option<Place>);

/// An unwind section of an object. A section that is missing or cannot be read is empty.
#[derive(Default)]
struct Unwind<'d> {
    bytes: &'d [u8],
    targets: HashMap<u64, Target<'d>>,
}

/// An object of the link.
pub struct Object<'d> {
    pub path: &'d str,
    pub file: File<'d>,
    /// The number that the object's first section has in the link.
    pub first: usize,
    /// The first section of each kind, the second of each, and so on. ELF objects can have several.
    unwind: Vec<[Unwind<'d>; 2]>,
}

/// The addresses and sizes of the sections that the link keeps, by their number in the link.
pub type Layout = Vec<Option<(u64, u64)>>;

/// A function or LSDA has the number of its section as the upper half of its key, and its offset as the lower half.
fn address(layout: &Layout, key: Key) -> Option<u64> {
    layout[(key.0 >> 32) as usize].map(|(start, _)| start + (key.0 & 0xffff_ffff))
}

impl<'d> Object<'d> {
    /// Reads an object and the relocations of its unwind sections.
    pub fn parse(path: &'d str, bytes: &'d [u8]) -> Result<Self, object::Error> {
        let mut this = Self { path, file: File::parse(bytes)?, first: 0, unwind: vec![Default::default()] };
        let mut found = [0; 2];
        for section in this.file.sections() {
            let Ok(name) = section.name() else { continue };
            let Some(part) = UNWIND.iter().position(|names| names.contains(&name)) else { continue };
            let Ok(data) = section.data() else {
                eprintln!("{path}: {name} cannot be read");
                continue;
            };
            let target = |(at, relocation)| Some((at, this.target(data, at, &relocation)?));
            let unwind = Unwind { bytes: data, targets: section.relocations().filter_map(target).collect() };
            if this.unwind.len() <= found[part] {
                this.unwind.push(Default::default());
            }
            this.unwind[found[part]][part] = unwind;
            found[part] += 1;
        }
        Ok(this)
    }

    /// Returns where a relocation with a symbol leads. In other relocations of Mach-O objects the field counts, which
    /// the library reads.
    fn target(&self, data: &[u8], at: u64, relocation: &Relocation) -> Option<Target<'d>> {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
        let symbol = self.file.symbol_by_index(symbol).ok()?;
        let field = data.get(usize::try_from(at).ok()?..)?;
        let addend = match relocation.size() {
            _ if !relocation.has_implicit_addend() => relocation.addend(),
            // The distance from the field to the symbol.
            _ if relocation.subtractor().is_some() => 0,
            32 => i32::from_le_bytes(*field.first_chunk()?).into(),
            _ => i64::from_le_bytes(*field.first_chunk()?),
        };
        let name = symbol.name_bytes().ok().filter(|_| symbol.is_global());
        let place = symbol.section_index().map(|it| (it, symbol.address().wrapping_add_signed(addend)));
        Some((name, place))
    }

    /// Returns the function or LSDA at a place, if the link keeps its section. The extent ends damaged functions.
    fn live(&self, layout: &Layout, (section, address): Place) -> Option<Live> {
        let start = self.file.section_by_index(section).ok()?.address();
        let (number, offset) = (self.first + section.0, u32::try_from(address.checked_sub(start)?).ok()?);
        let extent = layout[number]?.1.checked_sub(offset.into()).filter(|&extent| extent != 0)?;
        let key = Key((number as u64) << 32 | u64::from(offset));
        Some(Live::new(key).with_extent(u32::try_from(extent).unwrap_or(u32::MAX)))
    }
}

/// Makes the `.sframe` of ELF objects and a PLT. Its size is exact at the first layout. Returns the last layout's bytes.
pub fn sframe(
    arch: Arch,
    objects: &[Object<'_>],
    plt: &Stubs<'_>,
    layouts: &[Layout],
    at: Address,
) -> Result<Vec<u8>, Box<dyn Error>> {
    // For the library, sections of the same kind are several objects.
    let parts: Vec<_> =
        objects.iter().flat_map(|it| it.unwind.iter().map(move |unwind| (it, unwind))).collect();
    let inputs: Vec<_> = parts
        .iter()
        .map(|(_, [table, cfi])| link::Object::new().with_sframe(table.bytes).with_eh_frame(cfi.bytes))
        .collect();
    let live = |number: usize| {
        let (object, unwind) = parts[number];
        move |field: link::Field| {
            let (part, SectionOffset(at)) = match field {
                link::Field::Sframe(at) => (TABLE, at),
                link::Field::EhFrame(at) => (CFI, at),
            };
            let Some((_, place)) = unwind[part].targets.get(&(at as u64)) else {
                eprintln!("{}: {}+{at:#x}: no relocation for a function", object.path, UNWIND[part][0]);
                return None;
            };
            object.live(&layouts[0], (*place)?)
        }
    };
    let mut merger = Merger::new(arch, link::Options::new())?;
    merger.push_objects(&Rayon, &inputs, live, |number, note| eprintln!("{}: {note}", parts[number].0.path));
    // No object describes the code that the linker writes itself.
    merger.push_stubs(plt)?;
    let section = merger.finish_with(Finish::on(&Rayon).with_placed_keys(true));
    let mut bytes = vec![0; section.len()];
    for layout in layouts {
        let address_of = |key| Address(address(layout, key).expect("only functions in the link have rows"));
        for conflict in section.write(&mut bytes, At::on(at, &Rayon), address_of)?.conflicts {
            eprintln!("{} is omitted: it shares code with {}", conflict.function, conflict.other);
        }
    }
    Ok(bytes)
}

/// Makes the `__unwind_info` of Mach-O objects. The header is at address 0, and slots of personalities from `got` on.
pub fn unwind_info(
    arch: Arch,
    objects: &[Object<'_>],
    symbols: &HashMap<&[u8], u64>,
    layouts: &[Layout],
    got: u32,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut builder = Builder::new(arch, Options::default())?;
    let shard = |(number, object): (usize, &Object<'_>)| {
        let mut shard = builder.shard();
        let eh_frame = object.file.section_by_name(UNWIND[CFI][1]).map_or(0, |it| it.address());
        let input = Input::new(number as u32)
            .with_compact_unwind(object.unwind[0][TABLE].bytes)
            .with_eh_frame(object.unwind[0][CFI].bytes, Address(eh_frame));
        shard.push(&input, &mut Resolver { object, layout: &layouts[0], symbols });
        // A function without unwind information must not be covered by the function before it.
        for symbol in object.file.symbols() {
            let place = symbol.section_index().map(|section| (section, symbol.address()));
            if let Some(live) = place.and_then(|place| object.live(&layouts[0], place)) {
                shard.push_code(live.key, 0);
            }
        }
        shard
    };
    let shards: Vec<_> = objects.par_iter().enumerate().map(shard).collect();
    shards.into_iter().for_each(|shard| builder.absorb(shard));
    let section = builder.finish();
    section.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    let slots: Vec<_> = section.personalities().collect();
    let number = |personality| slots.iter().position(|&slot| slot == personality).expect("all have slots");
    let slot_of = |personality| ImageOffset(got + 8 * number(personality) as u32);
    // This linker copies each `__eh_frame`. It could omit the FDEs that are not in `section.fdes()`.
    let sizes = objects.iter().map(|object| object.unwind[0][CFI].bytes.len() as u32);
    let eh_frames: Vec<u32> = sizes.scan(0, |end, size| Some(std::mem::replace(end, *end + size))).collect();
    let images: Vec<_> = layouts.iter().map(|layout| Image { layout, eh_frames: &eh_frames }).collect();
    let plan = section.plan(|key| images[0].function(key), 0)?;
    let mut bytes = vec![0; plan.max_len()];
    for image in &images {
        let table = section.place(Some(&plan), None, image)?;
        table.warnings().iter().for_each(|warning| eprintln!("{warning}"));
        table.write(&mut bytes, slot_of)?;
    }
    Ok(bytes)
}

/// Answers the library's questions about a Mach-O object.
struct Resolver<'l, 'd> {
    object: &'l Object<'d>,
    layout: &'l Layout,
    /// Numbers of the link's global symbols.
    symbols: &'l HashMap<&'l [u8], u64>,
}

impl<'d> Resolver<'_, 'd> {
    /// Returns the name and the key of what a field leads to.
    fn target(&self, field: Field) -> (Option<&'d [u8]>, Option<Key>) {
        let part = if field.part == Part::EhFrame { CFI } else { TABLE };
        let target = self.object.unwind[0][part].targets.get(&(field.offset.0 as u64)).copied();
        let stored = || (None, field.target.and_then(|stored| self.section_of(stored.0)));
        let (name, place) = target.unwrap_or_else(stored);
        (name, place.and_then(|place| self.object.live(self.layout, place)).map(|live| live.key))
    }

    fn section_of(&self, address: u64) -> Option<Place> {
        let holds = |it: &Section<'_, '_>| address.checked_sub(it.address()).is_some_and(|at| at < it.size());
        self.object.file.sections().find(holds).map(|it| (it.index(), address))
    }
}

impl Resolve for Resolver<'_, '_> {
    fn function(&mut self, field: Field) -> Option<Key> {
        self.target(field).1
    }

    fn personality(&mut self, field: Field) -> Option<PersonalityKey> {
        let (name, key) = self.target(field);
        let symbol = name.and_then(|name| self.symbols.get(name).copied());
        symbol.or(key.map(|key| key.0)).map(PersonalityKey)
    }

    fn lsda(&mut self, field: Field) -> Option<LsdaKey> {
        LsdaKey::new(self.target(field).1?.0)
    }
}

/// The addresses of functions and LSDAs, and where each object's `__eh_frame` starts in the output's.
struct Image<'l> {
    layout: &'l Layout,
    eh_frames: &'l [u32],
}

impl Addresses for Image<'_> {
    fn function(&self, function: Key) -> Option<ImageOffset> {
        address(self.layout, function).map(|at| ImageOffset(at as u32))
    }

    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        self.function(Key(lsda.0.get()))
    }

    fn fde(&self, fde: Fde) -> Option<u32> {
        self.eh_frames[fde.object as usize].checked_add(u32::try_from(fde.offset.0).ok()?)
    }
}
