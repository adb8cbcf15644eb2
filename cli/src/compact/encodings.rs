//! The encodings of a file's functions, from their CFI.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use anyhow::Context as _;
use cfipack_cfi::{self as cfi, Function, SectionKind};
use cfipack_container::{CallFrameSection, File};
use cfipack_encoder::compact_unwind::{Encoder, Mode};
use cfipack_encoder::unwind_info::Entry;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, ImageOffset, LsdaKey};
use cfipack_format::{Unsupported, UnsupportedFormat};
use cfipack_roundtrip::unwind_info::Code;
use serde::Serialize;

use super::personalities::{Personalities, PersonalitiesOfCies};
use crate::report::reasons;

/// Turns a file's addresses into image offsets.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    base: Address,
}

impl Image {
    /// Creates an image. Its offsets count from `base`.
    pub fn new(base: Address) -> Self {
        Self { base }
    }

    /// Returns the distance of an address from the base. It is an error if 32 bits cannot hold the distance.
    pub fn offset(&self, address: Address) -> anyhow::Result<ImageOffset> {
        let offset = address.0.checked_sub(self.base.0).and_then(|offset| u32::try_from(offset).ok());
        let base = self.base;
        Ok(ImageOffset(offset.with_context(|| format!("{address} is not within 4 GiB after {base}"))?))
    }
}

/// The functions of a file, with an entry for each that describes how it is unwound.
#[derive(Debug, Default)]
pub struct Encodings {
    /// The number of functions in the CFI, including functions that cannot be read.
    pub functions: u64,
    /// An entry for each readable function.
    pub entries: Vec<Entry>,
    /// Functions in DWARF mode, and the reasons.
    pub in_dwarf_mode: Vec<Unsupported>,
    /// FDEs that cannot be read.
    pub malformed: Vec<cfi::Error>,
}

/// How functions are unwound. `reasons` counts the reasons for DWARF mode, and the FDEs that cannot be read.
#[derive(Serialize, Default, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactCoverage"))]
pub struct Coverage {
    pub functions: u64,
    pub compact: u64,
    pub dwarf: u64,
    pub none: u64,
    pub reasons: BTreeMap<&'static str, u64>,
}

impl Encodings {
    /// Counts the functions by how they are unwound.
    pub fn coverage(&self) -> Coverage {
        Coverage {
            functions: self.functions,
            compact: self.compact(),
            dwarf: self.in_dwarf_mode.len().to_u64(),
            none: self.malformed.len().to_u64(),
            reasons: self.reasons(),
        }
    }

    /// Returns the number of functions with a compact encoding.
    pub fn compact(&self) -> u64 {
        self.functions - (self.in_dwarf_mode.len() + self.malformed.len()).to_u64()
    }

    /// Counts the functions in DWARF mode and the omitted functions, by reason.
    pub fn reasons(&self) -> BTreeMap<&'static str, u64> {
        reasons::count(&self.in_dwarf_mode, self.malformed.len())
    }

    /// Encodes all functions of a file for which `is_wanted` is true.
    pub fn compute(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        image: Image,
        personalities: &mut Personalities,
        mut is_wanted: impl FnMut(&Function<'_>, SectionKind) -> bool,
        mode: EncodingMode,
    ) -> anyhow::Result<Self> {
        let code_sections = file.code_sections()?;
        let code = Code::new(code_sections.iter().map(|section| (section.address, &section.bytes[..])));
        let mut encoder = CompactEncoder::new(file.arch(), code)?;
        let mut found = Self::default();
        for section in sections {
            let name = || format!("section {}", section.section.name);
            let named = PersonalitiesOfCies::read(file, section)?;
            let reader = section.cfi();
            for function in cfipack_cfi::Functions::new(&reader) {
                let function = match function {
                    Ok(function) => function,
                    Err(error @ cfi::Error::Length { .. }) => return Err(error).with_context(name),
                    Err(error) => {
                        found.functions += 1;
                        found.malformed.push(error);
                        continue;
                    }
                };
                if !is_wanted(&function, section.kind) {
                    continue;
                }
                found.functions += 1;
                let encoding = match mode {
                    EncodingMode::Dwarf => Encoding::dwarf(file.arch(), 0),
                    EncodingMode::Compact => encoder.encode(&function).unwrap_or_else(|unsupported| {
                        found.in_dwarf_mode.push(unsupported);
                        Encoding::dwarf(file.arch(), 0)
                    }),
                };
                let is_eh_frame = section.kind == SectionKind::EhFrame;
                let personality = named.personality(&function.cie);
                let fde = u32::try_from(function.fde.0).ok().and_then(NonZeroU32::new);
                found.entries.push(Entry {
                    function: image.offset(function.key.address()).with_context(name)?.into(),
                    length: u32::try_from(function.size).unwrap_or(u32::MAX),
                    encoding,
                    personality: personality.map(|personality| personalities.number(personality)),
                    lsda: lsda(&function, image).with_context(name)?,
                    fde: if is_eh_frame { fde } else { None },
                });
            }
        }
        Ok(found)
    }
}

/// The functions for which compact encodings are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodingMode {
    /// Every function.
    Compact,
    /// No function. Use it for an object, whose functions without a row stay in DWARF mode.
    Dwarf,
}

fn lsda(function: &Function<'_>, image: Image) -> anyhow::Result<Option<LsdaKey>> {
    let Some(address) = function.lsda()? else { return Ok(None) };
    Ok(LsdaKey::at(image.offset(address)?))
}

/// Computes compact encodings of functions. It reuses its memory from function to function.
#[derive(Debug)]
pub struct CompactEncoder<'c, 'f> {
    code: Code<'c>,
    encoder: Encoder<'f>,
}

impl<'c, 'f> CompactEncoder<'c, 'f> {
    /// Creates an encoder for the functions of this code.
    pub fn new(arch: Arch, code: Code<'c>) -> Result<Self, UnsupportedFormat> {
        Ok(Self { code, encoder: Encoder::new(arch)? })
    }

    /// Returns the encoding of a function, or the reason why it has none.
    pub fn encode(&mut self, function: &Function<'f>) -> Result<Encoding, Unsupported> {
        // A file without code, for example a file with debugging information only, has no calls to find.
        self.encoder.encode(function, Some(self.code.starting_at(function.key.address())), Mode::Checked)
    }
}
