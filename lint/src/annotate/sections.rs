//! Knows in which section of the object each place of a source is.

use std::collections::{HashMap, HashSet};

use super::lines::SourceLine;
use super::statements::{Preprocessor, called_macro, is_section, macro_name, preprocessor, word};

/// The sections of a source. After the call of a macro that changes the section, the section is one of its own.
#[derive(Debug)]
pub struct Sections {
    /// The places after which another section is current, ascending, and the number of the section.
    changes: Vec<(usize, u32)>,
}

impl Sections {
    /// Follows the directives of a source that change the section.
    pub fn new(text: &[u8], lines: &[SourceLine]) -> Self {
        let mut names: HashMap<(&[u8], &[u8]), u32> = HashMap::from([((&b".text"[..], &b""[..]), TEXT)]);
        let mut number = |name| {
            let next = names.len() as u32;
            *names.entry(name).or_insert(next)
        };
        let (mut current, mut previous, mut stack) =
            ((&b".text"[..], &b""[..]), (&b".text"[..], &b""[..]), vec![]);
        let mut changes = Vec::new();
        let changers = changing_macros(text, lines);
        let mut is_macro = false;
        for statement in lines.iter().flat_map(|line| &line.statements) {
            let directive = word(&text[statement.clone()]);
            is_macro = (is_macro || directive == b".macro") && directive != b".endm";
            if is_macro {
                continue;
            }
            let argument = argument(&text[statement.start + directive.len()..statement.end]);
            let next = match directive {
                b".text" | b".data" | b".bss" => (directive, argument),
                b".section" => (argument, &b""[..]),
                b".subsection" => (current.0, argument),
                b".pushsection" => {
                    stack.push((current, previous));
                    (argument, &b""[..])
                }
                b".popsection" => {
                    let Some((before, its_previous)) = stack.pop() else { continue };
                    (current, previous) = (before, its_previous);
                    changes.push((statement.end, number(current)));
                    continue;
                }
                b".previous" => previous,
                _ if changers.contains(called_macro(&text[statement.clone()])) => (directive, &b".macro"[..]),
                _ => continue,
            };
            (current, previous) = (next, current);
            changes.push((statement.end, number(current)));
        }
        Self { changes }
    }

    /// Returns the number of the section at a place of the text. It is the same for all places in one section.
    pub fn at(&self, place: usize) -> u32 {
        let after = self.changes.partition_point(|change| change.0 <= place);
        after.checked_sub(1).map_or(TEXT, |before| self.changes[before].1)
    }
}

/// Returns the names of the macros after whose call another section may be current.
fn changing_macros<'t>(text: &'t [u8], lines: &[SourceLine]) -> HashSet<&'t [u8]> {
    let mut all = HashSet::new();
    let (mut name, mut pushed, mut changes) = (&b""[..], 0, false);
    for statement in lines.iter().flat_map(|line| &line.statements) {
        let statement = &text[statement.clone()];
        match word(statement) {
            directive @ b".macro" => {
                let arguments = statement[directive.len()..].trim_ascii_start();
                let len =
                    arguments.iter().take_while(|byte| !byte.is_ascii_whitespace() && **byte != b',').count();
                (name, pushed, changes) = (&arguments[..len], 0, false);
            }
            b".pushsection" => pushed += 1,
            b".popsection" => pushed -= 1,
            b".endm" if changes || pushed != 0 => _ = all.insert(name),
            _ => changes |= is_section(statement),
        }
    }
    // A macro of the preprocessor is one line, or goes on after a backslash.
    let mut definition: Option<&[u8]> = None;
    for line in lines.iter().map(|line| &text[line.range.clone()]) {
        if preprocessor(line) == Some(Preprocessor::Other) {
            definition = macro_name(line);
        }
        let directives: [&[u8]; 6] =
            [b".section", b".text", b".data", b".previous", b".pushsection", b".popsection"];
        let mut words = line.split(|byte| byte.is_ascii_whitespace() || *byte == b';');
        if let Some(name) = definition.filter(|_| words.any(|word| directives.contains(&word))) {
            all.insert(name);
        }
        definition = definition.filter(|_| line.trim_ascii_end().ends_with(b"\\"));
    }
    all
}

/// The number of the section in which a source begins.
const TEXT: u32 = 0;

/// Returns the first argument of a directive, without quotes.
fn argument(arguments: &[u8]) -> &[u8] {
    let first = arguments.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    first.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(first)
}
