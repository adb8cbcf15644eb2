//! Recovers what ld64.lld knew when it linked Mach-O objects, from the objects and the map file: live functions, their
//! addresses, and targets of relocations in unwind information.

use std::collections::{BTreeMap, HashMap};

use cfipack_encoder::unwind_info::Options;
use cfipack_format::{Address, Arch, ImageOffset, Key, LsdaKey, PersonalityKey, SectionOffset};
use cfipack_linker::unwind_info::{Addresses, Builder, Fde, Field, Input, Part, Resolve, Section};
use gimli::UnwindSection;
use object::read::macho::MachOFile64;
use object::{
    Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, Relocation, RelocationTarget,
    SectionFlags,
};

pub(crate) type File<'a> = MachOFile64<'a, object::Endianness>;

/// Instructions only: `S_ATTR_PURE_INSTRUCTIONS`.
const PURE_INSTRUCTIONS: u32 = 0x8000_0000;

/// A link by ld64.lld.
#[derive(Debug)]
pub struct Link<'a> {
    /// The architecture.
    pub arch: Arch,
    objects: Vec<ObjectFile<'a>>,
    /// Names of personalities, by number.
    personalities: Vec<String>,
    image: File<'a>,
    map: Map,
    base: u64,
}

/// An object, with the addresses of its symbols.
pub(crate) struct ObjectFile<'a> {
    pub(crate) file: File<'a>,
    /// Names of symbols, by section and address.
    pub(crate) starts: BTreeMap<(usize, u64), Vec<&'a str>>,
    /// Relocations by offset, of `__compact_unwind` and of `__eh_frame`.
    relocations: [HashMap<u64, Relocation>; 2],
}

impl std::fmt::Debug for ObjectFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(&self.starts).finish()
    }
}

/// A map file of `-map`.
#[derive(Debug, Default)]
struct Map {
    /// Addresses, by the object's number (from 1) and the symbol's name.
    symbols: HashMap<(u32, String), u64>,
    /// Addresses of pointer slots, by the name of the symbol that they point to.
    slots: HashMap<String, u64>,
}

impl Map {
    fn parse(text: &str) -> Self {
        let mut map = Self::default();
        let (_, symbols) = text.split_once("# Symbols:").expect("a map file has symbols");
        let live = symbols.split("# Dead Stripped Symbols:").next().unwrap();
        for line in live.lines().filter(|line| line.starts_with("0x")) {
            let (numbers, name) = line.split_once("] ").expect("a symbol has a file");
            let (numbers, file) = numbers.split_once('[').unwrap();
            let address = numbers.split_whitespace().next().unwrap();
            let address = u64::from_str_radix(&address[2..], 16).unwrap();
            let file: u32 = file.trim().parse().unwrap();
            match name.strip_prefix("non-lazy-pointer-to-local: ") {
                Some(target) => drop(map.slots.insert(target.to_owned(), address)),
                // Later lines with this name are pointers to the symbol.
                None => drop(map.symbols.entry((file, name.to_owned())).or_insert(address)),
            }
        }
        map
    }
}

const PARTS: [&str; 2] = ["__compact_unwind", "__eh_frame"];

