//! A function's instructions.

use std::fmt::Write as _;

use cfipack_code::{Disassembler, Instructions, Text};
use cfipack_container::{File, Kind, Section};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch};

use crate::report::place::Places;

/// Code beyond this many bytes of a function is not disassembled.
pub const MAX_CODE: usize = 1 << 20;

/// The code of a function, as far as the file has it, and the relocated bytes in it.
pub struct Code<'a> {
    section: Section<'a>,
    start: Address,
    len: usize,
    /// Offsets of relocated fields in the function, ascending.
    relocated: Vec<u32>,
}

impl<'a> Code<'a> {
    /// The code at an address.
    pub fn find(file: &File<'a>, start: Address, size: u64) -> anyhow::Result<Option<Self>> {
        let contains = |section: &Section<'_>| {
            let offset = start.0.checked_sub(section.address.0);
            offset.is_some_and(|offset| offset < section.bytes.len().to_u64())
        };
        let Some(section) = file.code_sections()?.into_iter().find(contains) else { return Ok(None) };
        let rest = section.bytes.len() - (start.0 - section.address.0).to_usize();
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(rest).min(MAX_CODE);
        let mut relocated = Vec::new();
        if let (Kind::Relocatable, Some(index)) = (file.kind(), section.index) {
            let first = start.0 - section.address.0;
            let inside = |offset: u64| offset.checked_sub(first).filter(|offset| *offset < len.to_u64());
            let fields = file.relocations(index)?;
            // No larger than MAX_CODE.
            relocated =
                fields.iter().filter_map(|field| inside(field.offset)).map(|offset| offset as u32).collect();
            relocated.sort_unstable();
        }
        Ok(Some(Self { section, start, len, relocated }))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        let offset = (self.start.0 - self.section.address.0).to_usize();
        &self.section.bytes[offset..offset + self.len]
    }

    /// Returns the code for an analysis.
    pub fn get(&self, arch: Arch) -> cfipack_code::Code<'_> {
        cfipack_code::Code { arch, start: self.start, bytes: self.bytes(), relocated: &self.relocated }
    }

    /// Returns the text of every instruction. Texts are empty if the architecture has no disassembler.
    pub fn texts(&self, arch: Arch, instructions: &Instructions, places: &Places<'_, '_>) -> Vec<String> {
        let mut disassembler = Disassembler::new();
        let code = self.get(arch);
        let all = instructions.as_slice().iter();
        all.map(|instruction| with_target(disassembler.text(&code, instruction.offset), places)).collect()
    }
}

/// Returns the text of an instruction, with the name of its target.
pub fn with_target(text: Text, places: &Places<'_, '_>) -> String {
    match text {
        Text::Plain(text) => text,
        Text::Branch(mut text, target) => {
            // Writing to a String does not fail.
            let _ = match target {
                Some(target) => write!(text, " {}", places.name(target)),
                None => write!(text, " (relocated)"),
            };
            text
        }
    }
}
