//! The order of functions by their addresses, whatever the order in which they were added.

use alloc::vec;
use alloc::vec::Vec;

/// Numbers that a list may have before it is divided: what moves when one is inserted.
const LIST: usize = 512;

/// The numbers of functions, in the order of addresses: in lists, none of which is empty. No lists while the functions were
/// added in that order.
#[derive(Clone, Default, Debug)]
pub(super) struct Order {
    lists: Vec<Vec<usize>>,
    len: usize,
}

/// A place between two functions.
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

    /// The number of the function at a place in the order, counted from 0.
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

    /// All numbers in order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        let added = if self.lists.is_empty() { 0..self.len } else { 0..0 };
        added.chain(self.lists.iter().flatten().copied())
    }

    /// The place before the first function that is not `before`, and the functions around it.
    pub(super) fn find(&self, before: impl Fn(usize) -> bool) -> (Place, Option<usize>, Option<usize>) {
        if self.lists.is_empty() {
            // As a rule it is the end.
            let is_end = self.len == 0 || before(self.len - 1);
            let at = if is_end { self.len } else { point(self.len, &before) };
            return (Place { list: 0, at }, at.checked_sub(1), (at < self.len).then_some(at));
        }
        let list = point(self.lists.len(), |list| before(self.lists[list][0])).saturating_sub(1);
        let numbers = &self.lists[list];
        let at = point(numbers.len(), |at| before(numbers[at]));
        let previous = at.checked_sub(1).map(|at| numbers[at]);
        let next = numbers.get(at).or_else(|| self.lists.get(list + 1)?.first());
        (Place { list, at }, previous, next.copied())
    }

    /// Inserts the next number.
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
        // At an end as a rule: the others stay together.
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

/// The first of `0..len` that is not `before`.
fn point(len: usize, before: impl Fn(usize) -> bool) -> usize {
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

    /// Each number is inserted by its key; the order is that of the sorted keys.
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
