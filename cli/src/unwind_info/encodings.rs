//! The encodings of a file's functions, from their CFI.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use anyhow::Context as _;
use cfipack_container::{CallFrameSection, File, Kind, Section};
use cfipack_encoder::Unsupported;
use cfipack_encoder::cfi::{self, Cie, Function, SectionKind};
use cfipack_encoder::compact_unwind::{Encoder, Mode};
use cfipack_encoder::unwind_info::Entry;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, ImageOffset};
use cfipack_roundtrip::unwind_info::Code;

/// Turns a file's addresses into image offsets.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    base: Address,
}

impl Image {
    /// Of a file whose offsets count from here.
    pub fn new(base: Address) -> Self {
        Self { base }
    }

    /// Bytes from the base.
    pub fn offset(&self, address: Address) -> anyhow::Result<ImageOffset> {
        let offset = address.0.checked_sub(self.base.0).and_then(|offset| u32::try_from(offset).ok());
        let base = self.base;
        Ok(ImageOffset(offset.with_context(|| format!("{address} is not within 4 GiB from {base} on"))?))
    }
}

/// Which functions there are, and how each is unwound.
#[derive(Debug, Default)]
pub struct Encodings {
    /// Functions in the CFI, those that cannot be read among them.
    pub functions: u64,
    /// An entry for each that can.
    pub entries: Vec<Entry>,
    /// Those in DWARF mode, and why.
    pub unsupported: Vec<Unsupported>,
    /// FDEs that cannot be read.
    pub malformed: Vec<cfi::Error>,
}

impl Encodings {
    /// Why functions are in DWARF mode or left out, and how many.
    pub fn reasons(&self) -> BTreeMap<&'static str, u64> {
        let mut reasons = BTreeMap::new();
        for unsupported in &self.unsupported {
            *reasons.entry(unsupported.reason.name()).or_default() += 1;
        }
        if !self.malformed.is_empty() {
            reasons.insert("malformed-record", self.malformed.len() as u64);
        }
        reasons
    }

    /// Encodes all functions of a file; those that `is_wanted` says no to are left out.
    pub fn of(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        image: Image,
        personalities: &mut Personalities,
        mut is_wanted: impl FnMut(&Function<'_>) -> bool,
        mode: EncodingMode,
    ) -> anyhow::Result<Self> {
        let code_sections = file.code_sections()?;
        let code = Code::new(code_sections.iter().map(|section| (section.address, &section.bytes[..])));
        let mut found = Self::default();
        for section in sections {
            let name = || format!("section {}", section.section.name);
            let cells = Cells::of(file, section)?;
            let reader = section.cfi();
            let mut encoder = Encoder::new();
            for function in reader.functions() {
                let function = match function {
                    Ok(function) => function,
                    Err(error @ cfi::Error::Length { .. }) => return Err(error).with_context(name),
                    Err(error) => {
                        found.functions += 1;
                        found.malformed.push(error);
                        continue;
                    }
                };
                if !is_wanted(&function) {
                    continue;
                }
                found.functions += 1;
                let encoding = match mode {
                    EncodingMode::Dwarf => Encoding::dwarf(file.arch(), 0),
                    EncodingMode::Compact => {
                        let code = Some(code.starting_at(function.start)).filter(|code| !code.is_empty());
                        encoder.encode(&function, code, Mode::Checked).unwrap_or_else(|unsupported| {
                            found.unsupported.push(unsupported);
                            Encoding::dwarf(file.arch(), 0)
                        })
                    }
                };
                let is_eh_frame = section.kind == SectionKind::EhFrame;
                let personality = cells.personality(&function.cie);
                found.entries.push(Entry {
                    function: image.offset(function.start).with_context(name)?,
                    length: u32::try_from(function.size).unwrap_or(u32::MAX),
                    encoding,
                    personality: personality.map(|cell| personalities.number(cell)),
                    lsda: lsda(&function, image).with_context(name)?,
                    fde: u32::try_from(function.fde.0).ok().and_then(NonZeroU32::new).filter(|_| is_eh_frame),
                });
            }
        }
        Ok(found)
    }
}

/// Whether to look for compact encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodingMode {
    /// For every function.
    Compact,
    /// For none: the functions are a linker's that has found no row for them.
    Dwarf,
}

fn lsda(function: &Function<'_>, image: Image) -> anyhow::Result<Option<NonZeroU32>> {
    let Some(address) = function.lsda() else { return Ok(None) };
    Ok(NonZeroU32::new(image.offset(address)?.0))
}

/// Numbers for personalities, in the order of their first use.
#[derive(Debug, Default)]
pub struct Personalities {
    numbers: HashMap<u64, NonZeroU32>,
    cells: Vec<u64>,
}

impl Personalities {
    /// The number of the personality that is known by a cell.
    pub fn number(&mut self, cell: u64) -> NonZeroU32 {
        *self.numbers.entry(cell).or_insert_with(|| {
            self.cells.push(cell);
            NonZeroU32::MIN.saturating_add(self.cells.len() as u32 - 1)
        })
    }

    /// The cell of a personality.
    pub fn cell(&self, number: NonZeroU32) -> u64 {
        self.cells.get(number.get() as usize - 1).copied().unwrap_or(0)
    }
}

/// Where the personalities of a section's CIEs are: in a linked file the address of the pointer, in an
/// object the number of the symbol that its relocation names.
#[derive(Debug)]
struct Cells<'s> {
    /// In an object: by offset in the section.
    symbols: Option<BTreeMap<u64, usize>>,
    section: &'s CallFrameSection<'s>,
}

impl<'s> Cells<'s> {
    fn of(file: &File<'_>, section: &'s CallFrameSection<'s>) -> anyhow::Result<Self> {
        let mut symbols = None;
        if file.kind() == Kind::Relocatable
            && let Some(index) = section.section.index
        {
            let relocations = file.relocations(index)?.into_iter();
            symbols = Some(
                relocations.filter_map(|relocation| Some((relocation.offset, relocation.symbol?))).collect(),
            );
        }
        Ok(Self { symbols, section })
    }

    fn personality(&self, cie: &Cie<'_>) -> Option<u64> {
        let (_, address) = cie.personality?;
        let Some(symbols) = &self.symbols else { return Some(address.0) };
        // The one relocation of a CIE is its personality's.
        let length = self.section.section.bytes.get(cie.offset.0..)?.first_chunk()?;
        let end = cie.offset.0 as u64 + u64::from(self.section.arch.endian().u32(*length));
        let mut fields = symbols.range(cie.offset.0 as u64..end);
        Some(fields.next().map_or(address.0, |(_, &symbol)| symbol as u64))
    }
}

/// Says why functions have no compact encoding.
#[derive(Debug)]
pub struct Reasons<'a> {
    code: Vec<Section<'a>>,
}

impl<'a> Reasons<'a> {
    /// For functions of a file.
    pub fn of(file: &File<'a>) -> anyhow::Result<Self> {
        Ok(Self { code: file.code_sections()? })
    }

    /// The encoding of a function, or what stands in the way.
    pub fn find(&self, function: &Function<'_>) -> Result<Encoding, Unsupported> {
        let code = Code::new(self.code.iter().map(|section| (section.address, &section.bytes[..])));
        let code = Some(code.starting_at(function.start)).filter(|code| !code.is_empty());
        Encoder::new().encode(function, code, Mode::Checked)
    }
}
