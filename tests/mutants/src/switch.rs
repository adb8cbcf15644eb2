//! The switch between a crate and its mutants; each crate gets a copy of this file.

extern crate std;

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::string::ToString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

struct Choice {
    /// The mutant that this process runs; 0 for none.
    mutant: u32,
    /// The file that takes the numbers of mutants as they are reached.
    reached: Option<File>,
}

fn choice() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(|| Choice {
        mutant: std::env::var("CFIPACK_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0),
        reached: std::env::var_os("CFIPACK_MUTANTS_REACHED")
            .and_then(|name| OpenOptions::new().append(true).create(true).open(name).ok()),
    })
}

/// Returns whether a mutant is the one that runs.
pub(crate) fn on(number: u32) -> bool {
    static SEEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    let choice = choice();
    if let Some(mut file) = choice.reached.as_ref()
        && !SEEN[number as usize].swap(true, Ordering::Relaxed)
    {
        let _ = file.write_all((number.to_string() + "\n").as_bytes());
    }
    choice.mutant == number
}

/// A value that may be an integer: then its mutant is one more.
pub(crate) struct Value<T>(pub(crate) Cell<Option<T>>);

pub(crate) fn value<T>(value: T) -> Value<T> {
    Value(Cell::new(Some(value)))
}

pub(crate) trait Integer {
    type Of;
    fn mutated(&self, number: u32) -> Self::Of;
}

macro_rules! integers {
    ($($type:ty)*) => { $(
        impl Integer for Value<$type> {
            type Of = $type;
            fn mutated(&self, number: u32) -> $type {
                let value = self.0.take().unwrap_or_default();
                if on(number) { value.wrapping_add(1) } else { value }
            }
        }
    )* };
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// Anything else stays as it is: method calls find this only where the type is no integer.
pub(crate) trait Other {
    type Of;
    fn mutated(&self, number: u32) -> Self::Of;
}

impl<T> Other for &Value<T> {
    type Of = T;
    fn mutated(&self, _number: u32) -> T {
        self.0.take().expect("a value is taken once")
    }
}
