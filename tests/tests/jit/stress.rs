//! Code comes and goes while other threads unwind.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::thread;

use cfipack::assembler::Directives;
use cfipack::assembler::region::sframe_table::{Capacity, SframeTable};
use cfipack::assembler::region::{Pointers, Region};
use cfipack::format::{Address, Arch, Cfa};
use cfipack_decoder::sframe::Section;

use super::child::{command, lines};
use super::libgcc;
use super::program::{Cfi, FRAME, Program};
use super::walk::Unwinder;

/// Programs that come and go at least.
const ROUNDS: usize = 300;

/// Two threads walk through a program that stays, while a third registers others, calls them, and removes them.
pub fn run(program: &Program) {
    static SHORT: AtomicUsize = AtomicUsize::new(0);
    static WALKS: AtomicUsize = AtomicUsize::new(0);
    extern "C-unwind" fn walk(program: *mut c_void) {
        // SAFETY: the callers below.
        let program = unsafe { &*program.cast::<Program>() };
        let pcs = Unwinder::of(libc::RTLD_DEFAULT).expect("an unwinder").walk();
        let names: Vec<_> = pcs.iter().map(|&pc| program.name(pc.wrapping_sub(1))).collect();
        let is_whole = names.windows(5).any(|five| five == ["inner", "middle", "outer", "caller", "host"]);
        SHORT.fetch_add(usize::from(!is_whole), Ordering::Relaxed);
        WALKS.fetch_add(1, Ordering::Relaxed);
    }
    fn call(program: &Program) {
        program.call(walk, (&raw const *program).cast_mut().cast());
    }
    /// The mapping does not move, and the code is only read.
    struct Shared<'a>(&'a Program);
    // SAFETY: as its documentation requires.
    unsafe impl Sync for Shared<'_> {}
    let (shared, is_over) = (Shared(program), AtomicBool::new(false));
    let (shared, is_over) = (&shared, &is_over);
    thread::scope(|scope| {
        let walkers = [0, 1].map(|_| {
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    call(shared.0);
                }
            })
        });
        // On a busy machine the others begin late: as long as they need for as many walks.
        let is_enough = |round| round >= ROUNDS && WALKS.load(Ordering::Relaxed) > round + ROUNDS;
        let rounds = (0..)
            .take_while(|&round| !is_enough(round) && walkers.iter().all(|walker| !walker.is_finished()));
        for round in rounds {
            let other = Program::new(Cfi::Right, FRAME + 16 * (round % 5) as i32);
            let eh_frame = other.region.eh_frame(Pointers::Absolute).unwrap();
            let _registered = libgcc::register(libc::RTLD_DEFAULT, &eh_frame).expect("libgcc");
            call(&other);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let (short, walks) = (SHORT.load(Ordering::Relaxed), WALKS.load(Ordering::Relaxed));
    assert!(walks > 2 * ROUNDS, "{walks} walks");
    println!("jit: {}", if short == 0 { "no short walk".to_owned() } else { format!("{short} of {walks}") });
}

#[test]
fn libgcc_while_code_comes_and_goes() {
    let output = command("libgcc right stress").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lines(&output), ["no short walk"]);
}

/// A reader of the table that grows sees only whole functions, and each as long as it is there.
#[test]
fn sframe_while_it_grows() {
    const FUNCTIONS: u32 = 4000;
    let capacity = Capacity { functions: FUNCTIONS, row_bytes: 20 * FUNCTIONS };
    let memory: Vec<_> = (0..capacity.words().unwrap()).map(|_| AtomicU32::new(0)).collect();
    let (address, text) = (Address(memory.as_ptr() as u64), 0x7000_0000_0000);
    let mut table = SframeTable::new(&memory, address, Arch::Amd64, capacity).unwrap();
    let (added, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let frame_of = |number: u64| 16 + 8 * (number % 1000);
    thread::scope(|scope| {
        let (memory, added, removed) = (&memory, &added, &removed);
        for _ in 0..2 {
            scope.spawn(move || {
                let mut bytes = vec![0; 4 * memory.len()];
                let mut round = 0;
                loop {
                    round += 1;
                    let there = added.load(Ordering::Acquire) as u64;
                    // The number of functions first, then what it counts.
                    let count = memory[2].load(Ordering::Acquire);
                    for (bytes, word) in bytes.chunks_exact_mut(4).zip(memory) {
                        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
                    }
                    bytes[8..12].copy_from_slice(&count.to_ne_bytes());
                    fence(Ordering::Acquire);
                    let gone = removed.load(Ordering::Acquire) as u64;
                    assert!(u64::from(count) >= there);
                    let section = Section::parse(&bytes, address).unwrap();
                    // Some of those that are there all the time.
                    for number in (gone..there).step_by(1 + round % 17) {
                        let row = section.lookup(Address(text + 32 * number + 20)).unwrap();
                        let cfa = Cfa::Register {
                            register: Arch::Amd64.stack_pointer(),
                            offset: frame_of(number) as i64,
                        };
                        assert_eq!(row.map(|row| row.cfa), Some(cfa), "function {number} of {count}");
                    }
                    if there == u64::from(FUNCTIONS) {
                        break;
                    }
                }
            });
        }
        for number in 0..u64::from(FUNCTIONS) {
            let mut region = Region::new(Arch::Amd64, Address(text + 32 * number), 32).unwrap();
            let mut directives = Directives::new(Arch::Amd64, 30);
            directives.at(4).def_cfa_offset(frame_of(number) as i64);
            region.push("", 0, &directives).unwrap();
            assert_eq!(table.add(&region).unwrap(), []);
            added.store(number as usize + 1, Ordering::Release);
            if let Some(old) = number.checked_sub(200) {
                // First it is no longer promised, then it is removed.
                removed.store(old as usize + 1, Ordering::Release);
                table.remove(Address(text + 32 * old), 32).unwrap();
            }
        }
    });
}
