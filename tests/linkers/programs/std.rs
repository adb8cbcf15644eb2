//! Rust with its standard library: threads, a panic that is caught, formatting, hashing.

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::thread;

#[inline(never)]
fn depth(of: u64) -> u64 {
    assert!(of != 13, "thirteen");
    if of == 0 { 0 } else { depth(of - 1) + std::hint::black_box(of) }
}

fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    let counts: HashMap<u64, String> = (0..12).map(|of| (of, format!("{:>4}", depth(of)))).collect();
    let threads: Vec<_> = (0..4).map(|of| thread::spawn(move || depth(of * 2))).collect();
    let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let caught = catch_unwind(|| depth(20)).unwrap_err();
    let message = caught.downcast_ref::<&str>().unwrap();
    println!("{} {sum} {message}", counts[&11]);
}
