//! Makes rows for functions that no CFI covers, from their code.
//!
//! - [`functions`] makes the rows of all functions without CFI, and [`at`] the rows of the function at an address.
//! - [`without_cfi`] finds such functions in a table, and [`have_rows_of_code`] those with the rows that their code gives.
//! - `uncovered` divides the code without CFI into functions, and `search` finds the functions without symbols, by what
//!   `paths` shows of their code.
//! - `jumps` finds the jumps and calls into these functions from functions that have CFI.

mod jumps;
mod paths;
mod search;
mod uncovered;

use std::ops::Range;

use cfipack_code::{Analysis, Candidate, Code, Described, Refused, Surroundings, synthesize_with};
use cfipack_container::{CallFrameSection, File};
use cfipack_decoder::sframe::{Function, Section};
use cfipack_format::{Address, Row};
use cfipack_roundtrip::cfi::Functions;

use self::uncovered::{Evidence, FunctionCode, Uncovered};
use crate::coverage;
use crate::{Error, FileMemory};

/// The code of a file that no CFI covers.
#[derive(Debug)]
pub struct WithoutCfi<R> {
    /// The functions in ascending order, each with its rows or the reason why it gets no rows.
    pub functions: Vec<(Range<Address>, Result<R, Refused>)>,
    /// The pieces of code that belong to no known function, ascending.
    pub others: Vec<Range<Address>>,
}

impl<R> WithoutCfi<R> {
    fn new(uncovered: Uncovered, rows: Vec<Result<R, Refused>>) -> Self {
        let ranges = uncovered.functions.into_iter().map(|function| function.range);
        Self { functions: ranges.zip(rows).collect(), others: uncovered.others }
    }
}

