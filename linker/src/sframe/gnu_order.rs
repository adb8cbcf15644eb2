//! The order in which GNU `ld` merges tables.

use alloc::vec;
use alloc::vec::Vec;

/// The order in which GNU `ld` 2.47 merges the `.sframe` sections of a link's objects, in final and in relocatable
/// links: an object's comes when `ld` first writes any section of the object that it keeps, be it empty. `kept`
/// gives the numbers, below `objects`, of the objects of the kept input sections in the order of the output: output
/// sections in the order of their headers, but for groups and those without a header, and in each the inputs as they
/// are placed. Objects of which nothing is kept are not in the result.
///
/// ```
/// use cfipack_linker::sframe::gnu_merge_order;
///
/// // .text.unlikely of object 2, then .text of 0, 1 and 2.
/// assert_eq!(gnu_merge_order(3, [2, 0, 1, 2]), [2, 0, 1]);
/// ```
pub fn gnu_merge_order(objects: usize, kept: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut seen = vec![false; objects];
    let is_first = |&object: &usize| seen.get_mut(object).is_some_and(|seen| !core::mem::replace(seen, true));
    kept.into_iter().filter(is_first).collect()
}