impl<'a> ObjectFile<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Self {
        let file = File::parse(bytes).unwrap();
        let mut starts = BTreeMap::<_, Vec<_>>::new();
        for symbol in file.symbols() {
            let Some(section) = symbol.section_index() else { continue };
            starts.entry((section.0, symbol.address())).or_default().push(symbol.name().unwrap());
        }
        let relocations = PARTS.map(|name| {
            let section = file.section_by_name(name);
            section.map(|section| section.relocations().collect()).unwrap_or_default()
        });
        Self { file, starts, relocations }
    }

    pub(crate) fn part(&self, part: Part) -> (&'a [u8], Address) {
        let section = self.file.section_by_name(PARTS[part as usize]);
        section.map_or((&[], Address(0)), |section| (section.data().unwrap(), Address(section.address())))
    }

    /// Returns the number of the section that contains an address.
    pub(crate) fn section_of(&self, address: u64) -> Option<usize> {
        let holds = |section: &object::read::macho::MachOSection64<'_, '_, _>| {
            (section.address()..section.address() + section.size()).contains(&address)
        };
        self.file.sections().find(holds).map(|section| section.index().0)
    }

    /// Returns the closest symbols at or before an address, with their address.
    fn symbols_before(&self, address: u64) -> Option<(u64, Vec<&'a str>)> {
        let section = self.section_of(address)?;
        // For arm64, assembler-local labels of clang do not start a subsection.
        let mut before = self.starts.range((section, 0)..=(section, address)).rev();
        before.find_map(|(&(_, start), names)| {
            let names: Vec<_> = names.iter().copied().filter(|name| !name.starts_with("ltmp")).collect();
            (!names.is_empty()).then_some((start, names))
        })
    }

    /// Returns a field's target: its name if it is a symbol, and its address in the object.
    fn target(&self, field: Field) -> Option<(Option<&'a str>, u64)> {
        self.target_at(field.part, field.offset, field.target)
    }

    /// Does the same for a field of the part. Without a relocation the target is `unrelocated`.
    pub(crate) fn target_at(
        &self,
        part: Part,
        offset: SectionOffset,
        unrelocated: Option<Address>,
    ) -> Option<(Option<&'a str>, u64)> {
        let Some(relocation) = self.relocations[part as usize].get(&(offset.0 as u64)) else {
            return unrelocated.map(|target| (None, target.0));
        };
        let (bytes, _) = self.part(part);
        let stored = &bytes[offset.0..];
        let stored = match relocation.size() {
            32 => i64::from(i32::from_le_bytes(stored[..4].try_into().unwrap())),
            64 => i64::from_le_bytes(stored[..8].try_into().unwrap()),
            size => panic!("a field of {size} bits"),
        };
        match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = self.file.symbol_by_index(index).unwrap();
                // ld64.lld takes every such pair of relocations for the distance from the field to the symbol.
                let address = match relocation.subtractor() {
                    Some(_) => symbol.address(),
                    None => symbol.address().wrapping_add_signed(stored),
                };
                Some((Some(symbol.name().unwrap()), address))
            }
            _ => Some((None, stored as u64)),
        }
    }
}

/// Returns the key of a function or LSDA, made of the object's number and the address in it.
fn key(object: u32, address: u64) -> u64 {
    u64::from(object + 1) << 32 | address
}

/// Answers a builder's questions about one object.
struct Resolver<'l, 'a> {
    number: u32,
    object: &'l ObjectFile<'a>,
    map: &'l Map,
    personalities: &'l mut Vec<String>,
}

impl Resolve for Resolver<'_, '_> {
    fn function(&mut self, field: Field) -> Option<Key> {
        let (_, address) = self.object.target(field)?;
        place(self.object, self.number, self.map, address)?;
        Some(Key(key(self.number, address)))
    }

    fn personality(&mut self, field: Field) -> Option<PersonalityKey> {
        let (name, _) = self.object.target(field)?;
        let name = name.expect("personalities are symbols");
        let number = self.personalities.iter().position(|known| known == name).unwrap_or_else(|| {
            self.personalities.push(name.to_owned());
            self.personalities.len() - 1
        });
        Some(PersonalityKey(number as u64))
    }

    /// ld64.lld takes the start of the LSDA's subsection.
    fn lsda(&mut self, field: Field) -> Option<LsdaKey> {
        let (_, address) = self.object.target(field)?;
        let (start, _) = self.object.symbols_before(address).expect("an LSDA has a symbol");
        LsdaKey::new(key(self.number, start))
    }
}

/// Returns where an object's address is in the image, if it is there.
fn place(object: &ObjectFile<'_>, number: u32, map: &Map, address: u64) -> Option<u64> {
    let (start, names) = object.symbols_before(address)?;
    let found = names.into_iter().find_map(|name| map.symbols.get(&(number + 1, name.to_owned())))?;
    Some(found + (address - start))
}

/// Returns whether a section has these flags because it is code.
pub(crate) fn is_code(flags: SectionFlags) -> bool {
    let SectionFlags::MachO { flags, .. } = flags else { panic!("{flags:?}") };
    flags.0 & PURE_INSTRUCTIONS != 0
}

