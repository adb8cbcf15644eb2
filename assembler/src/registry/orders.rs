//! Tests the memory and the search tree with loom. The reader runs in every order with the writer's steps
//! that the memory model allows, up to a number of preemptions.
//!
//! ```sh
//! RUSTFLAGS='--cfg loom' cargo test -p cfipack-assembler --lib registry::orders
//! ```

use alloc::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use super::arenas::{Arenas, LEAST};
use super::sync::{self, AtomicU64};
use super::tree::{self, Tree, Writer};

/// A registry of numbers. The value of each key is the place of a word with the same key.
struct Keys {
    arenas: Arc<Arenas>,
    tree: Tree,
    used: usize,
    keys: Vec<u64>,
}

impl Keys {
    fn new() -> Self {
        let arenas = Arc::new(Arenas::new());
        let mut keys = Self { arenas, tree: Tree::default(), used: 0, keys: Vec::new() };
        keys.copy();
        keys
    }

    fn change(&mut self, change: impl FnOnce(&mut Tree, &mut Writer<'_>)) {
        let Self { arenas, tree, used, .. } = self;
        arenas.change(|words| {
            let mut writer = Writer::new(words, *used);
            change(tree, &mut writer);
            *used = writer.next();
        });
    }

    fn add(&mut self, key: u64) {
        self.change(|tree, writer| {
            let value = writer.put([key]);
            tree.insert(writer, key, value);
        });
        self.keys.push(key);
    }

    fn remove(&mut self, key: u64) {
        self.keys.retain(|&other| other != key);
        self.change(|tree, writer| tree.remove(writer, key));
    }

    /// Copies all keys to other memory.
    fn copy(&mut self) {
        let Self { arenas, tree, used, keys } = self;
        let replaced = arenas.replace(LEAST, |words| {
            let mut writer = Writer::new(words, tree::START);
            let places: Vec<_> = keys.iter().map(|&key| (key, writer.put([key]))).collect();
            *tree = Tree::build(places.into_iter(), &mut writer);
            *used = writer.next();
        });
        assert_eq!(replaced, Some(LEAST));
        self.arenas.reclaim();
    }
}

/// Returns the key that a reader finds.
fn find(arenas: &Arenas, key: u64) -> Option<u64> {
    let found = arenas.read(|words| {
        let (found, at) = tree::find(words, key)?;
        Some((found, words.get(at as usize)?.load(sync::Ordering::Relaxed)))
    });
    found.map(|(found, word)| {
        assert_eq!(found, word, "what the tree leads to was written before");
        found
    })
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// Keys come and go while a reader looks for a key that stays.
#[test]
fn what_stays_is_found() {
    model(|| {
        let mut keys = Keys::new();
        keys.add(10);
        let arenas = Arc::clone(&keys.arenas);
        let reader = thread::spawn(move || {
            for key in [15, 25] {
                let found = find(&arenas, key);
                assert!(found == Some(10) || key == 25 && found == Some(20), "{key}: {found:?}");
            }
        });
        keys.add(20);
        keys.remove(20);
        reader.join().unwrap();
    });
}

/// The memory is replaced twice while a reader may use any of the memories.
#[test]
fn memory_is_replaced() {
    model(|| {
        let mut keys = Keys::new();
        keys.add(10);
        let arenas = Arc::clone(&keys.arenas);
        let reader = thread::spawn(move || {
            assert_eq!(find(&arenas, 15), Some(10));
        });
        keys.copy();
        keys.copy();
        reader.join().unwrap();
    });
}

/// Memory that a reader holds is written again, with other keys.
#[test]
fn memory_is_written_again() {
    model(|| {
        let mut keys = Keys::new();
        keys.add(10);
        let arenas = Arc::clone(&keys.arenas);
        let reader = thread::spawn(move || {
            let found = find(&arenas, 15);
            assert!(matches!(found, Some(10 | 12)), "{found:?}");
        });
        keys.copy();
        keys.keys = Vec::from([10, 12]);
        keys.copy();
        reader.join().unwrap();
    });
}

/// A reader that knows about a change sees the change.
#[test]
fn changes_are_seen_by_those_who_know_of_them() {
    model(|| {
        let mut keys = Keys::new();
        keys.add(10);
        keys.add(20);
        let step = Arc::new(AtomicU64::new(0));
        let (arenas, seen) = (Arc::clone(&keys.arenas), Arc::clone(&step));
        let reader = thread::spawn(move || {
            let step = seen.load(sync::Ordering::Acquire);
            let found = find(&arenas, 29);
            match step {
                0 => assert!(matches!(found, Some(10 | 20))),
                _ => assert_eq!(found, Some(10), "20 had gone"),
            }
        });
        keys.remove(20);
        step.store(1, sync::Ordering::Release);
        keys.copy();
        reader.join().unwrap();
    });
}
