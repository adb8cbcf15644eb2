//! Prints instructions.

use cfipack_format::{Address, Arch, Family};
use iced_x86::{Formatter as _, IntelFormatter};

use crate::instructions::Code;
use crate::{aarch64, x86};

/// An instruction as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Text {
    /// The complete text. It is empty if no disassembler for the architecture is built in.
    Plain(String),
    /// The text of a direct branch without its target, and the target. You can print a symbol instead of the address.
    /// The target is `None` if a relocation decides it.
    Branch(String, Option<Address>),
}

/// Turns machine code into text.
pub struct Disassembler {
    formatter: IntelFormatter,
}

impl std::fmt::Debug for Disassembler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disassembler").finish_non_exhaustive()
    }
}

impl Default for Disassembler {
    fn default() -> Self {
        Self::new()
    }
}

impl Disassembler {
    /// Makes a disassembler. It uses Intel's syntax for x86.
    pub fn new() -> Self {
        let mut formatter = IntelFormatter::new();
        let options = formatter.options_mut();
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_space_after_operand_separator(true);
        options.set_rip_relative_addresses(true);
        options.set_show_branch_size(false);
        options.set_signed_immediate_operands(true);
        Self { formatter }
    }

    /// Returns the text of the instruction at an offset in a function's code, in bytes from its start.
    pub fn text(&mut self, code: &Code<'_>, offset: u32) -> Text {
        let Some(rest) = code.bytes.get(offset as usize..) else { return Text::Plain(String::new()) };
        let pc = code.start.offset(offset.into());
        match (code.arch.family(), rest.first_chunk()) {
            (Family::X86, _) => self.x86(code.arch, rest, pc, |len| code.is_relocated(offset as usize, len)),
            (Family::Aarch64, Some(word)) => aarch64(*word, pc, code.is_relocated(offset as usize, 4)),
            (Family::Aarch64, None) | (Family::S390x | Family::Riscv, _) => Text::Plain(String::new()),
        }
    }

    fn x86(&mut self, arch: Arch, code: &[u8], pc: Address, is_relocated: impl Fn(usize) -> bool) -> Text {
        let instruction = x86::decode(arch, code, pc);
        let mut text = String::new();
        if instruction.is_invalid() {
            return Text::Plain("(bad)".to_string());
        }
        match x86::near_target(&instruction) {
            Some(target) => {
                self.formatter.format_mnemonic(&instruction, &mut text);
                Text::Branch(text, (!is_relocated(instruction.len())).then_some(target))
            }
            None => {
                self.formatter.format(&instruction, &mut text);
                Text::Plain(text)
            }
        }
    }
}

fn aarch64(bytes: [u8; 4], pc: Address, is_relocated: bool) -> Text {
    let Some(instruction) = aarch64::disassemble(bytes) else {
        return Text::Plain(format!(".word {:#010x}", u32::from_le_bytes(bytes)));
    };
    let text = instruction.to_string();
    match aarch64::near_target(&instruction, pc) {
        Some(target) => {
            // The last operand is the relative target; we cut it off.
            let end = text.rfind('$').unwrap_or(text.len());
            Text::Branch(text[..end].trim_end().to_string(), (!is_relocated).then_some(target))
        }
        None => Text::Plain(text),
    }
}
