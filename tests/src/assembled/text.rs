//! Puts labels into a text, and reads its directives.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cfipack_assembler::{Directives, EscapeOperand};
use cfipack_cfi::PointerEncoding;
use cfipack_format::{Arch, Key, Register};

/// A function of the text.
#[derive(Clone, Debug)]
pub struct Function {
    /// The label that stands at its start.
    pub start: String,
    /// The directives that were set.
    pub directives: Directives,
}

/// The meaning of a text.
#[derive(Clone, Debug)]
pub struct Source {
    /// The functions, in the order of `.cfi_startproc`.
    pub functions: Vec<Function>,
    /// The symbols that directives name, by their keys.
    pub symbols: Vec<String>,
    /// The operands of the last `.cfi_sections`.
    pub sections: Option<String>,
}

/// Puts a label `cfipack_LINE` before each line that has a `.cfi_*` directive.
pub fn instrument(text: &str) -> String {
    let mut result = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(".cfi_") && !line.contains(".cfi_sections") {
            writeln!(result, "{}:", label(number)).unwrap();
        }
        result += line;
        result.push('\n');
    }
    result
}

/// Returns the values of an instrumented text's labels if all code of the text is `.skip`. They are right within a
/// function, because only distances between labels of a function count.
pub fn skipped(text: &str) -> BTreeMap<String, u64> {
    let (mut symbols, mut at) = (BTreeMap::new(), 0);
    for (number, line) in text.lines().enumerate() {
        symbols.insert(label(number), at);
        if let Some(size) = line.trim().strip_prefix(".skip ") {
            at += size.parse::<u64>().expect("a size");
        }
    }
    symbols
}

fn label(number: usize) -> String {
    format!("cfipack_{number}")
}

impl Source {
    /// Reads a text that is not [instrumented](instrument). `symbols` has the values of symbols in the object of the
    /// instrumented text.
    pub fn parse(text: &str, arch: Arch, symbols: &BTreeMap<String, u64>) -> Self {
        let mut source = Self { functions: Vec::new(), symbols: Vec::new(), sections: None };
        let mut is_aligned = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.split("/*").next().unwrap().trim();
            is_aligned |= [".p2align ", ".balign ", ".align "]
                .iter()
                .filter_map(|directive| line.strip_prefix(directive))
                .any(|operand| !operand.starts_with('0'));
            let Some(directive) = line.strip_prefix(".cfi_") else { continue };
            let (name, operands) = directive.split_once([' ', '\t']).unwrap_or((directive, ""));
            let offset = |start: &str| symbols[&label(number)] - symbols[start];
            match name {
                "sections" => source.sections = Some(operands.to_owned()),
                "startproc" => {
                    let directives = Directives::new(arch, u64::MAX >> 1).with_simple(operands == "simple");
                    source.functions.push(Function { start: label(number), directives });
                    is_aligned = false;
                }
                _ => {
                    let Function { start, directives } = source.functions.last_mut().expect("a function");
                    let offset = offset(start);
                    if name == "endproc" {
                        *directives = directives.clone().with_code_len(offset);
                        continue;
                    }
                    if std::mem::take(&mut is_aligned) {
                        directives.at_aligned(offset);
                    } else {
                        directives.at(offset);
                    }
                    let mut operands = Operands::new(arch, operands, &mut source.symbols);
                    put(directives, name, &mut operands);
                }
            }
        }
        source
    }
}

fn put(directives: &mut Directives, name: &str, operands: &mut Operands<'_>) {
    match name {
        "def_cfa" => directives.def_cfa(operands.register(), operands.number()),
        "def_cfa_offset" => directives.def_cfa_offset(operands.number()),
        "adjust_cfa_offset" => directives.adjust_cfa_offset(operands.number()),
        "def_cfa_register" => directives.def_cfa_register(operands.register()),
        "offset" => directives.offset(operands.register(), operands.number()),
        "rel_offset" => directives.rel_offset(operands.register(), operands.number()),
        "val_offset" => directives.val_offset(operands.register(), operands.number()),
        "register" => directives.register_in(operands.register(), operands.register()),
        "restore" => return operands.each_register(|register| _ = directives.restore(register)),
        "undefined" => return operands.each_register(|register| _ = directives.undefined(register)),
        "same_value" => return operands.each_register(|register| _ = directives.same_value(register)),
        "remember_state" => directives.remember_state(),
        "restore_state" => directives.restore_state(),
        "window_save" => directives.window_save(),
        "negate_ra_state" => directives.negate_ra_state(),
        "negate_ra_state_with_pc" => directives.negate_ra_state_with_pc(),
        "escape" => directives.escape_operands(&operands.escaped()),
        "signal_frame" => directives.signal_frame(),
        "b_key_frame" => directives.b_key_frame(),
        "mte_tagged_frame" => directives.mte_tagged_frame(),
        "return_column" => directives.return_column(operands.register()),
        "personality" => directives.personality(operands.encoding(), operands.symbol()),
        "lsda" => directives.lsda(operands.encoding(), operands.symbol()),
        "label" => directives.label(),
        name => panic!(".cfi_{name}"),
    };
}

/// The operands of a directive.
struct Operands<'a> {
    arch: Arch,
    rest: std::iter::Peekable<std::str::Split<'a, char>>,
    symbols: &'a mut Vec<String>,
}

impl<'a> Operands<'a> {
    fn new(arch: Arch, operands: &'a str, symbols: &'a mut Vec<String>) -> Self {
        Self { arch, rest: operands.split(',').peekable(), symbols }
    }

    fn next(&mut self) -> &'a str {
        self.rest.next().expect("an operand").trim()
    }

    fn number(&mut self) -> i64 {
        number(self.next())
    }

    fn register(&mut self) -> Register {
        let name = self.next();
        // The library must refuse numbers that no psABI has.
        if let Ok(number) = name.parse() {
            return Register(number);
        }
        Register::named(self.arch, name).expect(name)
    }

    fn each_register(&mut self, mut each: impl FnMut(Register)) {
        while self.rest.peek().is_some() {
            each(self.register());
        }
    }

    fn encoding(&mut self) -> PointerEncoding {
        PointerEncoding(self.number() as u8)
    }

    fn symbol(&mut self) -> Key {
        let name = self.next();
        let index = self.symbols.iter().position(|known| known == name).unwrap_or_else(|| {
            self.symbols.push(name.to_owned());
            self.symbols.len() - 1
        });
        Key(index as u64)
    }

    fn escaped(&mut self) -> Vec<EscapeOperand> {
        let inner = |operand: &str, function: &str| {
            Some(number(operand.strip_prefix(function)?.strip_prefix('(')?.strip_suffix(')')?))
        };
        let mut operands = Vec::new();
        while self.rest.peek().is_some() {
            let operand = self.next();
            operands.push(match (inner(operand, "uleb128"), inner(operand, "sleb128")) {
                (Some(value), _) => EscapeOperand::Uleb128(value as u64),
                (_, Some(value)) => EscapeOperand::Sleb128(value),
                _ => match number(operand) {
                    byte @ -0x80..=0xff => EscapeOperand::Byte(byte as u8),
                    value => EscapeOperand::Truncated(value),
                },
            });
        }
        operands
    }
}

fn number(text: &str) -> i64 {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    sign * value.unwrap_or_else(|_| panic!("not a number: {text}"))
}
