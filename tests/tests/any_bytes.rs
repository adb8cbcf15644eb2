//! Damages the inputs of everything that reads outside data. There must be no panic, no overflow and no endless loop,
//! and the promises that `cfipack_tests::any_bytes` checks must hold.

use cfipack_testkit::random::{Case, Random, cases};
use cfipack_tests::any_bytes::{Seed, TARGETS, seeds};

/// Inputs per target that are damaged at several places.
const CASES: usize = 3000;

/// The longest input in which each byte is damaged on its own.
const EACH: usize = 2500;

/// Values at the edges of what sizes, counts and offsets can be.
const WORDS: [u32; 8] = [0, 1, 0xff, 0xffff, 0x00ff_ffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];

/// Returns the inputs of a target.
fn seeds_for(target: &str) -> Vec<Seed> {
    let seeds: Vec<_> = seeds().into_iter().filter(|seed| seed.target == target).collect();
    assert!(!seeds.is_empty(), "{target} has inputs");
    seeds
}

/// Damages each byte in three ways, and cuts at each length, in four inputs of different sizes up to `EACH` bytes.
#[test]
fn each_byte_and_each_length() {
    for (name, act) in TARGETS {
        let mut seeds = seeds_for(name);
        seeds.retain(|seed| seed.bytes.len() <= EACH);
        seeds.sort_by_key(|seed| seed.bytes.len());
        let step = seeds.len().div_ceil(4).max(1);
        for seed in seeds.iter().rev().step_by(step) {
            act(&seed.bytes);
            let mut damaged = seed.bytes.clone();
            for at in 0..seed.bytes.len() {
                for damage in [0x01, 0x80, 0xff] {
                    damaged[at] ^= damage;
                    act(&damaged);
                    damaged[at] = seed.bytes[at];
                }
                act(&seed.bytes[..at]);
            }
        }
    }
}

/// Damages several bytes and words at once, and sometimes cuts off the end.
#[test]
fn several_places() {
    for (name, act) in TARGETS {
        let seeds = seeds_for(name);
        let (seed, count) = cases(name, CASES);
        for number in 0..count as u64 {
            let (_case, mut random) = Case::new(seed.wrapping_add(number));
            let mut bytes = seeds[random.below(seeds.len() as u64) as usize].bytes.clone();
            for _ in 0..1 + random.below(6) {
                damage(&mut bytes, &mut random);
            }
            act(&bytes);
        }
    }
}

/// Writes another byte or word somewhere. It may be the offset of its own place, as a CIE pointer is.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len().max(1) as u64) as usize;
    let word = match random.below(3) {
        0 => at as u32 + random.below(5) as u32,
        1 => random.next() as u32,
        _ => random.pick(&WORDS),
    };
    match random.below(20) {
        0 => bytes.truncate(at),
        1..10 => bytes.get_mut(at).into_iter().for_each(|byte| *byte = word as u8),
        _ => {
            // In most formats fields are aligned.
            let at = if random.chance(70) { at & !3 } else { at };
            let value = if random.chance(20) { word.to_be_bytes() } else { word.to_le_bytes() };
            if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                *field = value;
            }
        }
    }
}
