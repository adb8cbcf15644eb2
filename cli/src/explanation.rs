//! What `explain` says of functions, in words or as JSON, for both formats.

use std::io::{self, Write};

use serde::Serialize;

use crate::input::Object;
use crate::output;
use crate::status::Status;

/// What there is to say of a function.
pub trait Explained: Serialize {
    /// Writes it in words.
    fn print(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// What there is to say, as `cfipack/explain/1`.
#[derive(Serialize)]
struct ExplainJson<'e, F> {
    schema: &'static str,
    file: String,
    functions: &'e [F],
}

/// Writes what there is to say of functions; where there is none, `none`.
pub fn report<F: Explained>(
    object: &Object<'_>,
    functions: &[F],
    none: &str,
    json: bool,
) -> anyhow::Result<Status> {
    let mut out = output::standard();
    if json {
        let file = object.name.to_string();
        output::json(&mut out, &ExplainJson { schema: "cfipack/explain/1", file, functions })?;
    } else if functions.is_empty() {
        writeln!(out, "{}: {none}", object.name)?;
    } else {
        functions.iter().try_for_each(|function| function.print(&mut out))?;
    }
    out.flush()?;
    Ok(Status::Done)
}
