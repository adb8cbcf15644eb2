//! Recognizes a bare section with a wrong address: all of its functions are at the same distance from functions of the
//! CFI.

use std::collections::BTreeMap;

use cfipack_container::CallFrameSection;
use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use serde::Serialize;

/// How many functions of the CFI are tried as the first and as the last function of the table. The table may omit
/// functions.
const TRIED: usize = 64;

/// A wrong `--address`: every function of the table is at the same distance from a function of the CFI.
#[derive(Clone, Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Displaced {
    /// The distance in bytes from a function in the CFI to the same function in the table.
    distance: i64,
    /// The value of `--address` with which all functions are where the CFI has them.
    fitting_address: Address,
}

impl Displaced {
    /// Compares the starts of both sides. Returns `None` unless exactly one distance other than 0 fits.
    pub fn find(sections: &[CallFrameSection<'_>], tables: &[Section<'_>], address: Address) -> Option<Self> {
        let cfi = sections.iter().flat_map(|section| cfipack_cfi::Functions::new(&section.cfi()).flatten());
        let cfi: BTreeMap<u64, u64> = cfi.map(|function| (function.key.address().0, function.size)).collect();
        let functions = tables.iter().flat_map(Section::functions).flatten();
        let table: BTreeMap<u64, u64> =
            functions.map(|function| (function.start().0, function.size().into())).collect();
        let (first, last) = (*table.first_key_value()?.0, *table.last_key_value()?.0);
        let distances = cfi.keys().take(TRIED).map(|start| first.wrapping_sub(*start));
        let from_end = cfi.keys().rev().take(TRIED).map(|start| last.wrapping_sub(*start));
        let mut distances: Vec<_> =
            distances.chain(from_end).filter(|distance| fits(&table, &cfi, *distance)).collect();
        distances.sort_unstable();
        distances.dedup();
        let &[distance] = &distances[..] else { return None };
        if distance == 0 {
            return None;
        }
        Some(Self { distance: distance as i64, fitting_address: Address(address.0.wrapping_sub(distance)) })
    }

    /// Describes the mistake, and how to correct it.
    pub fn words(&self) -> String {
        let Self { distance, fitting_address } = self;
        let side = if *distance < 0 { "before" } else { "after" };
        let distance = distance.unsigned_abs();
        format!(
            "every function lies {distance:#x} bytes {side} one of the CFI: is --address right? --address {fitting_address} fits"
        )
    }
}

/// Moves the functions of a table by a distance. Returns whether all are then inside functions of the CFI, and at least
/// half are equal to functions of the CFI. A PLT is several functions of a table, so not all need to be equal.
fn fits(table: &BTreeMap<u64, u64>, cfi: &BTreeMap<u64, u64>, distance: u64) -> bool {
    let mut equal = 0;
    for (start, size) in table {
        let start = start.wrapping_sub(distance);
        let Some((at, len)) = cfi.range(..=start).next_back() else { return false };
        if start - at >= (*len).max(1) {
            return false;
        }
        equal += usize::from((at, len) == (&start, size));
    }
    2 * equal >= table.len()
}
