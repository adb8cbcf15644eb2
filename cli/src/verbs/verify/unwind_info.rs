//! `verify` of `__unwind_info` and `__compact_unwind`.

use std::io::Write as _;

use anyhow::bail;
use cfipack_container::Kind;
use serde::Serialize;

use super::Arguments;
use crate::compact::source::{Source, TABLES, image_base};
use crate::io::each::Outcome;
use crate::io::input::Object;
use crate::io::output;
use crate::report::compact_verdict::{self, Verdict};
use crate::report::count::Number;
use crate::report::escaped::FileName;
use crate::report::place::Places;
use crate::report::status::{self, Status};

/// Checks that an object has a table that can be read.
pub fn check_for(table: &Object<'_>, arguments: &Arguments) -> anyhow::Result<()> {
    table.check_address(arguments.address)?;
    Source::with_table(table)?.parse().map(|_| ())
}

/// Verifies a table against the object's CFI and the rules of its readers. The table is the object's own, or the table
/// in `elsewhere`.
pub fn check(
    object: &Object<'_>,
    elsewhere: Option<&Object<'_>>,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    if arguments.profile.is_some() {
        bail!("--profile kernel: the kernel reads only .sframe");
    }
    let own = Source::find(object)?;
    let file = object.file()?;
    let other = elsewhere.map(Source::with_table).transpose()?;
    let source = other.as_ref().unwrap_or(&own);
    if source.is_empty() {
        let has_cfi = !file.call_frame_sections()?.is_empty();
        if !has_cfi {
            return Ok(Outcome::Absent(TABLES));
        }
        // The linker takes the FDEs of an object without rows.
        if file.kind() != Kind::Relocatable {
            return Ok(Outcome::MissingTable(TABLES));
        }
    }
    let verdict = match source.parse()? {
        Some(section) => compact_verdict::of_table(file, image_base(file), own.code(), &section)?,
        None => compact_verdict::of_rows(file, &source.object_rows())?,
    };
    let section = if source.table.is_some() { "__unwind_info" } else { "__compact_unwind" };
    let written = write(object, section, &verdict, arguments);
    status::judged(Status::differs_if(!verdict.passes()), written).map(Outcome::Done)
}

/// Writes the report about a section.
fn write(object: &Object<'_>, section: &str, verdict: &Verdict, arguments: &Arguments) -> anyhow::Result<()> {
    let mut out = output::standard();
    if arguments.json {
        let file = object.name.plain();
        output::json(&mut out, &VerifyJson { schema: "cfipack/verify/1", file, verdict })?;
    } else {
        let Verdict { report, broken } = verdict;
        writeln!(out, "{}: {} with CFI", object.name, Number(report.functions, "function"))?;
        compact_verdict::print(&mut out, report, &Places::of_object(object).with_names(arguments.names))?;
        compact_verdict::print_violations(&mut out, section, broken)?;
    }
    Ok(out.flush()?)
}

/// The report, as `cfipack/verify/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "CompactReport"))]
pub struct VerifyJson<'r> {
    schema: &'static str,
    file: FileName,
    #[serde(flatten)]
    verdict: &'r Verdict,
}
