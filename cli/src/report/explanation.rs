//! The report of `explain`, as text or JSON, for both formats.

use std::io::{self, Write};

use cfipack_cfi::Function;
use cfipack_container::CallFrameSection;
use cfipack_format::Address;
use serde::Serialize;

use crate::io::input::Object;
use crate::io::output;
use crate::report::escaped::FileName;
use crate::report::place::Places;
use crate::report::status::{self, Status};

/// An explanation of a function, as `explain` prints it.
pub trait Explanation: Serialize {
    /// Writes the explanation as text.
    fn print(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Returns the function that contains an address. If several functions contain it, returns the function that starts
/// last, as a lookup does, and the starts of the other functions.
pub fn function_at<'s>(
    sections: &'s [CallFrameSection<'_>],
    address: Address,
) -> Option<(Function<'s>, Vec<Address>)> {
    let functions = sections.iter().flat_map(|section| cfipack_cfi::Functions::new(&section.cfi())).flatten();
    let functions = functions.filter(|function| {
        address.0.checked_sub(function.key.0).is_some_and(|offset| offset < function.size)
    });
    let mut functions: Vec<_> = functions.collect();
    // The sort is stable: of several functions with the same start, take the last in the file.
    functions.sort_by_key(|function| function.start);
    let found = functions.pop()?;
    Some((found, functions.iter().map(|function| function.key.address()).collect()))
}

/// The report, as `cfipack/explain/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "{F}s"))]
pub struct ExplainJson<'e, F> {
    schema: &'static str,
    file: FileName,
    functions: &'e [F],
}

/// Prints the explanation of the function at `address`, or of all omitted functions if there is no address. `none` is
/// the text for an empty list of omitted functions.
pub fn report<F: Explanation>(
    object: &Object<'_>,
    functions: &[F],
    address: Option<Address>,
    none: &str,
    json: bool,
) -> anyhow::Result<Status> {
    let status = Status::differs_if(address.is_some() && functions.is_empty());
    status::judged(status, write(object, functions, address, none, json))
}

fn write<F: Explanation>(
    object: &Object<'_>,
    functions: &[F],
    address: Option<Address>,
    none: &str,
    json: bool,
) -> anyhow::Result<()> {
    let mut out = output::standard();
    if json {
        let file = object.name.plain();
        output::json(&mut out, &ExplainJson { schema: "cfipack/explain/1", file, functions })?;
    } else if functions.is_empty() {
        match address {
            Some(address) => {
                let place = Places::of_object(object).location(address);
                writeln!(out, "{}: no function contains {place}", object.name)?;
            }
            None => writeln!(out, "{}: {none}", object.name)?,
        }
    } else {
        functions.iter().try_for_each(|function| function.print(&mut out))?;
    }
    Ok(out.flush()?)
}
