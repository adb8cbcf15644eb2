//! A function's instructions.

use std::fmt::Write as _;

use cfipack_container::{File, Kind, Section};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Family};

use super::aarch64;
use super::decoded::{Decoded, Text};
use super::effect::{Effect, Flow};
use super::x86::X86Decoder;
use crate::report::place::Places;

/// Code beyond this many bytes of a function is not disassembled.
pub const MAX_CODE: usize = 1 << 20;

/// One instruction of a function.
#[derive(Debug)]
pub struct Instruction {
    /// Bytes from the function's start.
    pub offset: u32,
    pub len: u8,
    /// Empty where the architecture has no disassembler.
    pub text: String,
    pub flow: Flow,
    pub effect: Effect,
    pub is_padding: bool,
}

/// The code of a function, as far as the file has it, and the relocated bytes in it.
pub struct Code<'a> {
    section: Section<'a>,
    start: Address,
    len: usize,
    /// Offsets of relocated fields in the section, ascending.
    relocated: Vec<u64>,
}

impl<'a> Code<'a> {
    /// The code at an address.
    pub fn of(file: &File<'a>, start: Address, size: u64) -> anyhow::Result<Option<Self>> {
        let contains = |section: &Section<'_>| {
            let offset = start.0.checked_sub(section.address.0);
            offset.is_some_and(|offset| offset < section.bytes.len().to_u64())
        };
        let Some(section) = file.code_sections()?.into_iter().find(contains) else { return Ok(None) };
        let rest = section.bytes.len() - (start.0 - section.address.0).to_usize();
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(rest).min(MAX_CODE);
        let mut relocated = Vec::new();
        if let (Kind::Relocatable, Some(index)) = (file.kind(), section.index) {
            relocated = file.relocations(index)?.iter().map(|relocation| relocation.offset).collect();
            relocated.sort_unstable();
        }
        Ok(Some(Self { section, start, len, relocated }))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let offset = (self.start.0 - self.section.address.0).to_usize();
        &self.section.bytes[offset..offset + self.len]
    }

    /// Returns whether a relocation changes one of `len` bytes from an offset in the function on.
    fn is_relocated(&self, offset: usize, len: usize) -> bool {
        let start = self.start.0 - self.section.address.0 + offset.to_u64();
        let next = self.relocated.partition_point(|field| *field < start);
        self.relocated.get(next).is_some_and(|field| *field < start + len.to_u64())
    }

    /// The instructions.
    pub fn instructions(&self, arch: Arch, places: &Places<'_, '_>) -> Vec<Instruction> {
        let bytes = self.bytes();
        let mut x86 = X86Decoder::new(arch);
        let mut instructions = Vec::new();
        let mut offset = 0;
        while offset < bytes.len() {
            let rest = &bytes[offset..];
            let pc = self.start.offset(offset as i64);
            let decoded = match (arch.family(), rest.first_chunk()) {
                (Family::X86, _) => x86.decode(rest, pc, |len| self.is_relocated(offset, len)),
                (Family::Aarch64, Some(word)) => aarch64::decode(*word, pc, self.is_relocated(offset, 4)),
                (Family::Aarch64, None) => bytes_only(rest, rest.len()),
                (Family::S390x, _) => bytes_only(rest, s390x_len(rest[0])),
            };
            let text = match decoded.text {
                Text::Plain(text) => text,
                Text::Branch(mut text, target) => {
                    // Writing to a String does not fail.
                    let _ = match target {
                        Some(target) => write!(text, " {}", places.name(target)),
                        None => write!(text, " (relocated)"),
                    };
                    text
                }
            };
            let Decoded { len, flow, effect, is_padding, .. } = decoded;
            // No larger than MAX_CODE.
            instructions.push(Instruction { offset: offset as u32, len, text, flow, effect, is_padding });
            offset += usize::from(len);
        }
        instructions
    }
}

/// The length of an instruction, by its two highest bits (z/Architecture Principles of Operation, "Instruction Formats").
fn s390x_len(first: u8) -> usize {
    match first >> 6 {
        0 => 2,
        1 | 2 => 4,
        _ => 6,
    }
}

/// An instruction of which only the length is known.
fn bytes_only(rest: &[u8], len: usize) -> Decoded {
    let len = len.min(rest.len()).min(6) as u8;
    let text = Text::Plain(String::new());
    Decoded { len, text, flow: Flow::Next, effect: Effect::default(), is_padding: false }
}
