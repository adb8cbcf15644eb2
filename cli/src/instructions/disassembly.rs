//! The code of a function, and the text of its instructions.

use std::fmt::Write as _;

use cfipack_code::{Disassembler, Instructions, Text};
use cfipack_container::{File, Kind, Section};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch};

use crate::report::place::Places;

/// Code beyond this many bytes of a function is not disassembled.
pub const MAX_CODE: usize = 1 << 20;

/// The part of a function's code that the file contains, with the places of its relocations.
pub struct Code<'a> {
    section: Section<'a>,
    start: Address,
    len: usize,
    /// Offsets of relocated fields in the function, ascending.
    relocated: Vec<u32>,
}

impl<'a> Code<'a> {
    /// Finds the code of a function. Returns `None` if no section of code contains `start`.
    pub fn find(file: &File<'a>, start: Address, size: u64) -> anyhow::Result<Option<Self>> {
        let section = file.code_sections()?.into_iter().find(|section| {
            let offset = start.0.checked_sub(section.address.0);
            offset.is_some_and(|offset| offset < section.bytes.len().to_u64())
        });
        let Some(section) = section else { return Ok(None) };
        let rest = section.bytes.len() - (start.0 - section.address.0).to_usize();
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(rest).min(MAX_CODE);
        let mut relocated = Vec::new();
        if let (Kind::Relocatable, Some(index)) = (file.kind(), section.index) {
            let first = start.0 - section.address.0;
            for field in file.relocations(index)? {
                if let Some(offset) = field.offset.checked_sub(first)
                    && offset < len.to_u64()
                {
                    // The offset is less than MAX_CODE.
                    relocated.push(offset as u32);
                }
            }
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
