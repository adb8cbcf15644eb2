//! The program that `tests/tests/traced/main.rs` steps instruction by instruction. Its calls have many shapes, through
//! the standard library and the C library, deep and shallow.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::panic;

trait Shape {
    fn area(&self, depth: u32) -> f64;
}

struct Square(f64);
struct Nested(Vec<Box<dyn Shape>>);

impl Shape for Square {
    fn area(&self, _: u32) -> f64 {
        self.0 * self.0
    }
}

impl Shape for Nested {
    #[inline(never)]
    fn area(&self, depth: u32) -> f64 {
        self.0.iter().map(|shape| shape.area(depth + 1)).sum()
    }
}

#[inline(never)]
fn fibonacci(n: u64) -> u64 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(black_box(n - 2)) }
}

/// Has a frame larger than a page, so that the compiler probes the stack.
#[inline(never)]
fn large_frame(seed: u8) -> u64 {
    let mut block = [seed; 20_000];
    black_box(&mut block);
    block.iter().step_by(1000).map(|&byte| u64::from(byte)).sum()
}

#[inline(never)]
fn many_arguments(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: [u64; 4]) -> u64 {
    black_box(a + b * c - d.min(e) + f + g.iter().sum::<u64>())
}

fn unwinds(n: u64) -> u64 {
    let result = panic::catch_unwind(|| if black_box(n) > 1 { panic::resume_unwind(Box::new(n)) } else { 0 });
    result.unwrap_or_else(|payload| *payload.downcast_ref::<u64>().unwrap())
}

fn main() {
    let mut total = fibonacci(6) + large_frame(3) + many_arguments(1, 2, 3, 4, 5, 6, [8; 4]);
    let mut names: Vec<_> = (0..24u32).map(|i| format!("{:>5}", i * 7919 % 101)).collect();
    names.sort_by(|a, b| b.cmp(a));
    let counted: BTreeMap<_, _> = names.iter().map(|name| (name.len(), name)).collect();
    let square = || Box::new(Square(black_box(1.5))) as Box<dyn Shape>;
    let nested = Nested(vec![square(), Box::new(Nested(vec![square(), square()]))]);
    total += unwinds(5);
    println!("{total} {} {:.3}", counted.len(), nested.area(0));
}
