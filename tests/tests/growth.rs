//! Asserts that the cost of hostile input grows no faster than the input. Each shape is measured at three sizes, each
//! twice the previous one: instructions and memory.
//!
//! callgrind counts the instructions of a process of this program, which marks where the work on a shape ends. An
//! allocator counts memory; that test runs without valgrind too. No clock is read.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use cfipack_testkit::needs;
use cfipack_tests::hostile::{
    CFI, CODE, FILES, FUNCTIONS_TOGETHER, Input, LINKED, LINKS, LONG, MACH_OBJECTS, OVERLAPPING_NAMES,
    PAGE_TABLES, REGIONS, Shape, TABLES, follow_long,
};

/// Parts of the smallest input.
const PARTS: usize = 128;

/// How many times as much a doubled input may cost. Sorting costs a little more than twice as much.
const GROWTH: f64 = 2.3;

/// The most instructions per byte of input. This finds work that is linear but far too much.
const INSTRUCTIONS_PER_BYTE: f64 = 30_000.0;

/// The most bytes of memory per byte of input, in addition to [`ROOM`].
const MEMORY_PER_BYTE: f64 = 200.0;

/// Memory that any input may use: gimli's rows alone take 150 KB.
const ROOM: usize = 1 << 19;

/// Returns all shapes with the names of their kinds.
fn shapes() -> impl Iterator<Item = (String, &'static Shape)> {
    let kinds = [
        ("cfi", CFI),
        ("tables", TABLES),
        ("page table", PAGE_TABLES),
        ("Mach-O objects", MACH_OBJECTS),
        ("file", FILES),
        ("linked file", LINKED),
        ("link", LINKS),
        ("overlapping names", OVERLAPPING_NAMES),
        ("functions of a region", REGIONS),
        ("code", CODE),
        ("functions together", FUNCTIONS_TOGETHER),
    ];
    kinds
        .into_iter()
        .flat_map(|(kind, shapes)| shapes.iter().map(move |shape| (format!("{kind}: {}", shape.0), shape)))
}

/// The system's allocator, with a count of bytes.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: as of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    // The kernel provides zeroed memory when it is touched. Here it counts at once.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: as of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }
}

/// Sends a request to callgrind, which recognizes these instructions. Without callgrind they do nothing.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn request(number: u64, argument: *const u8) {
    let arguments = [number, argument as u64, 0, 0, 0, 0];
    // SAFETY: the rotations of `rdi` by 128 bits in all leave it as it was, and `rbx` is exchanged with itself.
    // Valgrind reads the arguments, and the string that one of them points to, and writes `rdx`.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_u64 => _,
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn request(_: u64, _: *const u8) {}

/// Numbers of callgrind's requests, from its manual and its public header.
const ZERO_STATS: u64 = 0x4354_0001;
const DUMP_STATS_AT: u64 = 0x4354_0003;

/// Runs `work` on an input between marks for callgrind. Returns its cost, but not its instructions.
fn measured(name: &str, input: &Input) -> Cost {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    request(ZERO_STATS, std::ptr::null());
    input.work();
    request(DUMP_STATS_AT, format!("{name}\0").as_ptr());
    Cost { bytes: input.len(), memory: PEAK.load(Relaxed) - before, instructions: None }
}

/// Returns the costs of each shape at the three sizes.
fn all_measured() -> Vec<[Cost; 3]> {
    let of_shape = |(number, (_, shape)): (usize, (String, &Shape))| {
        [0, 1, 2].map(|size| measured(&format!("{number}.{size}"), &shape.1(PARTS << size)))
    };
    shapes().enumerate().map(of_shape).collect()
}

/// The cost of an input.
#[derive(Clone, Copy, Default, Debug)]
struct Cost {
    bytes: usize,
    memory: usize,
    instructions: Option<u64>,
}

/// Both tests use one allocator, so they must take turns.
static COUNTED_MEMORY: Mutex<()> = Mutex::new(());

#[test]
fn hostile_input_takes_memory_in_proportion() {
    let _alone = COUNTED_MEMORY.lock();
    judge(&all_measured());
}

