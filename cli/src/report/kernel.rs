//! Reports which parts of tables the Linux kernel's reader accepts.

use std::io::{self, Write};
use std::ops::Range;

use cfipack_container::{File, Kind};
use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use cfipack_lint::coverage::CodeBytes;
use cfipack_roundtrip::{KernelTable, KernelVerdict, kernel_verdict};
use serde::Serialize;

use crate::report::count::Number;
use crate::report::place::Places;

/// The verdict of the kernel's reader on the tables of a file.
#[derive(Debug)]
pub struct KernelReport {
    verdicts: Vec<KernelVerdict>,
    /// `None` for a relocatable object.
    pub fallback: Option<Fallback>,
}

/// The bytes of code at which the kernel's reader continues with the frame pointer. This is a guess, and only right in
/// functions that keep a frame pointer. All three fields count bytes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fallback {
    /// All code except padding.
    pub code: u64,
    /// Code without a row. This is all code if the reader refuses the table.
    pub without_row: u64,
    /// Code with the row of an outermost frame, at which a walk of the stack should end.
    pub outermost: u64,
}

impl KernelReport {
    /// Judges the tables of a file, and describes the first `limit` violations of each table.
    ///
    /// # Errors
    /// A section of code cannot be read.
    pub fn new(file: &File<'_>, tables: &[Section<'_>], limit: usize) -> anyhow::Result<Self> {
        let form = match file.kind() {
            Kind::Linked => KernelTable::Linked(text(file)?),
            Kind::Relocatable => KernelTable::Module,
        };
        let verdicts = tables.iter().map(|table| kernel_verdict(table, &form, limit));
        let mut report = Self { verdicts: verdicts.collect(), fallback: None };
        if file.kind() == Kind::Linked {
            let code = CodeBytes::of_tables(file, tables)?;
            let outermost = report.verdicts.iter().map(|verdict| verdict.outermost).sum();
            report.fallback = Some(if report.is_accepted() {
                Fallback { code: code.wanted(), without_row: code.gap_bytes, outermost }
            } else {
                Fallback { code: code.wanted(), without_row: code.wanted(), outermost: 0 }
            });
        }
        Ok(report)
    }

    /// Returns whether no table breaks a rule.
    pub fn is_accepted(&self) -> bool {
        self.verdicts.iter().all(KernelVerdict::is_accepted)
    }

    /// Describes the first violations.
    pub fn violations(&self, places: &Places<'_, '_>) -> Vec<String> {
        let all = self.verdicts.iter().flat_map(|verdict| &verdict.first);
        all.map(|violation| violation.words(|address| places.location(address))).collect()
    }

    /// Returns the number of violations that are not described.
    pub fn more(&self) -> u64 {
        self.verdicts.iter().map(|verdict| verdict.more).sum()
    }

    /// Writes the lines of a report.
    pub fn print(&self, out: &mut impl Write, places: &Places<'_, '_>) -> io::Result<()> {
        for words in self.violations(places) {
            writeln!(out, "  kernel profile: {words}")?;
        }
        match self.more() {
            0 if self.is_accepted() => writeln!(out, "  kernel profile: no rule is broken")?,
            0 => {}
            more => writeln!(out, "  kernel profile: and {more} more")?,
        }
        let Some(Fallback { code, without_row, outermost }) = self.fallback else { return Ok(()) };
        let all = Number(code, "byte");
        write!(out, "  left to the frame pointer: {} of {all} of code", without_row + outermost)?;
        writeln!(out, " ({without_row} without a row, {outermost} of outermost frames)")
    }
}

/// Returns the range of the code of a linked file.
fn text(file: &File<'_>) -> anyhow::Result<Option<Range<Address>>> {
    let code = file.code_sections()?;
    let start = code.iter().map(|section| section.address).min();
    let end = code.iter().map(|section| section.address.offset(section.bytes.len() as i64)).max();
    Ok(start.zip(end).map(|(start, end)| start..end))
}
