//! [`gnu_merge_order`]: the order in which GNU `ld` merges tables.

use alloc::vec;
use alloc::vec::Vec;

/// Returns the order in which GNU `ld` 2.47 merges the `.sframe` sections of a link's objects, in final and in
/// relocatable links. Push objects in this order to get the same bytes.
///
/// An object's turn comes when `ld` writes the first section that it keeps of the object, even an empty
/// section. `kept` has an item for each kept input section, in the order of the output: the number of the
/// section's object, from 0 to `objects - 1`. Output sections are in the order of their headers. Omit section
/// groups and sections without a header. Inside an output section, inputs are in the order of their
/// placement. The result omits objects without a kept section.
///
/// ```
/// use cfipack_linker::sframe::gnu_merge_order;
///
/// // .text.unlikely of object 2, then .text of 0, 1 and 2.
/// assert_eq!(gnu_merge_order(3, [2, 0, 1, 2]), [2, 0, 1]);
/// ```
pub fn gnu_merge_order(objects: usize, kept: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut seen = vec![false; objects];
    let mut order = Vec::new();
    for object in kept {
        let Some(seen) = seen.get_mut(object) else { continue };
        if !*seen {
            *seen = true;
            order.push(object);
        }
    }
    order
}
