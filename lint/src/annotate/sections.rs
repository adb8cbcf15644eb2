//! Knows in which section of the object each place of a source is.

use std::collections::HashMap;

use super::lines::SourceLine;
use super::statements::word;

/// The sections of a source. Macros that change the section are not followed.
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
        let (mut current, mut previous, mut stack) = ((&b".text"[..], &b""[..]), (&b".text"[..], &b""[..]), vec![]);
        let mut changes = Vec::new();
        for statement in lines.iter().flat_map(|line| &line.statements) {
            let directive = word(&text[statement.clone()]);
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

/// The number of the section in which a source begins.
const TEXT: u32 = 0;

/// Returns the first argument of a directive, without quotes.
fn argument(arguments: &[u8]) -> &[u8] {
    let first = arguments.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    first.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(first)
}
