//! Makes rows for functions that no CFI covers, from their code.
//!
//! - [`functions`] makes the rows of all functions without CFI, and [`at`] the rows of the function at an address.
//! - [`judged`] finds the functions of a table with the same rows as their code gives.
//! - `uncovered` divides the code without CFI into functions, and `search` finds the functions without symbols.
//! - `jumps` finds the jumps and calls into these functions from functions that have CFI.

mod jumps;
mod search;
mod uncovered;

use std::collections::BTreeMap;
use std::ops::Range;

use cfipack_code::{Analysis, Candidate, Code, Omission, Rows, Surroundings, synthesize_with};
use cfipack_container::{CallFrameSection, File};
use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Row};

use self::uncovered::{Evidence, Function, Uncovered};
use crate::coverage;
use crate::{Error, FileMemory};

/// The code of a file that no CFI covers.
#[derive(Debug)]
pub struct WithoutCfi<R> {
    /// The functions in ascending order, each with its rows or the reason why it gets no rows.
    pub functions: Vec<(Range<Address>, Result<R, Omission>)>,
    /// The number of pieces of code that belong to no known function.
    pub others: u64,
}

/// Makes rows for the functions of a file that no CFI covers. Functions are found by their symbols and by calls to
/// them.
///
/// # Errors
/// The sections or the symbols of the file, or its CFI, cannot be read.
pub fn functions(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> Result<WithoutCfi<Vec<Row>>, Error> {
    let memory = FileMemory::new(file)?;
    let uncovered = Uncovered::find(file, sections, &memory)?;
    let rows = rows(file, sections, &memory, &uncovered, |analysis| analysis.synthesize())?;
    let ranges = uncovered.functions.into_iter().map(|function| function.range);
    let functions = ranges.zip(rows).collect();
    Ok(WithoutCfi { functions, others: uncovered.others.len() as u64 })
}

/// Makes rows with all registers for the functions that no CFI covers and that have symbols.
pub(crate) fn described(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
) -> Result<WithoutCfi<Rows>, Error> {
    let memory = FileMemory::new(file)?;
    let uncovered = Uncovered::find(file, sections, &memory)?;
    let rows = rows(file, sections, &memory, &uncovered, |analysis| analysis.describe())?;
    let others = uncovered.others.len() as u64;
    let all = uncovered.functions.into_iter().zip(rows);
    let (named, unnamed): (Vec<_>, Vec<_>) =
        all.partition(|(function, _)| function.evidence == Evidence::Symbol);
    let functions = named.into_iter().map(|(function, rows)| (function.range, rows)).collect();
    Ok(WithoutCfi { functions, others: others + unnamed.len() as u64 })
}

/// Makes the rows of functions, from their code.
fn rows<T>(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    memory: &FileMemory<'_>,
    uncovered: &Uncovered,
    rows: impl Fn(&Analysis<'_>) -> Result<T, Omission>,
) -> Result<Vec<Result<T, Omission>>, Error> {
    let functions = &uncovered.functions;
    let symbols = file.symbols()?;
    let mut covered = coverage::of_cfi(sections)?;
    covered.sort_by_key(|range| (range.start, range.end));
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
        .map(|Function { range, .. }| {
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
            is_known: function.evidence != Evidence::Code,
        })
        .collect();
    let ranges: Vec<_> = functions.iter().map(|function| function.range.clone()).collect();
    let jumps::Into { jumps, calls } = jumps::into(file, sections, memory, &ranges);
    let surroundings = Surroundings { jumps: &jumps, calls: &calls, is_inside: &is_inside };
    Ok(synthesize_with(&candidates, &surroundings, memory, rows))
}

/// A function, and its rows or the reason why it gets no rows.
pub type FunctionRows = (Range<Address>, Result<Vec<Row>, Omission>);

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
    let memory = FileMemory::new(file)?;
    let uncovered = Uncovered::find(file, sections, &memory)?;
    let index = uncovered.functions.iter().position(|function| function.range.contains(&address));
    let Some(index) = index else { return Ok(None) };
    // The other functions decide how this function is entered.
    let mut rows = rows(file, sections, &memory, &uncovered, |analysis| analysis.synthesize())?;
    Ok(Some((uncovered.functions[index].range.clone(), rows.swap_remove(index))))
}

/// Returns the PCs of functions without CFI for which a table has the same rows as this module makes from their code.
/// The ranges are in ascending order and do not touch.
///
/// The same engine makes the rows of these functions. So this is no second opinion about the engine, but it checks the
/// table as it is in the file.
///
/// # Errors
/// The sections or the symbols of the file cannot be read. CFI that cannot be read is no error here.
pub fn judged(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    tables: &[Section<'_>],
) -> Result<Vec<Range<u64>>, Error> {
    // The caller reports CFI that cannot be read.
    let Ok(covered) = coverage::of_cfi(sections) else { return Ok(Vec::new()) };
    let covered = coverage::merged(covered);
    let mut found = Vec::new();
    for function in tables.iter().flat_map(Section::functions).filter_map(Result::ok) {
        let range = function.start()..function.start().offset(function.size().into());
        let next = covered.partition_point(|covered| covered.end <= range.start);
        let is_covered = covered.get(next).is_some_and(|covered| covered.start < range.end);
        if is_covered || range.is_empty() || function.is_pc_mask() || function.is_signal_frame() {
            continue;
        }
        if let Ok(rows) = function.rows().collect::<Result<Vec<Row>, _>>() {
            found.push((range, rows));
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let memory = FileMemory::new(file)?;
    // Functions that the table omits are followed too: they decide how other functions are entered.
    let uncovered = Uncovered::find(file, sections, &memory)?;
    let by_code = rows(file, sections, &memory, &uncovered, |analysis| analysis.synthesize())?;
    let made: BTreeMap<_, _> = uncovered
        .functions
        .iter()
        .zip(by_code)
        .map(|(function, made)| (function.range.start, (&function.range, made)))
        .collect();
    found.sort_by_key(|(range, _)| range.start);
    found.dedup_by(|next, before| next.0.start < before.0.end);
    let judged = found.into_iter().filter_map(|(range, own)| {
        let (made_of, Ok(rows)) = made.get(&range.start)? else { return None };
        let mut pairs = own.iter().zip(rows);
        let is_same = own.len() == rows.len()
            && pairs.all(|(own, made)| own.start == made.start && own.unwinds_as(made));
        (*made_of == &range && is_same).then_some(range.start.0..range.end.0)
    });
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in judged {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    Ok(all)
}
