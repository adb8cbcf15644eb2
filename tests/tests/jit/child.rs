//! Runs a case in a process of its own. The tests read its output.

use std::env;
use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Output};

use cfipack::assembler::region::{DynInfoLayout, LibunwindForm, Pointers};

use super::program::{Cfi, FRAME, Program};
use super::walk::{self, Unwinder};
use super::{gdb, libgcc, libunwind, perf, stepped, stress};

/// The case: unwinder, its input, and the action, separated by blanks.
const CASE: &str = "CFIPACK_JIT_CASE";

/// Returns a command that runs a case.
pub fn command(case: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    prepare(&mut command, case);
    command
}

/// Makes a command for this program run a case.
pub fn prepare(command: &mut Command, case: &str) {
    command.args(["--exact", "child::case", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(CASE, case);
}

/// Returns the lines that a child printed, without their prefix `jit: `.
pub fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| Some(line.split_once("jit: ")?.1.to_owned())).collect()
}

/// The unwinder of a case.
#[derive(Clone, Copy)]
pub enum Walker {
    Unwinder(Unwinder),
    Libunwind(*mut c_void),
    Nothing,
}

impl Walker {
    pub fn walk(self) -> Vec<u64> {
        match self {
            Self::Unwinder(unwinder) => unwinder.walk(),
            Self::Libunwind(library) => walk::libunwind(library).expect("libunwind's functions"),
            Self::Nothing => Vec::new(),
        }
    }
}

/// A registration, which ends when it is dropped.
#[expect(dead_code, reason = "held")]
enum Registered {
    Libgcc(Option<libgcc::Registered>),
    Libunwind(Option<libunwind::Registered>),
    Gdb(gdb::Registered),
    Nothing,
}

fn open(path: &str) -> *mut c_void {
    let name = CString::new(path).unwrap();
    // SAFETY: the libraries' initialisation asks nothing of the process.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "{path} cannot be loaded");
    library
}

fn register(unwinder: &str, library: *mut c_void, program: &Program) -> Registered {
    let region = &program.region;
    let layout = DynInfoLayout::WithLoadOffset;
    let libunwind = |form| Registered::Libunwind(libunwind::register(library, region, form, layout).unwrap());
    match unwinder {
        "libgcc" | "llvm" => {
            let eh_frame = region.eh_frame(Pointers::Absolute).unwrap();
            Registered::Libgcc(libgcc::register(library, &eh_frame))
        }
        "libgcc-relative" => {
            // The bytes must be near the code, so they move once more into the box where they stay.
            let mut eh_frame = region.eh_frame(Pointers::PcRelative).unwrap();
            let size = eh_frame.bytes().len();
            let mut near = super::memory::Mapping::new(size).unwrap();
            eh_frame.place(cfipack::format::Address(near.address())).unwrap();
            near.write(0, eh_frame.bytes());
            // SAFETY: the process's own function, and a section that stays.
            unsafe { __register_frame(near.address() as *const c_void) };
            std::mem::forget(near);
            Registered::Nothing
        }
        "llvm-section" => {
            let add = libgcc::symbol(library, c"__unw_add_dynamic_eh_frame_section").expect("LLVM's");
            let eh_frame = region.eh_frame(Pointers::Absolute).unwrap();
            let section: &'static [u8] = eh_frame.bytes().to_vec().leak();
            // SAFETY: the function has this type, and the section stays.
            unsafe {
                std::mem::transmute::<*mut c_void, extern "C" fn(usize)>(add)(section.as_ptr() as usize)
            };
            Registered::Nothing
        }
        "ip-offset" => libunwind(LibunwindForm::IpOffset),
        "remote-table" => libunwind(LibunwindForm::RemoteTable),
        "gdb" => Registered::Gdb(gdb::register(region).unwrap()),
        "perf" => Registered::Nothing,
        _ => panic!("{unwinder}"),
    }
}

unsafe extern "C" {
    fn __register_frame(section: *const c_void);
}

/// The argument of the innermost function.
pub struct Visit<'a> {
    pub program: &'a Program,
    pub walker: Walker,
    pub baseline: Vec<u64>,
}

