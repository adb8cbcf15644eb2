//! Finds call frame information (CFI) that some reader does not read as it is meant. The table of runs says which readers
//! these are, and `constructs` finds the constructs of the table. No code is followed.

mod constructs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cfipack_cfi::{Functions, SectionKind};
use cfipack_container::{CallFrameSection, File};
use cfipack_format::Address;
use cfipack_format::widen::ToU64;

use self::constructs::Constructs;
use super::{RecordFinding, RecordKind};
use crate::Lint;

/// Describes each construct, and what each version of each reader makes of it: fields with tabs between them.
const TABLE: &str = include_str!("readers/table.tsv");

/// Returns the fields of the lines that start with a field, or of those that name a construct first.
fn lines(first: Option<&str>) -> impl Iterator<Item = [&'static str; 5]> {
    let lines = TABLE.lines().filter(move |line| match first {
        Some(first) => line.split('\t').next() == Some(first),
        None => !line.starts_with(['#', '=', '-']),
    });
    let skipped = usize::from(first.is_some());
    lines.map(move |line| {
        let mut fields = line.split('\t').skip(skipped);
        std::array::from_fn(|_| fields.next().unwrap_or_default())
    })
}

/// For each construct, the sentence about the readers that do not read it as it is meant.
#[derive(Debug)]
pub struct Readers(BTreeMap<&'static str, String>);

impl Readers {
    /// Takes the readers with these names. Without a name, takes all readers, and omits the constructs that are in so many
    /// files that a report of them says nothing about a file.
    ///
    /// # Errors
    /// The table has no reader of a name. The error has the names that it has.
    pub fn named(names: &[String]) -> Result<Self, Vec<&'static str>> {
        let all: BTreeSet<_> = lines(None).map(|[_, reader, ..]| reader).collect();
        if names.iter().any(|name| !all.contains(name.as_str())) {
            return Err(all.into_iter().collect());
        }
        let is_wanted = |reader: &str| names.is_empty() || names.iter().any(|name| name == reader);
        let mut readers = BTreeMap::new();
        for [construct, what, instead, unseen, common] in lines(Some("=")) {
            if !unseen.is_empty() || (names.is_empty() && !common.is_empty()) {
                continue;
            }
            // Versions of a reader that do the same are named together.
            let mut same: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for [_, reader, version, outcome, does] in lines(None).filter(|line| line[0] == construct) {
                if outcome != "right" && is_wanted(reader) {
                    same.entry((reader, does)).or_default().push(version);
                }
            }
            let readers_do = same.into_iter().map(|((reader, does), versions)| match versions[..] {
                // Ours, which has no number.
                ["this"] => format!("{reader} {does}"),
                _ => format!("{reader} {} {does}", versions.join(", ")),
            });
            let readers_do: Vec<_> = readers_do.collect();
            if !readers_do.is_empty() {
                let sentence = format!("{what}: {}", readers_do.join("; "));
                let sentence = if instead.is_empty() { sentence } else { format!("{sentence}. {instead}") };
                readers.insert(construct, sentence.replace('`', ""));
            }
        }
        Ok(Self(readers))
    }
}

/// Finds the constructs of all `.eh_frame` that `readers` do not read as they are meant. Each is one finding for a CIE,
/// or for a function. Only functions whose start is `wanted` count. A record that we cannot read is not decided.
pub fn check(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    readers: &Readers,
    wanted: &dyn Fn(Address) -> bool,
) -> Lint {
    let mut lint = Lint::default();
    for call_frames in sections.iter().filter(|section| section.kind == SectionKind::EhFrame) {
        let name = call_frames.section.name.as_ref();
        let cfi = call_frames.cfi();
        let mut constructs = Constructs::new(file, &cfi, name);
        let mut cies = HashSet::new();
        for function in Functions::new(&cfi) {
            let Ok(function) = function else {
                *lint.undecided.entry("cfi").or_default() += 1;
                continue;
            };
            let start = function.key.address();
            if !wanted(start) {
                continue;
            }
            let is_new = cies.insert(function.cie.offset);
            let Ok((found, in_cie)) = constructs.of(&function, is_new) else {
                *lint.undecided.entry("cfi").or_default() += 1;
                continue;
            };
            lint.decided += 1;
            for (place, construct) in found.iter().enumerate() {
                let Some(words) = readers.0.get(construct) else { continue };
                if found[..place].contains(construct) {
                    continue;
                }
                let offset = if place < in_cie { function.cie.offset } else { function.fde };
                lint.records.push(RecordFinding {
                    kind: RecordKind::Unread,
                    function: start,
                    wrong: start..Address(start.0.saturating_add(function.size)),
                    record: Some((name.to_owned(), offset.0.to_u64())),
                    words: words.clone(),
                });
            }
        }
    }
    lint
}
