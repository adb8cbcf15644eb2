//! Gathers a linker's input for an image's `__unwind_info`: entries of one Mach-O object, at their addresses in the
//! image. The image's own table is the expected result.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use cfipack_encoder::unwind_info::Entry;
use cfipack_format::compact_unwind::{Encoding, Entry as Row};
use cfipack_format::{Arch, ImageOffset, LsdaKey};
use gimli::UnwindSection;
use object::read::macho::MachOFile64;
use object::{Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationTarget};

/// An object, and the image that ld64.lld made of it.
#[derive(Debug)]
pub struct Linked {
    /// The architecture.
    pub arch: Arch,
    /// The object's entries, in no order, because lld gathers them in no order.
    pub entries: Vec<Entry>,
    /// Pointer slots of personalities. Personality N has index N - 1.
    pub slots: Vec<ImageOffset>,
    /// The image's `__unwind_info`, if it has one.
    pub table: Option<Vec<u8>>,
}

type File<'a> = MachOFile64<'a, object::Endianness>;

/// Maps addresses of an object to addresses of the image.
struct Moves<'a> {
    object: File<'a>,
    image: File<'a>,
    /// The address of the image's Mach-O header.
    base: u64,
    /// Image offsets of the image's symbols.
    symbols: HashMap<&'a [u8], u32>,
    /// The object's symbols by section and address.
    starts: BTreeMap<(usize, u64), &'a [u8]>,
}

impl Linked {
    /// Gathers the entries of the only object that was linked into an image.
    pub fn new(object: &[u8], image: &[u8]) -> Self {
        let (object, image) = (File::parse(object).unwrap(), File::parse(image).unwrap());
        let text = image.segments().find(|segment| segment.name() == Ok(Some("__TEXT")));
        let base = text.expect("an image has __TEXT").address();
        let symbols = image.symbols().map(|symbol| {
            let offset = symbol.address().wrapping_sub(base) as u32;
            (symbol.name_bytes().unwrap(), offset)
        });
        let starts = object.symbols().filter_map(|symbol| {
            let section = symbol.section_index()?.0;
            Some(((section, symbol.address()), symbol.name_bytes().unwrap()))
        });
        let (symbols, starts) = (symbols.collect(), starts.collect());
        let moves = Moves { object, image, base, symbols, starts };
        let arch = match moves.object.architecture() {
            Architecture::X86_64 => Arch::Amd64,
            Architecture::Aarch64 => Arch::Aarch64,
            other => panic!("{other:?}"),
        };
        let mut entries = moves.functions();
        let slots = moves.rows(arch, &mut entries);
        moves.fdes(arch, &mut entries);
        let table =
            moves.image.section_by_name("__unwind_info").map(|section| section.data().unwrap().to_vec());
        Self { arch, entries: entries.into_values().collect(), slots, table }
    }
}

