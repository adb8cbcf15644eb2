//! Reads the unwind information of functions from Mach-O objects, and compares it with the image of their link, as LLVM's
//! libunwind reads this image.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use cfipack_cfi as cfi;
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Flags};
use cfipack_format::{Address, Arch, ImageOffset, SectionOffset};
use cfipack_linker::unwind_info::Part;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

use crate::libunwind::{Answer, ask};
use crate::mach_link::{File, ObjectFile, is_code};

/// How many functions and PCs were compared.
#[derive(Clone, Default, Debug)]
pub struct Compared {
    /// Functions whose symbol the image has once.
    pub functions: usize,
    /// Functions that are unwound by their FDE.
    pub dwarf: usize,
    /// Functions without unwind information.
    pub none: usize,
    /// PCs that libunwind was asked about.
    pub pcs: usize,
    /// Answers that are not what the objects say, as text.
    pub wrong: Vec<String>,
}

/// A description of a function, by a row or an FDE.
#[derive(Clone, Copy, Debug)]
struct Description<'a> {
    length: u64,
    /// The encoding without a personality's number. Of an FDE only the mode.
    encoding: Encoding,
    personality: Option<&'a str>,
    /// The first bytes of the LSDA. They do not depend on addresses.
    lsda: Option<[u8; 4]>,
}

/// What an object says about a function.
#[derive(Clone, Copy, Default, Debug)]
struct Said<'a> {
    row: Option<Description<'a>>,
    fde: Option<Description<'a>>,
}

/// Asks libunwind about the first, a middle and the last byte of each function, with `table` for the image's `__unwind_info`.
pub fn compare(judge: &Path, image: &[u8], table: &[u8], objects: &[&[u8]]) -> Compared {
    let file = cfipack_container::File::parse(image).expect("an image");
    let mut said = BTreeMap::new();
    for bytes in objects {
        for (name, of_function) in said_by(&ObjectFile::parse(bytes), file.arch()) {
            said.entry(name).or_insert(of_function);
        }
    }
    let rows = said.values().filter_map(|said| said.row);
    let personalities: HashSet<_> = rows.filter_map(|row| row.personality).collect();
    let mut image = Image::parse(image, file.arch());
    image.is_crowded = personalities.len() > 3;
    let mut questions = Vec::new();
    for (name, start) in image.functions() {
        let Some(&said) = said.get(name) else { continue };
        // Of a function without unwind information only the start is known.
        let length = said.row.or(said.fde).map_or(2, |said| said.length);
        // At the end of an FDE, where the next function starts, libunwind still finds the FDE: docs/known-errors.md.
        let first = start + u64::from(said.row.is_none() && length > 1);
        for pc in [first, start + length / 2, start + length.max(1) - 1] {
            questions.push((name, said, start, pc));
        }
    }
    let pcs: Vec<_> = questions.iter().map(|&(.., pc)| ImageOffset(pc as u32)).collect();
    let answers = ask(judge, &file, table, &pcs);
    let mut compared = Compared { pcs: pcs.len(), functions: pcs.len() / 3, ..Compared::default() };
    for (at, ((name, said, start, pc), answer)) in questions.into_iter().zip(answers).enumerate() {
        if let Err(what) = image.check(said, start, answer.as_ref()) {
            compared.wrong.push(format!("{name}+{:#x}: {what}: {answer:x?}, {said:x?}", pc - start));
        }
        if at % 3 == 2 {
            compared.none += usize::from(answer.is_none());
            compared.dwarf += usize::from(answer.is_some_and(|answer| answer.fde != 0));
        }
    }
    compared
}

/// Returns what an object says about each symbol of its code. Symbols inside described functions are left out.
fn said_by<'a>(object: &ObjectFile<'a>, arch: Arch) -> BTreeMap<&'a str, Said<'a>> {
    let mut by_address = BTreeMap::<u64, Said<'_>>::new();
    for (start, row) in rows(object, arch) {
        by_address.entry(start).or_default().row = Some(row);
    }
    for (start, fde) in fdes(object, arch) {
        by_address.entry(start).or_default().fde.get_or_insert(fde);
    }
    let code = object.file.sections().filter(|section| is_code(section.flags()));
    let code: HashSet<_> = code.map(|section| section.index().0).collect();
    let mut said = BTreeMap::new();
    for (&(section, address), names) in &object.starts {
        let before = by_address.range(..address).next_back();
        let is_inside = before.is_some_and(|(start, said)| {
            let length = said.row.or(said.fde).map_or(0, |said| said.length);
            object.section_of(*start) == Some(section) && address - start < length
        });
        let own = by_address.get(&address).copied();
        if code.contains(&section) && (own.is_some() || !is_inside) {
            said.extend(names.iter().map(|&name| (name, own.unwrap_or_default())));
        }
    }
    said
}

