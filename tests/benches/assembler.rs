//! Measures a JIT's call for one function of ten directives: everything that readers of ELF want. The conversion of the
//! function's FDE to `.sframe` is measured beside the table alone.
//!
//!     cargo bench -p cfipack-tests --bench assembler

use std::hint::black_box;
use std::time::{Duration, Instant};

use cfipack_assembler::region::{DynInfoLayout, EhFrame, LibunwindForm, LibunwindTable, Pointers, Region};
use cfipack_assembler::{Assembly, CallFrames, Directives, Target};
use cfipack_cfi::{Functions, Section as Cfi, SectionKind};
use cfipack_encoder::sframe::{Builder, Layout, Options, Section};
use cfipack_format::{Address, Arch, Key, Register};
use cfipack_tests::allocated::{Counting, allocations};
use cfipack_tests::figures;
use cfipack_tests::timing::median;

const ROUNDS: usize = 41;
const REPEATED: u32 = 2000;
const FUNCTION: Address = Address(0x1000);
const EH_FRAME: Address = Address(0x2000);
const DEBUG_FRAME: Address = Address(0);
const SFRAME: Address = Address(0x3000);

#[global_allocator]
static COUNTING: Counting = Counting;

fn main() {
    let mut again =
        Again { directives: Directives::new(Arch::Amd64, 0), assembly: Assembly::new(Arch::Amd64) };
    for layout in Layout::ALL {
        let options = Options::new().with_layout(layout);
        let eh_frame = placed(&assembly().eh_frame().unwrap(), EH_FRAME);
        println!("layout {layout:?}");
        report("directives to all forms", || all_forms(options));
        report("the same, memory used again", || again.all_forms(options));
        let region = || all_forms_of_a_region(&directives(), options);
        report("a region to all ELF forms", region);
        report("directives to .eh_frame", || placed(&assembly().eh_frame().unwrap(), EH_FRAME));
        report("the directives alone", directives);
        report(".sframe of an assembly", || sframe(&again.assembly, options));
        report("directives to .sframe", || sframe(&assembly(), options));
        report("directives to .sframe, again", || again.sframe(options));
        report("FDE to .sframe", || convert(&eh_frame, options));
        let (ours, theirs) = by_turns(|| again.sframe(options), || convert(&eh_frame, options));
        let subject = format!("a function, {layout:?}");
        figures::nanoseconds(&subject, "directives to .sframe", ours, "its FDE to .sframe", theirs);
        println!("  .sframe of directives {:.2} times as long as of the FDE", ours / theirs);
    }
}

/// Buffers that a JIT reuses from call to call.
struct Again {
    directives: Directives,
    assembly: Assembly,
}

impl Again {
    fn say(&mut self) {
        self.directives.clear(64);
        say(&mut self.directives);
        self.assembly.clear();
        self.assembly.push(Key(FUNCTION.0), &self.directives).unwrap();
    }

    fn all_forms(&mut self, options: Options) -> [Vec<u8>; 3] {
        self.say();
        forms(&self.assembly, options)
    }

    fn sframe(&mut self, options: Options) -> Vec<u8> {
        self.say();
        sframe(&self.assembly, options)
    }
}

/// Adds ten directives: a prologue that saves two registers, and an epilogue.
fn say(directives: &mut Directives) {
    let [rbx, rbp, r12] = [3, 6, 12].map(Register);
    directives.at(1).def_cfa_offset(16).offset(rbp, -16).at(3).def_cfa_offset(24).offset(r12, -24);
    directives.at(4).def_cfa_offset(32).offset(rbx, -32).at(8).def_cfa_offset(64);
    directives.at(59).def_cfa_offset(32).at(60).def_cfa_offset(24).at(63).def_cfa_offset(8);
}

fn directives() -> Directives {
    let mut directives = Directives::new(Arch::Amd64, 64);
    say(&mut directives);
    directives
}

fn assembly() -> Assembly {
    let mut assembly = Assembly::new(Arch::Amd64);
    assembly.push(Key(FUNCTION.0), &directives()).unwrap();
    assembly
}

fn all_forms(options: Options) -> [Vec<u8>; 3] {
    forms(&assembly(), options)
}

fn forms(assembly: &Assembly, options: Options) -> [Vec<u8>; 3] {
    [
        placed(&assembly.eh_frame().unwrap(), EH_FRAME),
        placed(&assembly.debug_frame().unwrap(), DEBUG_FRAME),
        sframe(assembly, options),
    ]
}

/// Makes everything that readers on Linux register for a region of one function, except perf's file.
fn all_forms_of_a_region(directives: &Directives, options: Options) -> (EhFrame, [Vec<u8>; 2], [u8; 88]) {
    let mut region = Region::new(Arch::Amd64, FUNCTION, 4096).unwrap();
    region.push("function", 0, directives).unwrap();
    let eh_frame = region.eh_frame(Pointers::Absolute).unwrap();
    let elf = region.gdb_elf().unwrap();
    let table = LibunwindTable::new(&region, LibunwindForm::IpOffset, &eh_frame, EH_FRAME).unwrap();
    let info = table.dyn_info(DynInfoLayout::WithLoadOffset, DEBUG_FRAME);
    let sframe = region.sframe(options).unwrap();
    let mut bytes = vec![0; sframe.len()];
    sframe.write(&mut bytes, SFRAME).unwrap();
    (eh_frame, [elf, bytes], info)
}

fn placed(frames: &CallFrames, address: Address) -> Vec<u8> {
    frames
        .to_vec(address, |target| match target {
            Target::Function(key) => key.address(),
            target => panic!("{target:?}"),
        })
        .unwrap()
}

fn sframe(assembly: &Assembly, options: Options) -> Vec<u8> {
    written(assembly.sframe(options).unwrap().section)
}

fn written(section: Section<'_>) -> Vec<u8> {
    section.into_bytes(SFRAME, Key::address).unwrap()
}

fn convert(eh_frame: &[u8], options: Options) -> Vec<u8> {
    let section = Cfi::new(SectionKind::EhFrame, eh_frame, EH_FRAME, Arch::Amd64);
    let mut builder = Builder::new(Arch::Amd64, options.with_few(true)).unwrap();
    for function in Functions::new(&section) {
        builder.push(&function.unwrap()).unwrap();
    }
    written(builder.finish())
}

fn report<T>(what: &str, mut work: impl FnMut() -> T) {
    black_box(work());
    let allocations = allocations(&mut work);
    let (nanoseconds, _) = by_turns(&mut work, || ());
    println!("  {what:<30} {nanoseconds:>8.0} ns   {allocations} allocations");
}

/// Runs both by turns. Returns the medians in nanoseconds.
fn by_turns<A, B>(mut a: impl FnMut() -> A, mut b: impl FnMut() -> B) -> (f64, f64) {
    let mut times: [Vec<_>; 2] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(time(&mut a));
        times[1].push(time(&mut b));
    }
    let [a, b] = times.map(|times| median(times).as_secs_f64() * 1e9 / f64::from(REPEATED));
    (a, b)
}

fn time<T>(mut work: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..REPEATED {
        black_box(work());
    }
    start.elapsed()
}
