//! Makes random Mach-O objects with `__compact_unwind` rows and FDEs, for linkers to link.

use cfipack_cfi::write::{Cie, Writer as CfiWriter};
use cfipack_cfi::{PointerEncoding, SectionKind as CfiKind};
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Flags};
use cfipack_format::{Address, Arch};
use cfipack_testkit::random::Random;
use object::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, macho,
};

/// Bytes of a pointer.
const POINTER: u8 = 8;

/// The kinds of functions in an object.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Number of functions.
    pub functions: usize,
    /// Distinct encodings, most of them rare.
    pub encodings: u64,
    /// Number of personalities, at most 3.
    pub personalities: u64,
    /// How many functions of 100 have an LSDA.
    pub lsda: u64,
    /// How many functions of 100 have an FDE and no row.
    pub dwarf: u64,
    /// How many functions of 100 have no unwind information.
    pub none: u64,
    /// How many functions of 100 are like the function before.
    pub alike: u64,
    /// Number of gaps of about 16 MB.
    pub gaps: usize,
    /// The alignment of the code in bytes.
    pub align: u64,
}

impl Mix {
    /// Returns a random mix for up to `functions` functions.
    pub fn random(random: &mut Random, functions: u64) -> Self {
        Self {
            functions: 1 + random.below(functions) as usize,
            encodings: random.pick(&[1, 3, 20, 126, 140, 250, 300, 900, 4000]),
            personalities: random.below(4),
            lsda: random.pick(&[0, 0, 10, 30, 90]),
            dwarf: random.pick(&[0, 0, 1, 10, 50, 95]),
            none: random.pick(&[0, 0, 3, 30]),
            alike: random.pick(&[0, 10, 60]),
            gaps: if random.chance(10) { 1 + random.below(2) as usize } else { 0 },
            align: 4,
        }
    }
}

/// Writes one object.
struct Writer<'a> {
    object: Object<'static>,
    random: &'a mut Random,
    mix: Mix,
    arch: Arch,
    text: SectionId,
    rows: SectionId,
    lsdas: SectionId,
    cfi: SectionId,
    personalities: Vec<SymbolId>,
}

/// Makes a random object. Its functions are `f` or `drop`, `name` and a number; each object of a link needs its own name.
pub fn random(random: &mut Random, arch: Arch, mix: Mix, name: &str) -> Vec<u8> {
    let mut object = empty(arch);
    object.set_subsections_via_symbols();
    let section = |object: &mut Object<'static>, segment: &str, name: &str, kind| {
        object.add_section(segment.into(), name.into(), kind)
    };
    let text = section(&mut object, "__TEXT", "__text", SectionKind::Text);
    let rows = section(&mut object, "__LD", "__compact_unwind", SectionKind::Debug);
    let lsdas = section(&mut object, "__TEXT", "__gcc_except_tab", SectionKind::ReadOnlyData);
    let cfi = section(&mut object, "__TEXT", "__eh_frame", SectionKind::ReadOnlyData);
    let personalities = (0..mix.personalities).map(|number| {
        object.add_symbol(symbol(
            &format!("personality_{number}"),
            SymbolSection::Undefined,
            0,
            SymbolKind::Text,
        ))
    });
    let personalities = personalities.collect();
    let mut writer = Writer { object, random, mix, arch, text, rows, lsdas, cfi, personalities };
    let functions = writer.functions(name);
    writer.unwind(&functions);
    writer.object.write().unwrap()
}

fn symbol(name: &str, section: SymbolSection, value: u64, kind: SymbolKind) -> Symbol {
    let scope = match section {
        SymbolSection::Undefined => SymbolScope::Unknown,
        _ => SymbolScope::Linkage,
    };
    let name = name.into();
    Symbol { name, value, size: 0, kind, scope, weak: false, section, flags: SymbolFlags::None }
}

