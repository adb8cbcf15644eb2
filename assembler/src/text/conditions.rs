//! Macros and conditions of a listing: which of its rows the assembler assembled.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::Problem;
use super::collect::{Collector, Statement};
use super::diagnostic::Span;
use super::operands::Operands;
use super::rows::Rows;
use super::statement::{after_labels, find, is_name, is_space};

/// Rows that are looked at to learn whether a branch was assembled.
const ROWS_AHEAD: usize = 2000;

/// `.if`, and whether the rows of its present branch were assembled.
#[derive(Clone, Copy, Debug)]
struct Branch {
    is_live: bool,
    /// The value of the condition, if that is known.
    condition: Option<bool>,
    /// True if a branch of this condition was live, as far as is known.
    was_live: bool,
}

/// A `.macro` or a repetition whose body is being listed.
#[derive(Debug)]
struct Definition<'t> {
    /// The macro's name; none of `.rept`, `.irp`, `.irpc`.
    name: Option<&'t [u8]>,
    has_cfi: bool,
    depth: u32,
}

/// Macros and conditions.
#[derive(Debug, Default)]
pub(super) struct Conditions<'t> {
    branches: Vec<Branch>,
    definition: Option<Definition<'t>>,
    /// The macros, with whether there is CFI in their bodies.
    macros: BTreeMap<&'t [u8], bool>,
    /// `true` if there is CFI of which it is not known whether it was assembled.
    unknown: bool,
}

/// The role of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// A statement that was assembled as it stands.
    Assembled,
    /// A statement that was not assembled, or directs the assembler.
    Skipped,
    /// The columns beside it are those of the rows after it.
    Expanded,
}

impl<'t> Conditions<'t> {
    /// The role of a statement, by its first word. `rows` are those after the statement's.
    pub(super) fn role(
        &mut self,
        statement: Statement<'t>,
        rows: &Rows<'t>,
        collector: &mut Collector<'t>,
    ) -> Role {
        let at = after_labels(statement.text);
        let text = &statement.text[at..];
        let statement = Statement {
            text,
            base: if statement.is_in_place { statement.base + at } else { statement.base },
            ..statement
        };
        if text.first() != Some(&b'.') && self.definition.is_none() && self.branches.is_empty() {
            // The common case: an instruction, which can only be a macro's call if there are macros.
            if self.macros.is_empty() {
                return Role::Assembled;
            }
        }
        let length = text.iter().take_while(|&&byte| is_name(byte)).count();
        let word = &text[..length];
        let span = collector.span(statement, 0, length);
        if self.definition.is_some() {
            return self.define(word, text, span, rows, collector);
        }
        if word.starts_with(b".if") || matches!(word, b".else" | b".elseif" | b".endif") {
            self.condition(word, statement, rows, collector);
            return Role::Skipped;
        }
        if self.branches.last().is_some_and(|branch| !branch.is_live) {
            return Role::Skipped;
        }
        match word {
            b".macro" => {
                let rest = text[length..].trim_ascii_start();
                let name = rest.iter().take_while(|&&byte| is_name(byte)).count();
                self.definition = Some(Definition { name: Some(&rest[..name]), has_cfi: false, depth: 0 });
                Role::Skipped
            }
            b".rept" | b".irp" | b".irpc" | b".rep" => {
                self.definition = Some(Definition { name: None, has_cfi: false, depth: 0 });
                Role::Skipped
            }
            b".list" | b".nolist" => {
                collector.fault(span, Problem::ListControl);
                Role::Skipped
            }
            b".purgem" => {
                self.macros.remove(text[length..].trim_ascii());
                Role::Skipped
            }
            _ => {
                if self.unknown && word.starts_with(b".cfi_") {
                    collector.fault(span, Problem::Condition);
                }
                self.call(word, span, rows, collector)
            }
        }
    }

    fn call(&mut self, word: &'t [u8], span: Span, rows: &Rows<'t>, collector: &mut Collector<'t>) -> Role {
        let Some(&has_cfi) = self.macros.get(word) else { return Role::Assembled };
        if rows.is_expansion_next() {
            return Role::Expanded;
        }
        if has_cfi {
            let name = String::from_utf8_lossy(word).into_owned();
            collector.fault(span, Problem::HiddenMacro(name));
        }
        Role::Assembled
    }