/// Returns the rows with a compact encoding, by the address of the function.
fn rows<'a>(object: &ObjectFile<'a>, arch: Arch) -> Vec<(u64, Description<'a>)> {
    let (bytes, _) = object.part(Part::CompactUnwind);
    let mut rows = Vec::new();
    for (bytes, at) in bytes.chunks_exact(Row::size(8)).zip((0..).step_by(Row::size(8))) {
        let row = Row::read(bytes, 8).expect("a row");
        let target = |field: usize, stored: u64| {
            let stored = (stored != 0 || field == Row::FUNCTION_AT).then_some(Address(stored));
            object.target_at(Part::CompactUnwind, SectionOffset(at + field), stored)
        };
        if [0, dwarf(arch).mode_number()].contains(&row.encoding.mode_number()) {
            continue;
        }
        let description = Description {
            length: row.length.into(),
            encoding: row.encoding.with_personality(0),
            personality: target(Row::personality_at(8), row.personality).map(|target| name(object, target)),
            lsda: target(Row::lsda_at(8), row.lsda).map(|(_, at)| lsda(object, at)),
        };
        let (_, start) = target(Row::FUNCTION_AT, row.function).expect("a function");
        rows.push((start, description));
    }
    rows
}

/// Returns the FDEs, by the address of the function.
fn fdes<'a>(object: &ObjectFile<'a>, arch: Arch) -> Vec<(u64, Description<'a>)> {
    let (bytes, address) = object.part(Part::EhFrame);
    let section = cfi::Section::new(cfi::SectionKind::EhFrame, bytes, address, arch);
    let target = |field, target| object.target_at(Part::EhFrame, field, target);
    let mut fdes = Vec::new();
    for fde in cfi::Functions::new(&section).map(|fde| fde.expect("an FDE")) {
        let personality = fde.cie.personality.and_then(|found| target(found.field, found.address));
        let lsda_at = fde.lsda_field().and_then(|field| target(field, fde.lsda().ok().flatten()));
        let description = Description {
            length: fde.size,
            encoding: dwarf(arch),
            personality: personality.map(|target| name(object, target)),
            lsda: lsda_at.map(|(_, at)| lsda(object, at)),
        };
        let (_, start) = target(fde.start_field, fde.start).expect("a function");
        fdes.push((start, description));
    }
    fdes
}

fn dwarf(arch: Arch) -> Encoding {
    Encoding::dwarf(arch, 0)
}

/// Returns the name of a target: a relocation's symbol, or the symbol at the address.
fn name<'a>(object: &ObjectFile<'a>, (name, address): (Option<&'a str>, u64)) -> &'a str {
    let at = || object.starts.iter().find(|((_, at), _)| *at == address).expect("a symbol").1[0];
    name.unwrap_or_else(at)
}

fn lsda(object: &ObjectFile<'_>, address: u64) -> [u8; 4] {
    let sections = object.file.sections();
    let mut found = sections.filter_map(|section| section.data_range(address, 4).ok().flatten());
    found.next().expect("an LSDA").try_into().unwrap()
}

/// An image, and what was learned of it. Addresses count from its header.
struct Image<'a> {
    file: File<'a>,
    arch: Arch,
    base: u64,
    /// The slots of personalities.
    slots: HashMap<&'a str, u64>,
    /// Rows have more personalities than a table can name, so functions may use their FDEs.
    is_crowded: bool,
}

impl<'a> Image<'a> {
    fn parse(bytes: &'a [u8], arch: Arch) -> Self {
        let file = File::parse(bytes).expect("a Mach-O image");
        let text = file.segments().find(|segment| segment.name() == Ok(Some("__TEXT")));
        let base = text.expect("__TEXT").address();
        Self { file, arch, base, slots: HashMap::new(), is_crowded: false }
    }

    /// Returns the places of symbols in code. Names that are there several times are left out.
    fn functions(&self) -> BTreeMap<&'a str, u64> {
        let mut functions = BTreeMap::<_, Option<u64>>::new();
        for symbol in self.file.symbols() {
            let section = symbol.section_index().and_then(|at| self.file.section_by_index(at).ok());
            if section.is_some_and(|section| is_code(section.flags())) {
                let place = symbol.address() - self.base;
                let name = symbol.name().expect("a name");
                functions.entry(name).and_modify(|known| *known = None).or_insert(Some(place));
            }
        }
        functions.into_iter().filter_map(|(name, place)| Some((name, place?))).collect()
    }

    /// Checks an answer about the function at `start`.
    fn check(&mut self, said: Said<'a>, start: u64, answer: Option<&Answer>) -> Result<(), &'static str> {
        let Some(answer) = answer else {
            let is_right = said.row.or(said.fde).is_none();
            return if is_right { Ok(()) } else { Err("not found") };
        };
        let is_dwarf = Encoding(answer.encoding).mode_number() == dwarf(self.arch).mode_number();
        let by_row = said.row.filter(|_| !(is_dwarf && self.is_crowded));
        let said = by_row.or(said.fde).ok_or("found")?;
        if by_row.is_none() && (answer.start, answer.end) != (start, start + said.length) {
            return Err("another FDE");
        }
        let flag = if by_row.is_some() && said.lsda.is_some() { Flags::HAS_LSDA } else { Flags::empty() };
        let found = Encoding(answer.encoding).with_personality(0);
        if found != said.encoding.with_flags(flag) {
            return Err("another encoding");
        }
        let lsda = (answer.lsda != 0).then(|| {
            let at = self.base + answer.lsda;
            self.file.sections().find_map(|section| section.data_range(at, 4).ok().flatten())
        });
        if lsda.flatten() != said.lsda.as_ref().map(|bytes| &bytes[..]) {
            return Err("another LSDA");
        }
        let slot = said.personality.map_or(0, |name| *self.slots.entry(name).or_insert(answer.personality));
        let is_shared = self.slots.values().filter(|&&known| known == slot).count() > 1;
        if slot != answer.personality || is_shared {
            return Err("another personality");
        }
        Ok(())
    }
}
