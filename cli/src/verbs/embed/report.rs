//! What the conversion into files reports: a line for each, and a summary.

use cfipack_roundtrip::most_frequent_first;

use super::table::{Embed, Table};
use crate::conversion::Consumer;
use crate::edit::Part;
use crate::report::count::{Counts, Number, percent};
use crate::report::edits::{Reported, Totals};

impl Reported for Embed {
    const VERB: &'static str = "embed";

    fn line(&self, parts: &[Part<Table>]) -> String {
        let (mut functions, mut converted, mut bytes) = (0, 0, 0);
        for Part { report, .. } in parts {
            functions += report.functions;
            converted += report.converted;
            bytes += report.bytes.sframe;
        }
        let mut line = match parts {
            [] => return String::new(),
            [Part { report: Table { address: Some(address), way: Some(way), .. }, .. }] => {
                format!(", {} at {address} ({way})", Number(bytes, "byte"))
            }
            _ => format!(", {}", Number(bytes, "byte")),
        };
        line += &format!(", {converted} of {}", Number(functions, "function"));
        if parts[0].member.is_some() {
            line += &format!(" in {}", Number(parts.len() as u64, "member"));
        }
        line
    }

    fn add(&self, parts: &[Part<Table>], totals: &mut Totals) -> Option<String> {
        let (mut functions, mut converted, mut unreadable) = (0, 0, 0);
        for Part { report, .. } in parts {
            functions += report.functions;
            converted += report.converted;
            unreadable += report.unreadable;
            totals.tables += u64::from(report.converted != 0);
            totals.sframe += report.bytes.sframe;
            totals.cfi += report.bytes.cfi.total();
            for (reason, count) in &report.reasons {
                *totals.reasons.entry(reason).or_default() += count;
            }
        }
        totals.functions += functions;
        totals.converted += converted;
        let is_below = |percent: &f64| converted as f64 * 100.0 < percent * functions as f64;
        if let Some(percent) = self.conversions.min_coverage.filter(is_below) {
            return Some(format!("less than {percent} % of the functions are converted"));
        }
        (unreadable != 0).then(|| format!("{} cannot be read and are omitted", Number(unreadable, "FDE")))
    }

    fn summary(&self, totals: &Totals) -> Vec<String> {
        let Totals { functions, converted, sframe, cfi, .. } = *totals;
        let coverage = percent(converted, functions);
        let omitted = functions - converted;
        let all = Number(functions, "function");
        let mut lines = vec![format!("{all}: {converted} converted ({coverage}), {omitted} omitted")];
        let reasons = most_frequent_first(&totals.reasons);
        if !reasons.is_empty() {
            lines.push(format!("omitted: {}", Counts(&reasons).list()));
        }
        let size = percent(sframe, cfi);
        let tables = if totals.tables == 1 { String::new() } else { format!(" in {} tables", totals.tables) };
        lines.push(format!(".sframe: {}{tables}, {size} of the CFI's {cfi}", Number(sframe, "byte")));
        let version = self.conversions.table.get().version;
        let consumer = self.conversions.table.consumer();
        let readers = consumer.map_or_else(|| Consumer::of_version(version), Consumer::readers);
        lines.push(format!("version {}, read by {readers}", version as u8));
        lines.push(match self.verify {
            true => "verified in the new file against the CFI, as gimli evaluates it".into(),
            false => "not verified".into(),
        });
        lines
    }
}