impl Visit<'_> {
    /// Returns the names of a stack's functions, from the first generated function on. The last word is "all" if the
    /// frames above `visit` are those before the call.
    pub fn describe(&self, pcs: &[u64]) -> String {
        let names: Vec<_> = pcs.iter().map(|&pc| self.program.name(pc.wrapping_sub(1))).collect();
        let first = names.iter().position(|&name| name != "host").unwrap_or(names.len());
        let last = names.iter().rposition(|&name| name != "host").map_or(first, |last| last + 1);
        // Without optimisation, `visit` and a function that it calls come first.
        let above = pcs[last..].get(2..).unwrap_or_default();
        let is_whole = !above.is_empty() && self.baseline.ends_with(above);
        let end = if is_whole { "all" } else { "cut" };
        names[first..last].iter().copied().chain([end]).collect::<Vec<_>>().join(" ")
    }
}

extern "C-unwind" fn report(visit: *mut c_void) {
    // SAFETY: `visit` below.
    let visit = unsafe { &*visit.cast::<Visit<'_>>() };
    println!("jit: {}", visit.describe(&visit.walker.walk()));
}

extern "C-unwind" fn throw(_: *mut c_void) {
    panic!("a panic that generated code lets pass");
}

/// gdb has a breakpoint here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C-unwind" fn jit_stop(_: *mut c_void) {
    std::hint::black_box(());
}

/// Returns the address of this program.
pub fn image_base() -> u64 {
    unsafe extern "C" {
        static __ehdr_start: u8;
    }
    &raw const __ehdr_start as u64
}

/// perf takes its samples here.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C-unwind" fn jit_busy(_: *mut c_void) {
    (0..100_000).for_each(|number| _ = std::hint::black_box(number));
}

#[inline(never)]
fn visit(program: &Program, walker: Walker) {
    let mut visit = Visit { program, walker, baseline: walker.walk() };
    program.call(report, (&raw mut visit).cast());
    std::hint::black_box(&visit);
}

#[test]
#[ignore = "run by the other tests"]
fn case() {
    let Ok(case) = env::var(CASE) else { return };
    let words: Vec<_> = case.split(' ').collect();
    if let ["registry", "signals"] = words[..] {
        return stress::signals();
    }
    let [unwinder, cfi, action, rest @ ..] = &words[..] else { panic!("{case}") };
    let cfi = match *cfi {
        "right" => Cfi::Right,
        "wrong" => Cfi::Wrong,
        _ => Cfi::Nothing,
    };
    let library = match (*unwinder, rest.first()) {
        ("llvm" | "llvm-section" | "ip-offset" | "remote-table", Some(path)) => open(path),
        _ => libc::RTLD_DEFAULT,
    };
    let walker = match *unwinder {
        "ip-offset" | "remote-table" => Walker::Libunwind(library),
        "gdb" | "perf" => Walker::Nothing,
        _ => Walker::Unwinder(Unwinder::in_library(library).expect("_Unwind_Backtrace")),
    };
    let program = Program::new(cfi, FRAME);
    let registered = register(unwinder, library, &program);
    let nothing = std::ptr::null_mut();
    match *action {
        "call" => visit(&program, walker),
        "step" => stepped::run(&program, walker, *unwinder == "llvm"),
        "panic" => {
            let result = catch_unwind(AssertUnwindSafe(|| program.call(throw, nothing)));
            println!("jit: {}", if result.is_err() { "caught" } else { "returned" });
        }
        "exception" => exception(&program, rest[0]),
        "removed" => {
            drop(registered);
            visit(&program, walker);
        }
        "reused" => {
            visit(&program, walker);
            let at = program.memory.address();
            drop(registered);
            drop(program);
            let program = Program::new(cfi, 2 * FRAME);
            assert_eq!(program.memory.address(), at, "the system gives the same addresses");
            let _registered = register(unwinder, library, &program);
            visit(&program, walker);
        }
        "stress" => stress::run(&program),
        "stop" => {
            program.call(jit_stop, nothing);
            drop(registered);
            program.call(jit_stop, nothing);
        }
        "busy" => {
            perf::Dump::create(Path::new(rest[0])).unwrap().write(&program.region, &program.code).unwrap();
            (0..5000).for_each(|_| program.call(jit_busy, nothing));
        }
        _ => panic!("{action}"),
    }
}

/// Calls generated code from a C++ function that catches an exception of another one.
fn exception(program: &Program, library: &str) {
    type Catch = unsafe extern "C-unwind" fn(*const c_void, *const c_void) -> i32;
    let library = open(library);
    let function = |name| libgcc::symbol(library, name).expect("a function of the library");
    let outer = program.functions.last().unwrap().address;
    // SAFETY: the functions have these types.
    let caught = unsafe {
        let catch: Catch = std::mem::transmute(function(c"catch_it"));
        catch(outer as *const c_void, function(c"throw_it"))
    };
    println!("jit: caught {caught}");
}