impl<'a> Link<'a> {
    /// Reads a link. Objects are in the order of the command line.
    pub fn new(objects: &[&'a [u8]], image: &'a [u8], map: &str) -> Self {
        let image = File::parse(image).unwrap();
        let text = image.segments().find(|segment| segment.name() == Ok(Some("__TEXT")));
        let base = text.expect("an image has __TEXT").address();
        let arch = match image.architecture() {
            Architecture::X86_64 => Arch::Amd64,
            Architecture::Aarch64 => Arch::Aarch64,
            other => panic!("{other:?}"),
        };
        let objects = objects.iter().map(|bytes| ObjectFile::parse(bytes)).collect();
        Self { arch, objects, personalities: Vec::new(), image, map: Map::parse(map), base }
    }

    /// Collects the unwind information of the objects, as a linker does.
    pub fn collect(&mut self, options: Options) -> Section {
        let mut builder = Builder::new(self.arch, options).unwrap();
        let Self { objects, personalities, map, .. } = self;
        for (object, number) in objects.iter().zip(0..) {
            // Each object has a shard. Only the order of absorption matters.
            let mut shard = builder.shard();
            let (rows, _) = object.part(Part::CompactUnwind);
            let (eh_frame, address) = object.part(Part::EhFrame);
            let input = Input::new(number).with_compact_unwind(rows).with_eh_frame(eh_frame, address);
            shard.push(&input, &mut Resolver { number, object, map, personalities });
            for section in object.file.sections() {
                if !is_code(section.flags()) {
                    continue;
                }
                let index = section.index().0;
                for &(_, address) in object.starts.range((index, 0)..(index + 1, 0)).map(|start| start.0) {
                    if place(object, number, map, address).is_some() {
                        shard.push_code(Key(key(number, address)), 0);
                    }
                }
            }
            builder.absorb(shard);
        }
        builder.finish()
    }

    /// Returns the pointer slot of a personality.
    pub fn slot_of(&self, personality: PersonalityKey) -> ImageOffset {
        let name = &self.personalities[personality.0 as usize];
        self.image_offset(self.map.slots[name])
    }

    /// Returns the output addresses of functions, LSDAs and FDEs.
    pub fn output(&self, section: &Section) -> Output<'_, 'a> {
        let functions = section.fdes().map(|(function, fde)| (fde, function)).collect();
        let mut records = HashMap::new();
        if let Some(section) = self.image.section_by_name("__eh_frame") {
            let cfi = gimli::EhFrame::new(section.data().unwrap(), gimli::LittleEndian);
            let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
            let mut entries = cfi.entries(&bases);
            while let Some(record) = entries.next().unwrap() {
                let gimli::CieOrFde::Fde(fde) = record else { continue };
                let fde = fde.parse(|_, bases, offset| cfi.cie_from_offset(bases, offset)).unwrap();
                records.insert(fde.initial_address(), fde.offset() as u32);
            }
        }
        Output { link: self, functions, records }
    }

    /// Returns the table that ld64.lld wrote.
    pub fn table(&self) -> Vec<u8> {
        let section = self.image.section_by_name("__unwind_info");
        section.map(|section| section.data().unwrap().to_vec()).unwrap_or_default()
    }

    fn place(&self, key: u64) -> Option<u64> {
        let number = (key >> 32) as u32 - 1;
        place(&self.objects[number as usize], number, &self.map, key & 0xffff_ffff)
    }

    fn image_offset(&self, address: u64) -> ImageOffset {
        ImageOffset((address - self.base).try_into().unwrap())
    }
}

/// The addresses of an image.
#[derive(Debug)]
pub struct Output<'l, 'a> {
    link: &'l Link<'a>,
    functions: HashMap<Fde, Key>,
    /// FDEs, by the addresses of their functions.
    records: HashMap<u64, u32>,
}

impl Addresses for Output<'_, '_> {
    fn function(&self, function: Key) -> Option<ImageOffset> {
        self.link.place(function.0).map(|address| self.link.image_offset(address))
    }

    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        self.link.place(lsda.0.get()).map(|address| self.link.image_offset(address))
    }

    fn fde(&self, fde: Fde) -> Option<u32> {
        let function = self.functions.get(&fde)?;
        self.records.get(&self.link.place(function.0)?).copied()
    }
}
