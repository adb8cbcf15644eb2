//! Reports of the conversion into files: a line for each file, and a summary.

use cfipack_lint::coverage::CodeBytes;

use super::table::{Embed, Table};
use crate::edit::{FileReport, Part};
use crate::io::debug_file::DebugFile;
use crate::report::code;
use crate::report::count::{Number, percent};
use crate::report::edits::{Reported, Totals};
use crate::report::limits::{Covered, Remark};
use crate::report::reasons;
use crate::report::verdict;
use crate::synthesized::SynthesizedCounts;
use crate::table_options::Consumer;

/// The remark about a file, or a run, without a function for a table.
const NO_TABLE: &str = "no table: no function has code that a table can represent";

/// At most this many functions that cannot be judged are named for a file.
const NAMED: usize = 10;

/// Adds up the code of a file's parts, and of members without CFI. Returns `None` if the code of a part was not counted.
fn code(file: &FileReport<Table>) -> Option<CodeBytes> {
    let parts = file.parts.iter().map(|part| part.report.code_coverage);
    parts.chain(file.missed.iter().map(|missed| Some(missed.code))).sum()
}

impl Reported for Embed {
    const VERB: &'static str = "embed";

    fn line(&self, file: &FileReport<Table>) -> String {
        let parts = &file.parts[..];
        let (mut functions, mut converted, mut bytes) = (0, 0, 0);
        for Part { report, .. } in parts {
            functions += report.functions;
            converted += report.converted;
            bytes += report.bytes.sframe;
        }
        let mut line = match parts {
            [] => return String::new(),
            _ if bytes == 0 => ", no table".to_string(),
            [Part { report: Table { address: Some(address), way: Some(way), .. }, .. }] => {
                format!(", {} at {address} ({way})", Number(bytes, "byte"))
            }
            _ => format!(", {}", Number(bytes, "byte")),
        };
        line += &format!(", {converted} of {}", Number(functions, "function"));
        if parts[0].member.is_some() {
            line += &format!(" in {}", Number(parts.len() as u64, "member"));
        }
        if let Some(code) = code(file).filter(|code| code.wanted() != 0) {
            line += &format!(", {} of the code", code::percent(&code));
        }
        line
    }

    fn add(&self, file: &FileReport<Table>, totals: &mut Totals) -> Vec<Remark> {
        let parts = &file.parts[..];
        let (mut functions, mut converted, mut unreadable, mut lost) = (0, 0, 0, 0);
        let mut unplaced = Vec::new();
        for Part { report, .. } in parts {
            unplaced.extend(&report.unplaced);
            functions += report.functions;
            converted += report.converted;
            if let Some(old) = &report.old_rows {
                totals.kept += old.kept_functions;
                lost += old.lost_bytes;
            }
            totals.outermost += report.outermost;
            unreadable += report.unreadable;
            totals.tables += u64::from(!report.is_empty());
            totals.sframe += report.bytes.sframe;
            totals.cfi += report.bytes.cfi.total();
            if let Some(own) = &report.synthesized {
                totals.synthesized.get_or_insert_default().add(own);
            }
            for (reason, count) in &report.reasons {
                *totals.reasons.entry(reason).or_default() += count;
            }
        }
        totals.functions += functions;
        totals.converted += converted;
        let code = code(file);
        match code {
            Some(code) => totals.code = totals.code + code,
            None => totals.has_uncounted_code = true,
        }
        let mut remarks =
            self.conversions.limits.remarks(&Covered { functions, converted, code, unplaced: &unplaced });
        if lost != 0 {
            let lost = Number(lost, "byte");
            let hints = [
                ("--synthesize makes some from code", self.conversions.table.synthesizes()),
                ("--debug-file reads the CFI of a separate debug file", self.debug_file.is_some()),
            ];
            let hints: String =
                hints.iter().filter(|(_, is_given)| !is_given).map(|(hint, _)| format!("; {hint}")).collect();
            let words =
                format!("the old table had rows for {lost} of code, and the new table has none{hints}");
            remarks.push(Remark { words, fails: self.conversions.limits.strict() });
        }
        let unjudged = parts.iter().flat_map(|part| &part.report.unjudged);
        remarks.extend(unjudged.take(NAMED).map(|words| Remark { words: words.clone(), fails: false }));
        if self.is_copy && !parts.is_empty() && parts.iter().all(|part| part.report.is_empty()) {
            remarks.push(Remark { words: NO_TABLE.into(), fails: true });
        }
        if unreadable != 0 {
            let words = format!("{} cannot be read: omitted", Number(unreadable, "FDE"));
            remarks.push(Remark { words, fails: true });
        }
        remarks
    }

    fn summary(&self, totals: &Totals) -> Vec<String> {
        let Totals { functions, converted, sframe, cfi, .. } = *totals;
        let omitted = functions - converted;
        let all = Number(functions, "function");
        let mut lines = vec![match functions {
            0 => format!("{all} with CFI"),
            _ => {
                format!("{all}: {converted} converted ({}), {omitted} omitted", percent(converted, functions))
            }
        }];
        lines.extend(reasons::list(&totals.reasons).map(|reasons| format!("omitted: {reasons}")));
        lines.extend(totals.synthesized.iter().flat_map(SynthesizedCounts::lines));
        if totals.kept != 0 {
            lines.push(format!("without CFI: {} kept from the old table", Number(totals.kept, "function")));
        }
        lines.extend(self.debug_file.as_deref().map(DebugFile::to_string));
        if totals.tables == 0 {
            lines.push(NO_TABLE.into());
            return lines;
        }
        let tables = if totals.tables == 1 { String::new() } else { format!(" in {} tables", totals.tables) };
        let size = match cfi {
            0 => String::new(),
            _ => format!(", {} of the CFI's {cfi}", percent(sframe, cfi)),
        };
        lines.push(format!(".sframe: {}{tables}{size}", Number(sframe, "byte")));
        let synthesized = totals.synthesized.as_ref().map_or(0, |own| own.functions);
        if self.verify && synthesized + totals.kept != 0 {
            lines.push(verdict::JUDGED_BY_CODE.into());
        }
        if totals.code.wanted() != 0 && !totals.has_uncounted_code {
            lines.push(code::line(&totals.code));
        }
        let version = self.conversions.table.get().version;
        let consumer = self.conversions.table.consumer();
        let readers = consumer.map_or_else(|| Consumer::of_version(version), Consumer::readers);
        lines.push(format!("version {}, read by {readers}", version as u8));
        if totals.outermost != 0 {
            let rows = Number(totals.outermost, "row");
            lines.push(format!(
                "{rows} of outermost frames, with which backtrace() of glibc 2.43 returns 0 frames: --for glibc-2.43 omits them"
            ));
        }
        if self.verify {
            lines.push("verified in the new file against the CFI, as gimli evaluates it".into());
        } else {
            lines.push("not verified".into());
        }
        lines
    }
}
