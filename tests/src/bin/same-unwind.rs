//! Compares the `__unwind_info` of two images that two linkers have made of the same Mach-O objects: for each symbol of
//! code, the encoding, the FDE, the LSDA, and which functions have the same personality.
//!
//! ```sh
//! cargo run -p cfipack-tests --bin same-unwind -- OURS THEIRS
//! ```

use std::collections::{BTreeMap, HashMap};
use std::{env, fs, process};

use cfipack_decoder::unwind_info::Section;
use cfipack_format::compact_unwind::{Encoding, Mode};
use cfipack_format::{Arch, ImageOffset};
use object::{File, Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind};

struct Image<'a> {
    file: File<'a>,
    base: u64,
    table: &'a [u8],
}

/// What an image says about a function. Personalities have the addresses of their slots.
#[derive(Debug, PartialEq)]
struct Answer {
    encoding: Encoding,
    /// The first bytes of the LSDA. They do not depend on addresses.
    lsda: Option<[u8; 4]>,
    personality: Option<ImageOffset>,
}

impl<'a> Image<'a> {
    fn parse(bytes: &'a [u8]) -> Self {
        let file = File::parse(bytes).expect("a Mach-O image");
        let text = file.segments().find(|segment| segment.name() == Ok(Some("__TEXT")));
        let base = text.expect("__TEXT").address();
        let table = file.section_by_name("__unwind_info").expect("__unwind_info").data().expect("its bytes");
        Self { file, base, table }
    }

    /// Returns the addresses of symbols in code. Names that are there several times are left out.
    fn functions(&self) -> BTreeMap<&'a str, u64> {
        let mut functions = BTreeMap::<_, Option<u64>>::new();
        for symbol in self.file.symbols() {
            let section = symbol.section_index().and_then(|at| self.file.section_by_index(at).ok());
            if section.is_some_and(|section| section.kind() == SectionKind::Text) {
                let name = symbol.name().expect("a name");
                functions.entry(name).and_modify(|known| *known = None).or_insert(Some(symbol.address()));
            }
        }
        functions.into_iter().filter_map(|(name, address)| Some((name, address?))).collect()
    }

    fn at<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let data = |section: object::Section<'a, '_>| section.data_range(address, N as u64).ok().flatten();
        self.file.sections().find_map(data)?.try_into().ok()
    }

    /// Returns the answer for a function, or what is wrong with it.
    fn answer(&self, table: &Section<'_>, address: u64) -> Result<Answer, String> {
        let nothing = Answer { encoding: Encoding::NONE, lsda: None, personality: None };
        let offset = ImageOffset((address - self.base) as u32);
        let Some(entry) = table.lookup(offset).map_err(|error| error.to_string())? else {
            return Ok(nothing);
        };
        let encoding = entry.encoding.with_personality(0);
        if entry.encoding.mode(Arch::Aarch64) == Some(Mode::Dwarf) {
            let records = self.file.section_by_name("__eh_frame").ok_or("no __eh_frame")?;
            let field = records.address() + u64::from(encoding.0 & 0xff_ffff) + 8;
            let distance = i64::from_le_bytes(self.at(field).ok_or("the FDE is outside of __eh_frame")?);
            let start = field.wrapping_add_signed(distance);
            return if start == address {
                Ok(Answer { encoding: Encoding::dwarf(Arch::Aarch64, 0), ..nothing })
            } else {
                Err(format!("the FDE at {:#x} is that of {start:#x}", encoding.0 & 0xff_ffff))
            };
        }
        let lsda = table.lsda(&entry).map_err(|error| error.to_string())?;
        let lsda = lsda.and_then(|at| self.at(self.base + u64::from(at.0)));
        Ok(Answer {
            encoding,
            lsda,
            personality: table.personality(&entry).map_err(|error| error.to_string())?,
        })
    }
}

fn main() {
    let paths: Vec<_> = env::args().skip(1).collect();
    let files: Vec<_> = paths.iter().map(|path| fs::read(path).expect(path)).collect();
    let [ours, theirs] = &files[..] else { panic!("usage: same-unwind OURS THEIRS") };
    let [ours, theirs] = [ours, theirs].map(|bytes| Image::parse(bytes));
    let [our_table, their_table] =
        [&ours, &theirs].map(|image| Section::parse(image.table).expect("a table"));
    let (ours_by_name, mut counts, mut slots) = (ours.functions(), [0; 3], HashMap::new());
    for (name, their_address) in theirs.functions() {
        let Some(&our_address) = ours_by_name.get(name) else { continue };
        counts[0] += 1;
        let same = match [ours.answer(&our_table, our_address), theirs.answer(&their_table, their_address)] {
            [Ok(a), Ok(b)] => {
                counts[1] += usize::from(a.encoding == Encoding::dwarf(Arch::Aarch64, 0));
                let slot = *slots.entry(b.personality).or_insert(a.personality);
                (a.encoding, a.lsda, a.personality) == (b.encoding, b.lsda, slot)
            }
            _ => false,
        };
        if !same {
            counts[2] += 1;
            let [a, b] = [ours.answer(&our_table, our_address), theirs.answer(&their_table, their_address)];
            println!("{name}: {a:x?}, {b:x?}");
        }
    }
    let [functions, dwarf, different] = counts;
    println!(
        "{functions} functions, {dwarf} in DWARF mode, {different} different; {} and {} bytes",
        ours.table.len(),
        theirs.table.len()
    );
    process::exit(i32::from(different > 0 || functions == 0));
}
