//! Makes functions for x86-64 without CFI, of which rows are made together.

use cfipack_code::{Candidate, Code, Memory, Surroundings, synthesize};
use cfipack_format::{Address, Arch};

use super::{Input, Shape};

/// The code of functions, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

/// The address of the first function.
const START: u64 = 0x10_0000;

/// Functions for each part. Functions that are followed again and again must be many.
const FUNCTIONS: usize = 8;

/// Shapes whose cost must grow no faster than their size.
pub const FUNCTIONS_TOGETHER: &[Shape] = &[
    ("a chain of fragments, each of the one before", |n| {
        let mut all = Functions::default();
        for _ in 0..FUNCTIONS * n {
            // push rax; jmp to the next function
            all.function(&[0x50, 0xe9, 0, 0, 0, 0]);
        }
        all.end()
    }),
    ("a chain of fragments, each of the one behind it", |n| {
        let mut all = Functions::default();
        all.function(&[0xc3]);
        for index in 0..FUNCTIONS * n {
            // push rax; jmp to the function before
            let back = if index == 0 { -7 } else { -12_i32 };
            all.function(&[0x50, 0xe9]).with(&back.to_le_bytes());
        }
        all.end()
    }),
    ("many that jump into one, each to another place", |n| {
        let n = FUNCTIONS * n;
        let mut all = Functions::default();
        for index in 0..n {
            let over = 6 * (n - index - 1) + index;
            all.function(&[0x50, 0xe9]).with(&(over as i32).to_le_bytes());
        }
        all.function(&vec![0x90; n]).with(&[0x58, 0xc3]);
        all.end()
    }),
    ("one that jumps into many, from another frame each time", |n| {
        // Every function has room for some states, which would hide the cost of small functions.
        let n = 8 * FUNCTIONS * n;
        let mut all = Functions::default();
        all.function(&[]);
        for index in 0..n {
            // push rax; je to the second instruction of the next of the functions below
            let over = 7 * (n - index - 1) + 1 + 3 * index + 1;
            all.with(&[0x50, 0x0f, 0x84]).with(&(over as i32).to_le_bytes());
        }
        all.with(&[0xc3]);
        for _ in 0..n {
            all.function(&[0x90, 0x58, 0xc3]);
        }
        all.end()
    }),
    ("each calls all that come near", |n| {
        let n = FUNCTIONS * n;
        let mut all = Functions::default();
        for index in 0..n {
            all.function(&[]);
            for other in 1..=4 {
                let here = all.bytes.len() as i32 + 5;
                let target = 21 * ((index + other) % n) as i32;
                all.with(&[0xe8]).with(&(target - here).to_le_bytes());
            }
            all.with(&[0xc3]);
        }
        all.end()
    }),
];

impl Functions {
    /// Starts a function.
    fn function(&mut self, bytes: &[u8]) -> &mut Self {
        self.starts.push(self.bytes.len());
        self.with(bytes)
    }

    fn with(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    fn end(&mut self) -> Input {
        Input::Functions(std::mem::take(self))
    }

    /// Returns the bytes of code.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Makes rows of all functions.
    pub(super) fn work(&self) {
        let ends = self.starts.iter().skip(1).copied().chain([self.bytes.len()]);
        let candidates: Vec<_> =
            self.starts.iter().zip(ends).map(|(start, end)| self.candidate(*start, end)).collect();
        let surroundings = Surroundings { jumps: &[], calls: &[], is_inside: &|_| false };
        let rows = synthesize(&candidates, &surroundings, self);
        assert_eq!(rows.len(), candidates.len());
        std::hint::black_box(rows);
    }

    fn candidate(&self, start: usize, end: usize) -> Candidate<'_> {
        let code = Code {
            arch: Arch::Amd64,
            start: Address(START + start as u64),
            bytes: &self.bytes[start..end],
            relocated: &[],
        };
        Candidate { code, call_sites: &[], noreturn: &[], is_known: true, is_exported: false }
    }
}

impl Memory for Functions {
    fn at(&self, address: Address) -> &[u8] {
        let offset = address.0.checked_sub(START).and_then(|offset| usize::try_from(offset).ok());
        offset.and_then(|offset| self.bytes.get(offset..)).unwrap_or_default()
    }
}
