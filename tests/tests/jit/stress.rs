//! Adds and removes code while other threads unwind.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use cfipack::assembler::Directives;
use cfipack::assembler::region::{Pointers, Region};
use cfipack::assembler::registry::{Reader, Registry};
use cfipack::format::{Address, Arch, Cfa};

use super::child::{command, lines};
use super::libgcc;
use super::program::{Cfi, FRAME, Program};
use super::walk::Unwinder;

/// The least number of programs that are added and removed.
const ROUNDS: usize = 300;

/// Two threads walk through a program that stays. A third thread registers, calls and removes other programs.
pub fn run(program: &Program) {
    static SHORT: AtomicUsize = AtomicUsize::new(0);
    static WALKS: AtomicUsize = AtomicUsize::new(0);
    extern "C-unwind" fn walk(program: *mut c_void) {
        // SAFETY: the callers below.
        let program = unsafe { &*program.cast::<Program>() };
        let pcs = Unwinder::in_library(libc::RTLD_DEFAULT).expect("an unwinder").walk();
        let names: Vec<_> = pcs.iter().map(|&pc| program.name(pc.wrapping_sub(1))).collect();
        let is_whole = names.windows(5).any(|five| five == ["inner", "middle", "outer", "caller", "host"]);
        SHORT.fetch_add(usize::from(!is_whole), Ordering::Relaxed);
        WALKS.fetch_add(1, Ordering::Relaxed);
    }
    fn call(program: &Program) {
        program.call(walk, (&raw const *program).cast_mut().cast());
    }
    /// The mapping does not move, and threads only read the code.
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
        // On a busy machine other threads start late. We go on until they have walked as often as we have worked.
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

/// Signals interrupt the thread that adds and removes code, and an idle thread. The handler must find code that is there.
#[test]
fn a_registry_in_signal_handlers() {
    let output = command("registry signals").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lines(&output), ["found each time"]);
}

/// The case of [`a_registry_in_signal_handlers`], in a process of its own.
pub fn signals() {
    static READER: OnceLock<Reader> = OnceLock::new();
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    static MISSED: AtomicUsize = AtomicUsize::new(0);
    const TEXT: u64 = 0x7000_0000_0000;
    extern "C" fn handle(_: libc::c_int) {
        let Some(reader) = READER.get() else { return };
        for number in 0..8 {
            let found = reader.lookup(Address(TEXT + 64 * number + 20)).map(|frame| frame.row.cfa);
            let offset = 16 + 8 * number as i64;
            let is_right = found == Some(Cfa::Register { register: Arch::Amd64.stack_pointer(), offset });
            MISSED.fetch_add(usize::from(!is_right), Ordering::Relaxed);
        }
        LOOKUPS.fetch_add(1, Ordering::Relaxed);
    }
    let region = |number: u64, offset: i64| {
        let mut region = Region::new(Arch::Amd64, Address(TEXT + 64 * number), 64).unwrap();
        let mut directives = Directives::new(Arch::Amd64, 30);
        directives.at(4).def_cfa_offset(offset);
        region.push("", 0, &directives).unwrap();
        region
    };
    let mut registry = Registry::new(Arch::Amd64);
    (0..8).for_each(|number| _ = registry.add(&region(number, 16 + 8 * number as i64), ()).unwrap());
    READER.set(registry.reader()).expect("once");
    let interval = libc::timeval { tv_sec: 0, tv_usec: 100 };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the handler is async-signal-safe, and stays.
    unsafe {
        libc::signal(libc::SIGPROF, handle as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut());
    }
    // Other code comes and goes in an order that suits no tree, until the memory was replaced many times.
    let mut round = 0;
    while round < 20_000 || LOOKUPS.load(Ordering::Relaxed) < 200 {
        let number = 8 + round * 7919 % 300;
        let base = Address(TEXT + 64 * number);
        if registry.remove(base).is_err() {
            registry.add(&region(number, 8), ()).unwrap();
        }
        round += 1;
    }
    let missed = MISSED.load(Ordering::Relaxed);
    println!("jit: {}", if missed == 0 { "found each time".to_owned() } else { format!("{missed} missed") });
}
