//! Sorts functions by address while they are added in any order.

use alloc::vec;
use alloc::vec::Vec;

/// The length at which a list is divided. An insertion moves at most this many numbers.
const LIST: usize = 512;

/// The numbers of functions in the order of addresses. Functions are numbered from 0 as they are added.
///
/// The numbers are split into lists, and no list is empty. As long as functions are added in the order of
/// addresses, there are no lists, because place and number are equal.
#[derive(Clone, Default, Debug)]
pub(super) struct Order {
    lists: Vec<Vec<usize>>,
    len: usize,
}

/// A place between two functions, where a new function can be inserted.
#[derive(Clone, Copy)]
pub(super) struct Place {
    list: usize,
    at: usize,
}

impl Order {
    pub(super) fn clear(&mut self) {
        self.lists.clear();
        self.len = 0;
    }

    /// Returns the number of the function at `place`, counted from 0 in the order of addresses.
    pub(super) fn get(&self, mut place: usize) -> Option<usize> {
        if self.lists.is_empty() {
            return (place < self.len).then_some(place);
        }
        for list in &self.lists {
            match list.get(place) {
                Some(&number) => return Some(number),
                None => place -= list.len(),
            }
        }
        None
    }

    /// Returns all numbers in the order of addresses.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        let added = if self.lists.is_empty() { 0..self.len } else { 0..0 };
        added.chain(self.lists.iter().flatten().copied())
    }

    /// Finds the place for a new function by a binary search. `before` returns whether the function with a
    /// given number lies before the new function. This function returns the place, the number of the function
    /// before it, and the number of the function after it.
    pub(super) fn find(&self, before: impl Fn(usize) -> bool) -> (Place, Option<usize>, Option<usize>) {
        if self.lists.is_empty() {
            // The new function usually comes last.
            let is_end = self.len == 0 || before(self.len - 1);
            let at = if is_end { self.len } else { partition_point(self.len, &before) };
            return (Place { list: 0, at }, at.checked_sub(1), (at < self.len).then_some(at));
        }
        let list = partition_point(self.lists.len(), |list| before(self.lists[list][0])).saturating_sub(1);
        let numbers = &self.lists[list];
        let at = partition_point(numbers.len(), |at| before(numbers[at]));
        let previous = at.checked_sub(1).map(|at| numbers[at]);
        let next = numbers.get(at).or_else(|| self.lists.get(list + 1)?.first());
        (Place { list, at }, previous, next.copied())
    }

    /// Inserts the next number at a place that [`find`](Self::find) has returned.
    pub(super) fn insert(&mut self, place: Place) {
        let number = self.len;
        self.len += 1;
        if self.lists.is_empty() {
            if place.at == number {
                return;
            }
            let all: Vec<_> = (0..number).collect();
            self.lists.extend(all.chunks(LIST).map(<[usize]>::to_vec));
            return self.insert_in(place.at / LIST, place.at % LIST, number);
        }
        self.insert_in(place.list, place.at, number);
    }

    fn insert_in(&mut self, list: usize, at: usize, number: usize) {
        let numbers = &mut self.lists[list];
        if numbers.len() < LIST {
            return numbers.insert(at, number);
        }
        // New functions usually come at an end of a list. The list then keeps all its numbers, and the new
        // number gets a list of its own.
        let middle = if at == 0 || at == LIST { at } else { LIST / 2 };
        let mut right = numbers.split_off(middle);
        if at == 0 {
            numbers.push(number);
        } else if at == LIST {
            right = vec![number];
        } else if at <= middle {
            numbers.insert(at, number);
        } else {
            right.insert(at - middle, number);
        }
        self.lists.insert(list + 1, right);
    }
}

/// Returns the first number of `0..len` for which `before` is false, or `len`.
fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each number is inserted by its key, so the numbers are in the order of the sorted keys.
    #[test]
    fn any_order_of_keys() {
        let shapes: [fn(usize) -> usize; 5] = [
            |number| number,
            |number| 5000 - number,
            |number| number * 2654435761 % 4294967291,
            |number| if number % 2 == 0 { number } else { 10_000 - number },
            |number| number % 700 * 10_000 + number,
        ];
        for shape in shapes {
            let mut order = Order::default();
            let mut keys: Vec<usize> = Vec::new();
            for key in (0..5000).map(shape) {
                let (place, before, after) = order.find(|number| keys[number] < key);
                assert!(before.is_none_or(|number| keys[number] < key));
                assert!(after.is_none_or(|number| keys[number] > key));
                order.insert(place);
                keys.push(key);
            }
            let mut sorted: Vec<_> = (0..5000).collect();
            sorted.sort_by_key(|&number| keys[number]);
            assert!(order.numbers().eq(sorted.iter().copied()));
            assert!((0..5001).all(|place| order.get(place) == sorted.get(place).copied()));
        }
    }
}