/// A function of a million bytes. Each shape has as many instructions, branches or calls as fit.
#[test]
fn a_long_function_takes_little_memory() {
    let _alone = COUNTED_MEMORY.lock();
    let faults: Vec<_> = LONG
        .iter()
        .filter_map(|(name, arch, piece, limit)| {
            let bytes = piece.repeat((1 << 20) / piece.len());
            let before = NOW.load(Relaxed);
            PEAK.store(before, Relaxed);
            follow_long(*arch, &bytes);
            let memory = PEAK.load(Relaxed) - before;
            println!("{name}: {:.2} bytes of memory per byte", memory as f64 / bytes.len() as f64);
            (memory > ROOM + limit * bytes.len()).then(|| format!("{name}: {memory}"))
        })
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
}

/// With this variable a process of this program measures for callgrind.
const COUNTED: &str = "CFIPACK_GROWTH_COUNTED";

#[test]
#[ignore = "needs valgrind"]
fn hostile_input_costs_in_proportion_slow() {
    if std::env::var_os(COUNTED).is_some() {
        for (number, costs) in all_measured().iter().enumerate() {
            for (size, Cost { bytes, memory, .. }) in costs.iter().enumerate() {
                println!("\nMEASURED {number}.{size} {bytes} {memory}");
            }
        }
        return;
    }
    let _alone = COUNTED_MEMORY.lock();
    needs::program("valgrind", "valgrind");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("growth");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=counted"]).arg(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "hostile_input_costs_in_proportion_slow",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let output = command.env(COUNTED, "1").current_dir(&directory).output().unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output_text}\n{}", String::from_utf8_lossy(&output.stderr));
    let mut costs = BTreeMap::new();
    for line in output_text.lines().filter_map(|line| line.strip_prefix("MEASURED ")) {
        let [name, bytes, memory] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (bytes, memory) = (bytes.parse().unwrap(), memory.parse().unwrap());
        costs.insert(name.to_owned(), Cost { bytes, memory, instructions: None });
    }
    read_counts(&directory, &mut costs);
    let count = shapes().count();
    assert!(costs.len() == 3 * count && costs.values().all(|cost| cost.instructions.is_some()), "{costs:?}");
    let of_shape = |number| [0, 1, 2].map(|size| costs[&format!("{number}.{size}")]);
    judge(&(0..count).map(of_shape).collect::<Vec<_>>());
}

/// Fails if a shape costs too much.
fn judge(all: &[[Cost; 3]]) {
    let mut faults = Vec::new();
    for ((name, _), costs) in shapes().zip(all) {
        println!("{name}: {}", costs.map(|cost| format!("{cost:?}")).join(", "));
        faults.extend(fault(costs).map(|fault| format!("{name}: {fault}: {costs:#?}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Reads callgrind's counts from its files: `desc: Trigger: Client Request: NAME`, `totals: N`.
fn read_counts(directory: &Path, costs: &mut BTreeMap<String, Cost>) {
    for file in fs::read_dir(directory).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let name = text.lines().find_map(|line| line.strip_prefix("desc: Trigger: Client Request: "));
        let Some(cost) = name.and_then(|name| costs.get_mut(name)) else { continue };
        let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
        cost.instructions = total.map(|total| total.trim().parse().unwrap());
    }
}

/// Returns which cost is too high, if any.
fn fault(costs: &[Cost; 3]) -> Option<&'static str> {
    let largest = costs[2];
    if largest.memory > ROOM && largest.memory as f64 > MEMORY_PER_BYTE * largest.bytes as f64 {
        return Some("more memory than an input may take");
    }
    let grows = |of: &dyn Fn(&Cost) -> f64| {
        costs.windows(2).any(|pair| {
            let bytes = pair[1].bytes as f64 / pair[0].bytes as f64;
            of(&pair[1]) > of(&pair[0]) * bytes * GROWTH / 2.0
        })
    };
    if grows(&|cost| cost.memory.max(ROOM) as f64) {
        return Some("memory grows faster than the input");
    }
    let instructions = |cost: &Cost| cost.instructions.map_or(0.0, |count| count as f64);
    if grows(&instructions) {
        return Some("instructions grow faster than the input");
    }
    let is_too_much = instructions(&largest) > INSTRUCTIONS_PER_BYTE * largest.bytes as f64;
    is_too_much.then_some("more instructions than an input may take")
}