    /// A statement in the body of a macro.
    fn define(
        &mut self,
        word: &[u8],
        text: &[u8],
        span: Span,
        rows: &Rows<'t>,
        collector: &mut Collector<'t>,
    ) -> Role {
        let Some(definition) = &mut self.definition else { return Role::Skipped };
        match word {
            b".macro" | b".rept" | b".irp" | b".irpc" | b".rep" => definition.depth += 1,
            b".endm" | b".endr" if definition.depth > 0 => definition.depth -= 1,
            b".endm" | b".endr" => {
                let Definition { name, has_cfi, .. } = *definition;
                self.definition = None;
                return match name {
                    Some(name) => {
                        self.macros.insert(name, has_cfi);
                        Role::Skipped
                    }
                    None if rows.is_expansion_next() => Role::Expanded,
                    None => {
                        if has_cfi {
                            collector.fault(span, Problem::HiddenMacro(".rept".into()));
                        }
                        Role::Assembled
                    }
                };
            }
            _ => {
                let calls_cfi = self.macros.get(word).copied().unwrap_or(false);
                definition.has_cfi |= calls_cfi || find(text, b".cfi_").is_some();
            }
        }
        Role::Skipped
    }

    fn condition(
        &mut self,
        word: &[u8],
        statement: Statement<'t>,
        rows: &Rows<'t>,
        collector: &mut Collector<'t>,
    ) {
        let is_outer_live = |branches: &[Branch]| branches.last().is_none_or(|branch| branch.is_live);
        match word {
            b".endif" => _ = self.branches.pop(),
            b".else" | b".elseif" => {
                let Some(branch) = self.branches.pop() else { return };
                if !is_outer_live(&self.branches) {
                    self.branches.push(branch);
                } else {
                    // After a branch that was assembled no other one is.
                    let condition = match (branch.condition, branch.was_live) {
                        (Some(true), _) | (_, true) => Some(false),
                        _ if word == b".elseif" => evaluate(b".if", word.len(), statement, collector),
                        (Some(false), _) => Some(true),
                        (None, false) => None,
                    };
                    self.enter(condition, rows);
                    if let Some(entered) = self.branches.last_mut() {
                        entered.was_live |= branch.was_live;
                    }
                }
            }
            _ if !is_outer_live(&self.branches) => {
                self.branches.push(Branch { is_live: false, condition: Some(false), was_live: true });
            }
            _ => {
                let condition = evaluate(word, word.len(), statement, collector);
                self.enter(condition, rows);
            }
        }
        self.unknown = self.branches.iter().any(|branch| branch.is_live && branch.condition.is_none());
    }

    fn enter(&mut self, condition: Option<bool>, rows: &Rows<'t>) {
        let condition = condition.or_else(|| self.evidence(*rows));
        let is_live = condition.unwrap_or(true);
        self.branches.push(Branch { is_live, condition, was_live: condition == Some(true) });
    }

    /// Returns whether the first instruction of a branch has bytes beside it.
    fn evidence(&self, mut rows: Rows<'t>) -> Option<bool> {
        let mut depth = 0;
        for _ in 0..ROWS_AHEAD {
            let row = rows.next()?.ok()?;
            let source = row.source.trim_ascii_start();
            let word = source.split(|&byte| is_space(byte)).next()?;
            match word {
                b".endif" | b".else" | b".elseif" if depth == 0 => return None,
                b".endif" => depth -= 1,
                _ if word.starts_with(b".if") => depth += 1,
                [first, ..]
                    if first.is_ascii_alphabetic()
                        && depth == 0
                        && word.iter().all(u8::is_ascii_alphanumeric)
                        && !self.macros.contains_key(word) =>
                {
                    return Some(row.bytes.is_some());
                }
                _ => {}
            }
        }
        None
    }
}

/// Evaluates a condition, if its value is known.
fn evaluate<'t>(word: &[u8], at: usize, statement: Statement<'t>, collector: &Collector<'t>) -> Option<bool> {
    let Statement { text, base, is_in_place } = statement;
    let mut operands = Operands::new(text, at, base, is_in_place, &collector.constants);
    let mut number = || operands.number().ok().filter(|_| operands.is_at_end());
    match word {
        b".if" | b".ifne" => number().map(|value| value != 0),
        b".ifeq" => number().map(|value| value == 0),
        b".ifgt" => number().map(|value| value > 0),
        b".ifge" => number().map(|value| value >= 0),
        b".iflt" => number().map(|value| value < 0),
        b".ifle" => number().map(|value| value <= 0),
        b".ifb" => Some(operands.is_at_end()),
        b".ifnb" => Some(!operands.is_at_end()),
        _ => None,
    }
}
