//! Reads a library that ld64.lld linked, and says how each of its functions is unwound.

use std::collections::{BTreeSet, HashMap};

use cfipack_decoder::unwind_info::Section;
use cfipack_format::compact_unwind::{Encoding, Mode};
use cfipack_format::{Address, Arch, ImageOffset};
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, Pointer, UnwindSection};
use object::read::macho::MachOFile64;
use object::{Architecture, Object, ObjectSection, ObjectSegment, ObjectSymbol};

/// How a function is unwound, and which personality handles its exceptions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// The compact encoding without flags and personality. `None` in DWARF mode.
    pub encoding: Option<Encoding>,
    /// The name of the personality.
    pub personality: Option<String>,
    /// The language-specific data area.
    pub lsda: Option<Address>,
}

/// An FDE.
#[derive(Clone, Debug)]
pub struct Fde {
    /// Offset in `__eh_frame`.
    pub offset: usize,
    /// Bytes of code of its function.
    pub len: u64,
    /// The instructions of its CIE, followed by its own.
    pub instructions: String,
    personality: Option<u64>,
    lsda: Option<u64>,
}

/// A linked library.
#[derive(Debug)]
pub struct Image<'a> {
    file: MachOFile64<'a, object::Endianness>,
    pub arch: Arch,
    base: u64,
    table: &'a [u8],
    /// Names of personalities, by the addresses of the pointers to them.
    slots: HashMap<u64, String>,
    fdes: HashMap<u64, Fde>,
}

impl<'a> Image<'a> {
    /// Reads a library and the map that `-map` wrote.
    pub fn new(bytes: &'a [u8], map: &str) -> Self {
        let file = MachOFile64::parse(bytes).unwrap();
        let arch = match file.architecture() {
            Architecture::X86_64 => Arch::Amd64,
            _ => Arch::Aarch64,
        };
        let text = file.segments().find(|segment| segment.name() == Ok(Some("__TEXT")));
        let base = text.unwrap().address();
        let table = file.section_by_name("__unwind_info").map_or(&[][..], |section| section.data().unwrap());
        let slots = map.lines().filter_map(|line| {
            let (numbers, name) = line.split_once("non-lazy-pointer-to-local: ")?;
            let address = numbers.split_whitespace().next()?.strip_prefix("0x")?;
            Some((u64::from_str_radix(address, 16).unwrap(), name.to_owned()))
        });
        let slots = slots.collect();
        let mut image = Self { file, arch, base, table, slots, fdes: HashMap::new() };
        image.read_fdes();
        image
    }

    fn read_fdes(&mut self) {
        let (bytes, address) = self.eh_frame();
        let cfi = EhFrame::new(bytes, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut entries = cfi.entries(&bases);
        while let Some(entry) = entries.next().unwrap() {
            let CieOrFde::Fde(fde) = entry else { continue };
            let fde = fde.parse(EhFrame::cie_from_offset).unwrap();
            let pointer = |pointer: Option<Pointer>| match pointer {
                Some(Pointer::Direct(address) | Pointer::Indirect(address)) => Some(address),
                None => None,
            };
            let mut instructions = String::new();
            let both = [fde.cie().instructions(&cfi, &bases), fde.instructions(&cfi, &bases)];
            for mut list in both {
                while let Some(instruction) = list.next().unwrap() {
                    instructions += &format!("{instruction:?} ");
                }
            }
            let found = Fde {
                offset: fde.offset(),
                len: fde.len(),
                instructions,
                personality: pointer(fde.personality()),
                lsda: pointer(fde.lsda()).filter(|lsda| *lsda != 0),
            };
            self.fdes.insert(fde.initial_address(), found);
        }
    }

    /// `__eh_frame` and its address.
    pub fn eh_frame(&self) -> (&'a [u8], u64) {
        let section = self.file.section_by_name("__eh_frame");
        section.map_or((&[], 0), |section| (section.data().unwrap(), section.address()))
    }

    /// The addresses of all symbols in sections of code.
    pub fn functions(&self) -> BTreeSet<u64> {
        let symbols = self.file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
        symbols.filter(|symbol| symbol.is_definition()).map(|symbol| symbol.address()).collect()
    }

    /// The code from an address to the end of its section.
    pub fn code(&self, address: u64) -> &'a [u8] {
        let range = |section: &object::read::macho::MachOSection64<'a, '_, _>| {
            section.address()..section.address() + section.size()
        };
        let section = self.file.sections().find(|section| range(section).contains(&address)).unwrap();
        &section.data().unwrap()[(address - section.address()) as usize..]
    }

    /// The FDE of a function.
    pub fn fde(&self, address: u64) -> Option<&Fde> {
        self.fdes.get(&address)
    }

    /// How a function is unwound, or `None` if it has no unwind information.
    pub fn function(&self, address: u64) -> Option<Function> {
        let table = Section::parse(self.table).unwrap();
        let offset = ImageOffset((address - self.base) as u32);
        let entry = table.lookup(offset).unwrap()?;
        let slot = |address: u64| self.slots[&address].clone();
        match entry.encoding.mode(self.arch).unwrap() {
            Mode::None => None,
            Mode::Dwarf => {
                let fde = self.fde(address).expect("a function in DWARF mode has an FDE");
                assert!(entry.encoding.dwarf_offset() as usize <= fde.offset);
                let lsda = fde.lsda.map(Address);
                Some(Function { encoding: None, personality: fde.personality.map(slot), lsda })
            }
            _ => {
                let at = |offset: ImageOffset| self.base + u64::from(offset.0);
                let personality = table.personality(&entry).unwrap().map(|offset| slot(at(offset)));
                let lsda = table.lsda(&entry).unwrap().map(|offset| Address(at(offset)));
                let flags = cfipack_format::compact_unwind::Flags::empty();
                let encoding = Some(entry.encoding.with_personality(0).with_flags(flags));
                Some(Function { encoding, personality, lsda })
            }
        }
    }
}
