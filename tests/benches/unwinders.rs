//! Measures the cost of a frame by tables and by C unwinders: libgcc's and LLVM's `_Unwind_Backtrace`, HP's libunwind
//! step by step and by `unw_backtrace` with its cache, and libdw. Each that is installed walks the same stack of this
//! process, by turns. The fastest round counts.
//!
//!     cargo bench -p cfipack-tests --bench unwinders

#![allow(unsafe_code, reason = "calls of C libraries")]
#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(unused))]

/// How often the chain of 16 functions is entered.
const CHAINS: usize = 4;
const ROUNDS: usize = 2000;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "unwinders/c.rs"]
mod c;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod measured {
    use std::collections::HashMap;
    use std::fs;
    use std::hint::black_box;
    use std::rc::Rc;
    use std::time::Instant;

    use cfipack_decoder::walk::{Cache, CacheEntry};
    use cfipack_tests::figures;

    use crate::c::{self, Unwinder};
    use crate::{CHAINS, ROUNDS};
    use cfipack_tests::profile::file::{File, Image};
    use cfipack_tests::profile::recording::{FP, Mapping, SP, Sample, Space as Mapped};
    use cfipack_tests::profile::table::ByTable;
    use cfipack_tests::profile::walk::{End, Space};

    /// A function of the chain. It calls the next one and works on after the call, so that the call is no tail call.
    macro_rules! chain {
        ($name:ident $($rest:ident)*) => {
            #[inline(never)]
            fn $name(depth: usize) -> usize {
                let room = black_box([depth; 4]);
                let next: fn(usize) -> usize = black_box(chain!(@next $($rest)*));
                next(depth) + room[depth % 4]
            }
            chain!($($rest)*);
        };
        () => {};
        (@next $next:ident $($rest:ident)*) => { $next };
        (@next) => { again };
    }

    chain!(f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15);

    #[inline(never)]
    fn again(depth: usize) -> usize {
        match depth {
            0 => black_box(bottom()),
            _ => f0(depth - 1) + 1,
        }
    }

    pub fn main() {
        again(CHAINS);
    }

    /// The innermost frame of walks by table. C unwinders start one or two frames further in, inside the functions
    /// called here.
    #[inline(never)]
    fn bottom() -> usize {
        let (pc, sp, fp): (u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp);
        }
        measure(pc, sp, fp);
        sp as usize
    }

    fn measure(pc: u64, sp: u64, fp: u64) {
        let mapped = mapped();
        let mut files: Vec<_> =
            mapped.mappings.iter().filter_map(|mapping| File::read(&mapping.path).ok()).collect();
        files.dedup_by(|a, b| a.path == b.path);
        let images: Vec<_> = files.iter_mut().filter_map(|file| file.image().ok()).collect();
        let by_path: HashMap<_, &Image<'_>> = images.iter().map(|image| (image.path, image)).collect();
        let space = Space::new(&mapped, |path| by_path.get(path).copied());
        let sample = sample(pc, sp, fp);

        let mut places = vec![CacheEntry::EMPTY; 1024];
        let (mut cache, mut frames) = (Cache::new(&mut places), Vec::new());
        let mut walk = |cache: Option<&mut Cache<'_>>| {
            let end = ByTable { cache, has_frame_pointers: true }.walk(&sample, &space, &mut frames);
            (frames.len(), end)
        };
        let (depth, end) = walk(None);
        assert_eq!((depth > 16 * CHAINS, end), (true, End::Outermost), "{depth} frames");

        let peers: Vec<_> = c::UNWINDERS.iter().map(|(name, open)| (*name, open(&sample))).collect();
        let mut least = vec![f64::INFINITY; peers.len() + 2];
        let mut depths = vec![depth; peers.len() + 2];
        for round in 0..ROUNDS {
            // libdw takes a thousand times as long, so it walks in every hundredth round.
            time(&mut least[0], &mut depths[0], || walk(None).0);
            time(&mut least[1], &mut depths[1], || walk(Some(&mut cache)).0);
            for (at, (_, peer)) in peers.iter().enumerate() {
                let Ok(Unwinder { walk, is_slow }) = peer else { continue };
                if !is_slow || round % 100 == 0 {
                    time(&mut least[at + 2], &mut depths[at + 2], walk);
                }
            }
        }
        let each: Vec<_> = least.iter().zip(&depths).map(|(time, &depth)| time / depth as f64).collect();
        println!(
            "a frame of a stack of {depth}: by table {:.1} ns, all in a cache {:.1} ns",
            each[0], each[1]
        );
        for (at, (name, peer)) in peers.iter().enumerate() {
            let time = each[at + 2];
            if let Err(error) = peer {
                println!("{name}: not measured: {error}");
                continue;
            }
            assert!(depths[at + 2].abs_diff(depth) <= 4, "{name}: {} frames of {depth}", depths[at + 2]);
            println!("  {name:<34} {time:>10.1} ns, {:.1} times the table's", time / each[0]);
            figures::nanoseconds("a chain of calls", "a frame by table", each[0], name, time);
            figures::nanoseconds("a chain of calls", "a frame by table, all in a cache", each[1], name, time);
        }
    }

    fn time(least: &mut f64, depth: &mut usize, walk: impl FnOnce() -> usize) {
        let start = Instant::now();
        *depth = black_box(walk());
        *least = least.min(start.elapsed().as_nanos() as f64);
    }

    /// Returns everything that this process has mapped for execution.
    fn mapped() -> Mapped {
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let mapping = |line: &str| {
            let mut fields = line.split_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            fields.next().filter(|flags| flags.contains('x'))?;
            let offset = number(fields.next()?)?;
            let path: Rc<str> = fields.nth(2).unwrap_or("//anon").into();
            Some(Mapping { start: number(start)?, end: number(end)?, offset, path })
        };
        Mapped { mappings: maps.lines().filter_map(mapping).collect() }
    }

    /// Copies the stack of this thread, from `sp` to its end.
    fn sample(pc: u64, sp: u64, fp: u64) -> Sample {
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let range = |line: &str| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
        };
        let stack = maps.lines().filter_map(range).find(|range| range.contains(&sp)).expect("a stack");
        // SAFETY: mapped memory of this thread, which nothing writes to above `sp`.
        let bytes = unsafe { std::slice::from_raw_parts(sp as *const u8, (stack.end - sp) as usize) };
        let mut registers = [0; 16];
        (registers[SP], registers[FP]) = (sp, fp);
        Sample { space: 0, command: "".into(), in_kernel: false, pc, registers, stack: bytes.to_vec() }
    }
}

fn main() {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    measured::main();
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    println!("benches: not measured: this is not Linux on x86-64");
}