impl Writer<'_> {
    /// Adds the code. Returns symbol and size of every function.
    fn functions(&mut self, name: &str) -> Vec<(SymbolId, u32)> {
        let count = self.mix.functions;
        let gaps: Vec<_> = (0..self.mix.gaps).map(|_| self.random.below(count as u64) as usize).collect();
        let mut functions = Vec::new();
        for number in 0..count {
            let mut size = 4 * (1 + self.random.below(6)) as usize;
            if gaps.contains(&number) {
                size += 0xff_ff00 + 4 * self.random.below(80) as usize;
            }
            let align = if number == 0 { self.mix.align } else { 4 };
            let start = self.object.append_section_data(self.text, &vec![0x90; size], align);
            let section = SymbolSection::Section(self.text);
            let kept = if self.random.chance(20) { "drop" } else { "f" };
            let name = format!("{kept}{name}{number}");
            let id = self.object.add_symbol(symbol(&name, section, start, SymbolKind::Text));
            functions.push((id, size as u32));
        }
        functions
    }

    /// Decides how each function is unwound, and writes that.
    fn unwind(&mut self, functions: &[(SymbolId, u32)]) {
        let (mut rows, mut fdes) = (Vec::new(), Vec::new());
        let mut last = None;
        for &(function, length) in functions {
            if self.random.chance(self.mix.none) {
                continue;
            }
            if self.random.chance(self.mix.dwarf) {
                fdes.push((function, length));
                continue;
            }
            let alike = last.filter(|_| self.random.chance(self.mix.alike));
            let (encoding, personality) = alike.unwrap_or_else(|| (self.encoding(), self.personality()));
            last = Some((encoding, personality));
            rows.push((function, length, encoding, personality));
        }
        // Rows may come in any order.
        for at in (1..rows.len()).rev() {
            rows.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        for (number, &(function, length, encoding, personality)) in rows.iter().enumerate() {
            self.row(number, function, length, encoding, personality);
        }
        if !fdes.is_empty() {
            self.fdes(&fdes);
        }
    }

    /// Returns an encoding. A few encodings are frequent, most are rare.
    fn encoding(&mut self) -> Encoding {
        let mut number = self.random.below(self.mix.encodings);
        if self.random.chance(50) {
            number = self.random.below(number + 1);
        }
        let indirect = self.arch == Arch::Amd64 && number % 7 == 3;
        let mode = if indirect { 0x0300_0000 } else { 0x0200_0000 };
        let not_start = if number % 11 == 5 { Flags::NOT_FUNCTION_START.bits() } else { 0 };
        Encoding(mode | not_start | (number as u32 + 1) << 12)
    }

    fn personality(&mut self) -> Option<SymbolId> {
        let known = self.personalities.len() as u64;
        let number = self.random.below(2 * known + 1) as usize;
        self.personalities.get(number).copied()
    }

    fn row(
        &mut self,
        number: usize,
        function: SymbolId,
        length: u32,
        encoding: Encoding,
        personality: Option<SymbolId>,
    ) {
        let lsda = self.random.chance(self.mix.lsda).then(|| {
            let start = self.object.append_section_data(self.lsdas, &[0xff, 0xff, 1, 0], 4);
            let section = SymbolSection::Section(self.lsdas);
            let mut lsda = symbol(&format!("GCC_except_table{number}"), section, start, SymbolKind::Data);
            lsda.scope = SymbolScope::Compilation;
            self.object.add_symbol(lsda)
        });
        let flags = if lsda.is_some() { Flags::HAS_LSDA } else { Flags::empty() };
        let row = Row { length, encoding: encoding.with_flags(flags), ..Row::default() };
        let size = Row::size(POINTER);
        let at = self.object.append_section_data(self.rows, &row.write(POINTER)[..size], 8);
        let fields = [
            (Row::FUNCTION_AT, Some(function)),
            (Row::personality_at(POINTER), personality),
            (Row::lsda_at(POINTER), lsda),
        ];
        for (field, symbol) in fields {
            if let Some(symbol) = symbol {
                self.pointer(self.rows, at + field as u64, symbol, None);
            }
        }
    }

    /// Writes a CIE without personality, and an FDE for each function. lld uses FDEs for functions without a row.
    fn fdes(&mut self, fdes: &[(SymbolId, u32)]) {
        let mut written = CfiWriter::new(CfiKind::EhFrame, Arch::Amd64, Address(0));
        let pc_relative = PointerEncoding(0x10);
        let cie = written.cie(&Cie::new(Arch::Amd64, &[]).with_fde_encoding(pc_relative)).unwrap();
        let mut starts = Vec::new();
        for &(function, length) in fdes {
            let nops = &[0; 12][..4 * self.random.below(4) as usize];
            // A relocation gives the start.
            let start = written.fde(&cie, Address(0), length.into(), None, nops).unwrap();
            starts.push((start.0 as u64, function));
        }
        let at = self.object.append_section_data(self.cfi, written.as_bytes(), 8);
        assert_eq!(at, 0, "offsets in FDEs are those of the section");
        let section = self.object.section_symbol(self.cfi);
        for (start, function) in starts {
            self.pointer(self.cfi, start, function, Some(section));
        }
    }

    /// Adds a relocation for a pointer to a symbol, or for its distance from `here`.
    fn pointer(&mut self, section: SectionId, offset: u64, symbol: SymbolId, here: Option<SymbolId>) {
        let r_type = match self.arch {
            Arch::Amd64 => macho::X86_64_RELOC_UNSIGNED,
            _ => macho::ARM64_RELOC_UNSIGNED,
        };
        let flags = RelocationFlags::MachO { r_type, r_pcrel: false, r_length: 3 };
        let addend = if here.is_some() { -(offset as i64) } else { 0 };
        let relocation = Relocation { offset, symbol, addend, flags };
        self.object.add_relocation_with_subtractor(section, relocation, here).unwrap();
    }
}

/// Makes a file with the header of a bundle, and only an `__unwind_info`.
pub fn image_with_table(arch: Arch, table: &[u8]) -> Vec<u8> {
    let mut object = empty(arch);
    let section = object.add_section("__TEXT".into(), "__unwind_info".into(), SectionKind::ReadOnlyData);
    object.append_section_data(section, table, 4);
    let mut file = object.write().unwrap();
    file[12..16].copy_from_slice(&macho::MH_BUNDLE.0.to_le_bytes());
    file
}

fn empty(arch: Arch) -> Object<'static> {
    let architecture = match arch {
        Arch::Amd64 => Architecture::X86_64,
        Arch::Aarch64 => Architecture::Aarch64,
        other => panic!("{other:?}"),
    };
    Object::new(BinaryFormat::MachO, architecture, Endianness::Little)
}
