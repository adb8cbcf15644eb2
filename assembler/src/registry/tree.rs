//! A search tree in memory that only grows. A change writes new copies of the nodes from the root to the
//! changed node, and then stores the new root's place. A reader of an older root reads an older tree, which is
//! complete.
//!
//! ```text
//! word 0: the root's place | nodes and values ...
//! node:   number of keys, and whether a leaf | keys ... | places of children, or values ...
//! ```
//!
//! The keys of a node ascend. The key of a child is the first key in the child: it is never less, so that a search
//! for a key between two children ends at the last key of the first of them. Only the first key of all may be less
//! in the nodes above it.

use alloc::vec::Vec;

use super::sync::{AtomicU64, Ordering};

/// The word that has the root's place; 0 there means no key.
const ROOT: usize = 0;
/// The place of the first node.
pub(super) const START: usize = 1;
/// The largest number of keys in a node.
const WIDTH: usize = 16;
/// The number of keys in a node of a tree that is made at once. Several keys can be added before the node must
/// be divided.
const PACKED: usize = 12;
/// The bit of a node's first word that leaves have set.
const LEAF: u64 = 1 << 32;

/// Finds the last key that is not after `key`, and its value.
///
/// The words may change under a reader of older memory. So every place is checked, and a child must be in front
/// of its parent, as the writer has put them: this ends every search.
#[inline]
pub(super) fn find(words: &[AtomicU64], key: u64) -> Option<(u64, u64)> {
    let mut node = words.get(ROOT)?.load(Ordering::Acquire);
    loop {
        let node_words = words.get(usize::try_from(node).ok()?..)?;
        let (head, rest) = node_words.split_first()?;
        let head = head.load(Ordering::Relaxed);
        let count = head as u32 as usize;
        let (keys, values) = rest.get(..count.saturating_mul(2))?.split_at(count);
        let after = keys.partition_point(|other| other.load(Ordering::Relaxed) <= key);
        if head & LEAF != 0 {
            let at = after.checked_sub(1)?;
            return Some((keys.get(at)?.load(Ordering::Relaxed), values.get(at)?.load(Ordering::Relaxed)));
        }
        let child = values.get(after.saturating_sub(1))?.load(Ordering::Relaxed);
        if child >= node {
            return None;
        }
        node = child;
    }
}

/// The writer of a memory: words are added at its end.
#[derive(Debug)]
pub(super) struct Writer<'w> {
    words: &'w [AtomicU64],
    /// The first word that is free.
    next: usize,
}

impl<'w> Writer<'w> {
    /// Continues at the word where another writer of the same memory has stopped.
    pub(super) fn new(words: &'w [AtomicU64], next: usize) -> Self {
        Self { words, next }
    }

    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// Adds words. Returns their place.
    pub(super) fn put(&mut self, words: impl IntoIterator<Item = u64>) -> u64 {
        let place = self.next;
        for word in words {
            self.words[self.next].store(word, Ordering::Relaxed);
            self.next += 1;
        }
        place as u64
    }

    fn root(&self) -> u64 {
        self.words[ROOT].load(Ordering::Relaxed)
    }

    /// Publishes a root. Later readers see everything that was added.
    fn publish(&self, root: u64) {
        self.words[ROOT].store(root, Ordering::Release);
    }
}

/// The height of a tree. Only the writer needs it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tree {
    /// The number of levels of nodes.
    height: usize,
}

impl Tree {
    /// Returns how many words a change takes at most. On each level, it writes a node in two parts with
    /// another key. It may also write a new root.
    pub(super) fn room(self) -> usize {
        (self.height + 2) * (2 * (WIDTH + 1) + 2)
    }

    /// Returns how many words a tree of `keys` keys takes at most, if it is made at once.
    pub(super) fn packed(keys: usize) -> usize {
        keys.saturating_mul(3).saturating_add(2 * PACKED)
    }

    /// Builds a tree at once. `keys` are keys in ascending order, with their values.
    pub(super) fn build(keys: impl Iterator<Item = (u64, u64)>, writer: &mut Writer<'_>) -> Self {
        let mut level: Vec<_> = keys.collect();
        let mut tree = Self::default();
        while tree.height == 0 || level.len() > 1 {
            let nodes = level.chunks(PACKED).map(|pairs| {
                let mut node = Node::new(tree.height == 0);
                pairs.iter().for_each(|&(key, value)| node.insert(node.count, key, value));
                (node.keys[0], node.write(writer))
            });
            level = nodes.collect();
            if level.is_empty() {
                break;
            }
            tree.height += 1;
        }
        writer.publish(level.first().map_or(0, |&(_, root)| root));
        tree
    }