/// Makes rows for the functions of a file that no CFI covers. Functions are found by their symbols and by calls to
/// them.
///
/// # Errors
/// The sections or the symbols of the file, or its CFI, cannot be read.
pub fn functions(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> Result<WithoutCfi<Vec<Row>>, Error> {
    let (uncovered, rows) = made(file, sections, true, |_| false, |analysis| analysis.synthesize())?;
    Ok(WithoutCfi::new(uncovered, rows))
}

/// Makes rows with all registers for the functions that no CFI covers, and for parts of functions that jumps lead to. A symbol
/// need not have the type of a function if the code shows that it is a function.
pub(crate) fn described(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
) -> Result<WithoutCfi<Described>, Error> {
    let symbols = file.symbols()?;
    let is_exported = |start| symbols.is_global(start) && symbols.names(start).all(|name| name != ENTRY);
    let (uncovered, rows) = made(file, sections, false, is_exported, |analysis| analysis.describe())?;
    Ok(WithoutCfi::new(uncovered, rows))
}

/// The symbol at which linkers let a program begin. No call leads there.
const ENTRY: &str = "_start";

/// Finds the functions that no CFI covers, and makes the rows of each from its code. `is_exported` says whether other
/// files may call the function at an address.
fn made<T>(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    splits: bool,
    is_exported: impl Fn(Address) -> bool,
    rows: impl Fn(&Analysis<'_>) -> Result<T, Refused>,
) -> Result<(Uncovered, Vec<Result<T, Refused>>), Error> {
    let memory = FileMemory::new(file)?;
    let symbols = file.symbols()?;
    let mut covered = coverage::of_cfi(sections)?;
    covered.sort_by_key(|range| (range.start, range.end));
    let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
    let with_cfi = Functions::find(&cfi);
    let (uncovered, into) = Uncovered::find(file, &memory, &symbols, &covered, &with_cfi, splits)?;
    let functions = &uncovered.functions;
    let is_inside = |address: Address| {
        let before = covered.partition_point(|range| range.start <= address).checked_sub(1);
        let is_in_cfi = before.is_some_and(|before| {
            let range = &covered[before];
            range.start < address && address < range.end
        });
        !memory.is_stub(address)
            && (is_in_cfi || symbols.lookup(address).is_some_and(|symbol| symbol.offset != 0))
    };
    let codes: Vec<_> = functions
        .iter()
        .map(|FunctionCode { range, .. }| {
            memory.code(range.start, range.end.0 - range.start.0).unwrap_or_default()
        })
        .collect();
    let candidates: Vec<_> = functions
        .iter()
        .zip(&codes)
        .map(|(function, (bytes, relocated))| Candidate {
            code: Code { arch: file.arch(), start: function.range.start, bytes, relocated },
            call_sites: &[],
            noreturn: &function.noreturn,
            is_known: function.evidence != Evidence::Jump,
            is_exported: function.evidence == Evidence::Symbol && is_exported(function.range.start),
        })
        .collect();
    let ranges: Vec<_> = functions.iter().map(|function| function.range.clone()).collect();
    let jumps = into.jumps(file.arch(), &with_cfi, &ranges);
    let surroundings = Surroundings { jumps: &jumps, calls: &into.calls, is_inside: &is_inside };
    let rows = synthesize_with(&candidates, &surroundings, &memory, rows);
    Ok((uncovered, rows))
}

/// A function, and its rows or the reason why it gets no rows.
pub type FunctionRows = (Range<Address>, Result<Vec<Row>, Refused>);

/// Makes the rows of the function at an address that no CFI covers. Returns `None` if there is no function without CFI
/// at the address.
///
/// # Errors
/// As for [`functions`].
pub fn at(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    address: Address,
) -> Result<Option<FunctionRows>, Error> {
    // The other functions decide how this function is entered.
    let made = functions(file, sections)?.functions;
    Ok(made.into_iter().find(|(range, _)| range.contains(&address)))
}

/// Returns the functions of tables that no CFI covers and that share no PC with another function, in ascending order.
/// For example, a table has such functions for the stubs of its linker, and for code whose rows [were made](functions).
/// The list is empty if the CFI cannot be read.
pub fn without_cfi<'t>(sections: &[CallFrameSection<'_>], tables: &[Section<'t>]) -> Vec<Function<'t>> {
    let Ok(covered) = coverage::of_cfi(sections) else { return Vec::new() };
    let covered = coverage::merged(covered);
    let mut all: Vec<_> = tables.iter().flat_map(Section::functions).filter_map(Result::ok).collect();
    all.retain(|function| function.size() != 0);
    all.sort_by_key(Function::start);
    let mut found: Vec<Function<'t>> = Vec::new();
    let mut reach = Address(0);
    for (index, function) in all.iter().enumerate() {
        let range = range_of(function);
        let is_alone =
            reach <= range.start && all.get(index + 1).is_none_or(|next| range.end <= next.start());
        reach = reach.max(range.end);
        let next = covered.partition_point(|covered| covered.end <= range.start);
        let is_covered = covered.get(next).is_some_and(|covered| covered.start < range.end);
        if is_alone && !is_covered {
            found.push(*function);
        }
    }
    found
}

/// Returns the addresses of a function.
pub fn range_of(function: &Function<'_>) -> Range<Address> {
    function.start()..function.start().offset(function.size().into())
}

/// Returns for each function [without CFI](without_cfi) whether it has the rows that this module makes from its code.
///
/// The same engine makes the rows of these functions. So this is no second opinion about the engine, but it checks the
/// table as it is in the file.
///
/// # Errors
/// The sections or the symbols of the file cannot be read.
pub fn have_rows_of_code(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    functions: &[Function<'_>],
) -> Result<Vec<bool>, Error> {
    if functions.is_empty() {
        return Ok(Vec::new());
    }
    // Functions that the table omits are followed too: they decide how other functions are entered.
    let made = self::functions(file, sections)?.functions;
    let has_rows = |function: &Function<'_>| {
        let index = made.binary_search_by_key(&function.start(), |(range, _)| range.start);
        let Some((range, Ok(made))) = index.ok().map(|index| &made[index]) else { return false };
        let is_plain = !function.is_pc_mask() && !function.is_signal_frame();
        let mut pairs = function.rows().zip(made);
        let is_same = |own: &Row, made: &Row| own.start == made.start && own.unwinds_as(made);
        is_plain
            && *range == range_of(function)
            && function.rows().count() == made.len()
            && pairs.all(|(own, made)| own.is_ok_and(|own| is_same(&own, made)))
    };
    Ok(functions.iter().map(has_rows).collect())
}