impl Moves<'_> {
    /// Returns every function symbol in the image, without unwind information yet.
    fn functions(&self) -> BTreeMap<u32, Entry> {
        let text = self.object.section_by_name("__text").expect("an object has __text").index();
        let symbols = self.object.symbols().filter(|symbol| symbol.section_index() == Some(text));
        let kept = symbols.filter_map(|symbol| self.symbols.get(symbol.name_bytes().unwrap()));
        kept.map(|&at| (at, Entry::new(ImageOffset(at), 0, Encoding::NONE))).collect()
    }

    fn image_offset(&self, address: u64) -> u32 {
        (address - self.base).try_into().unwrap()
    }

    /// Returns where code of the object is in the image. It is as far after the closest symbol as in the object.
    fn code_in_image(&self, address: u64) -> Option<u32> {
        let (name, start) = self.symbol_before("__text", address)?;
        Some(self.symbols.get(name)? + (address - start) as u32)
    }

    /// Returns where lld thinks that an LSDA of the object is in the image: at the start of its subsection.
    fn lsda_in_image(&self, address: u64) -> u32 {
        let section = self.object.section_by_name("__gcc_except_tab").expect("there are LSDAs");
        let start =
            self.symbol_before("__gcc_except_tab", address).map_or(section.address(), |found| found.1);
        let linked = self.image.section_by_name("__gcc_except_tab").expect("LSDAs stay");
        self.image_offset(linked.address() + start - section.address())
    }

    fn symbol_before(&self, section: &str, address: u64) -> Option<(&[u8], u64)> {
        let section = self.object.section_by_name(section)?.index().0;
        let (&(_, start), name) = self.starts.range((section, 0)..=(section, address)).next_back()?;
        Some((name, start))
    }

    /// Adds the rows of `__compact_unwind` to the entries. Returns the slots of personalities, which lld assigns in the
    /// order of functions.
    fn rows(&self, arch: Arch, entries: &mut BTreeMap<u32, Entry>) -> Vec<ImageOffset> {
        let mut personalities = Vec::<String>::new();
        if let Some(section) = self.object.section_by_name("__compact_unwind") {
            let relocations: BTreeMap<_, _> = section.relocations().collect();
            let size = Row::size(8);
            for (bytes, at) in section.data().unwrap().chunks_exact(size).zip((0..).step_by(size)) {
                let row = Row::read(bytes, 8).unwrap();
                let target = |field: usize, addend: u64| {
                    let relocation = relocations.get(&(at + field as u64))?;
                    Some(match relocation.target() {
                        RelocationTarget::Section(_) => (None, addend),
                        RelocationTarget::Symbol(index) => {
                            let symbol = self.object.symbol_by_index(index).unwrap();
                            (Some(symbol.name().unwrap().to_owned()), symbol.address() + addend)
                        }
                        other => panic!("{other:?}"),
                    })
                };
                let personality = target(Row::personality_at(8), 0).map(|(name, _)| {
                    let name = name.expect("personalities are symbols");
                    personalities.iter().position(|known| *known == name).unwrap_or_else(|| {
                        personalities.push(name);
                        personalities.len() - 1
                    })
                });
                if row.encoding.mode_number() == Encoding::dwarf(arch, 0).mode_number() {
                    continue;
                }
                let (_, function) = target(Row::FUNCTION_AT, row.function).expect("a row has a function");
                let Some(function) = self.code_in_image(function) else { continue };
                let lsda = target(Row::lsda_at(8), row.lsda).map(|(_, address)| self.lsda_in_image(address));
                let entry = Entry {
                    function: ImageOffset(function).into(),
                    length: row.length,
                    encoding: row.encoding,
                    personality: personality.and_then(|at| NonZeroU32::new(at as u32 + 1)),
                    lsda: lsda.and_then(|lsda| LsdaKey::new(lsda.into())),
                    fde: None,
                };
                entries.insert(function, entry);
            }
        }
        let got = self.image.section_by_name("__got").map_or(0, |got| self.image_offset(got.address()));
        let mut slots = vec![None; personalities.len()];
        let mut free = (got..).step_by(8).map(ImageOffset);
        for personality in entries.values().filter_map(|entry| entry.personality) {
            slots[personality.get() as usize - 1].get_or_insert_with(|| free.next().unwrap());
        }
        slots.into_iter().map(|slot| slot.unwrap_or_default()).collect()
    }

    /// Gives each function without a row the FDE that the image has for it.
    fn fdes(&self, arch: Arch, entries: &mut BTreeMap<u32, Entry>) {
        let Some(section) = self.image.section_by_name("__eh_frame") else { return };
        let cfi = gimli::EhFrame::new(section.data().unwrap(), gimli::LittleEndian);
        let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
        let mut records = cfi.entries(&bases);
        while let Some(record) = records.next().unwrap() {
            let gimli::CieOrFde::Fde(fde) = record else { continue };
            let fde = fde.parse(|_, bases, offset| cfi.cie_from_offset(bases, offset)).unwrap();
            let function = self.image_offset(fde.initial_address());
            let Some(entry) = entries.get_mut(&function).filter(|entry| entry.encoding == Encoding::NONE)
            else {
                continue;
            };
            let lsda = fde.lsda().map(|lsda| {
                let linked = self.image.section_by_name("__gcc_except_tab").expect("LSDAs stay");
                let object = self.object.section_by_name("__gcc_except_tab").expect("there are LSDAs");
                self.lsda_in_image(lsda.pointer() - linked.address() + object.address())
            });
            *entry = Entry {
                length: fde.len().try_into().unwrap(),
                encoding: Encoding::dwarf(arch, 0),
                lsda: lsda.and_then(|lsda| LsdaKey::new(lsda.into())),
                fde: NonZeroU32::new(fde.offset().try_into().unwrap()),
                ..*entry
            };
        }
    }
}