    /// Inserts a key that the tree does not have. The memory must have [`Self::room`].
    pub(super) fn insert(&mut self, writer: &mut Writer<'_>, key: u64, value: u64) {
        let root = writer.root();
        let (left, right) = if root == 0 {
            let mut leaf = Node::new(true);
            leaf.insert(0, key, value);
            self.height = 1;
            (leaf.write(writer), None)
        } else {
            inserted(writer, root, key, value)
        };
        let root = right.map_or(left, |(middle, right)| {
            let mut root = Node::new(false);
            root.insert(0, 0, left);
            root.insert(1, middle, right);
            self.height += 1;
            root.write(writer)
        });
        writer.publish(root);
    }

    /// Removes a key that the tree has. The memory must have [`Self::room`].
    pub(super) fn remove(&mut self, writer: &mut Writer<'_>, key: u64) {
        let mut root = removed(writer, writer.root(), key).map_or(0, |(_, root)| root);
        while self.height > 1 {
            let node = Node::read(writer, root);
            if node.is_leaf || node.count > 1 {
                break;
            }
            root = node.values[0];
            self.height -= 1;
        }
        if root == 0 {
            self.height = 0;
        }
        writer.publish(root);
    }
}

/// Writes a new copy of a node with another key. If the copy would be too wide, it has two parts, and the key
/// and place of the second part are returned too.
fn inserted(writer: &mut Writer<'_>, at: u64, key: u64, value: u64) -> (u64, Option<(u64, u64)>) {
    let mut node = Node::read(writer, at);
    let after = node.after(key);
    if node.is_leaf {
        node.insert(after, key, value);
    } else {
        let child = after.saturating_sub(1);
        let (left, right) = inserted(writer, node.values[child], key, value);
        node.values[child] = left;
        node.keys[child] = node.keys[child].min(key);
        if let Some((middle, right)) = right {
            node.insert(child + 1, middle, right);
        }
    }
    if node.count <= WIDTH {
        return (node.write(writer), None);
    }
    let right = node.split();
    (node.write(writer), Some((right.keys[0], right.write(writer))))
}

/// Writes a new copy of a node without a key. Returns its first key and its place. Writes nothing if no key would
/// remain.
fn removed(writer: &mut Writer<'_>, at: u64, key: u64) -> Option<(u64, u64)> {
    let mut node = Node::read(writer, at);
    let child = node.after(key).saturating_sub(1);
    let new = if node.is_leaf { None } else { removed(writer, node.values[child], key) };
    match new {
        Some(new) => (node.keys[child], node.values[child]) = new,
        None => node.remove(child),
    }
    (node.count > 0).then(|| (node.keys[0], node.write(writer)))
}

/// A copy of a node, which the writer changes.
struct Node {
    is_leaf: bool,
    count: usize,
    keys: [u64; WIDTH + 1],
    values: [u64; WIDTH + 1],
}

impl Node {
    fn new(is_leaf: bool) -> Self {
        Self { is_leaf, count: 0, keys: [0; WIDTH + 1], values: [0; WIDTH + 1] }
    }

    fn read(writer: &Writer<'_>, at: u64) -> Self {
        let words = &writer.words[at as usize..];
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let mut node = Self::new(word(0) & LEAF != 0);
        node.count = word(0) as u32 as usize;
        for number in 0..node.count {
            (node.keys[number], node.values[number]) = (word(1 + number), word(1 + node.count + number));
        }
        node
    }

    fn write(&self, writer: &mut Writer<'_>) -> u64 {
        let head = self.count as u64 | if self.is_leaf { LEAF } else { 0 };
        let place = writer.put([head]);
        writer.put(self.keys[..self.count].iter().copied());
        writer.put(self.values[..self.count].iter().copied());
        place
    }

    /// Returns the number of keys that are not after `key`.
    fn after(&self, key: u64) -> usize {
        self.keys[..self.count].partition_point(|&other| other <= key)
    }

    fn insert(&mut self, at: usize, key: u64, value: u64) {
        self.keys.copy_within(at..self.count, at + 1);
        self.values.copy_within(at..self.count, at + 1);
        (self.keys[at], self.values[at]) = (key, value);
        self.count += 1;
    }

    fn remove(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.count, at);
        self.values.copy_within(at + 1..self.count, at);
        self.count -= 1;
    }

    /// Divides the node into two halves.
    fn split(&mut self) -> Self {
        let mut right = Self::new(self.is_leaf);
        let left = self.count / 2;
        right.count = self.count - left;
        right.keys[..right.count].copy_from_slice(&self.keys[left..self.count]);
        right.values[..right.count].copy_from_slice(&self.values[left..self.count]);
        self.count = left;
        right
    }
}
