//! Compares every way into a section with the interpreter, on random call frame information.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::sframe::Version;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Key, SectionOffset};

use crate::cfi::{Function, Functions, Section, SectionKind};
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
use crate::eh_frame;
use crate::sframe::{At, Builder, Layout, OmittedFunction, Options, Parallel};
use crate::{Reason, Unsupported};
use cfipack_format::pool::{Pool, Serial, Task};
use cfipack_testkit::random::Random;

/// Offsets at the borders where a word becomes wider, or a ULEB128 operand longer.
const OFFSETS: [&[u8]; 9] = [
    &[0x00],
    &[0x7f],
    &[0x80, 0x01],
    &[0x88, 0x00],
    &[0xff, 0x7f],
    &[0x80, 0x80, 0x01],
    &[0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x02],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
];

/// An instruction. It is usually common, sometimes at the edge of common, and rarely malformed.
fn instruction(random: &mut Random, arch: Arch, bytes: &mut Vec<u8>) {
    let is_aarch64 = arch == Arch::Aarch64;
    let [stack, frame, link] = [arch.stack_pointer(), arch.frame_pointer(), arch.return_address()];
    let bases = [stack.0 as u8, frame.0 as u8];
    let last = if is_aarch64 { 34 } else { 17 };
    let (low, short) = (random.byte(0, 0x3f), random.byte(0, 0x7f));
    match random.below(44) {
        0..=11 => bytes.extend([0x40 | low, 0x0e, short]),
        12..=15 => bytes.push(0x40 | low),
        16 => bytes.extend([0x02, random.byte(0, 255)]),
        17 => bytes.extend([0x03, random.byte(0, 255), random.byte(0, 4)]),
        18 => bytes.extend([0x04, short, random.byte(0, 1), 0, 0]),
        19..=20 => bytes.extend([0x0e, 0x80 | short, random.byte(0, 0x7f)]),
        21..=22 => {
            bytes.push(0x0e);
            bytes.extend(random.pick(&OFFSETS));
        }
        23..=26 => bytes.extend([0x80 | random.byte(0, last), random.byte(0, 20)]),
        27 => bytes.extend([0x80 | low, short]),
        28..=29 => bytes.push(0xc0 | random.byte(0, last)),
        30 => bytes.extend([0x0d, random.pick(&bases)]),
        31 => bytes.extend([0x0c, random.pick(&bases), short]),
        32 => {
            bytes.extend([0x0c, random.byte(6, 8).max(bases[1])]);
            bytes.extend(random.pick(&OFFSETS));
        }
        33..=34 => bytes.push(0x0a),
        35..=36 => bytes.push(0x0b),
        37 => bytes.extend([0x2e, short]),
        38 => bytes.extend([0x2e, 0x80 | short, short]),
        39 => bytes.push(0),
        // A frame record, in LLVM's order or in GCC's.
        40 => {
            let (opcode, length) = random.pick(&[(0x80, 2), (0x80, 2), (0xc0, 1)]);
            let (link, frame) = ([opcode | link.0 as u8, 1], [opcode | frame.0 as u8, 2]);
            let (first, second) = random.pick(&[(link, frame), (frame, link)]);
            bytes.extend(first[..length].iter().chain(&second[..length]));
        }
        41..=42 if is_aarch64 => bytes.push(0x2d),
        41..=42 => bytes.extend([0x40 | low, 0x0e, 16, 0x86, 2]),
        _ => bytes.push(if random.below(20) == 0 { random.byte(0, 255) } else { 0 }),
    }
}

/// Instructions. Sometimes the last instruction is cut, or the number of bytes is at some limit.
fn program(random: &mut Random, arch: Arch) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(40) >> random.below(6) {
        instruction(random, arch, &mut bytes);
    }
    match random.below(8) {
        0 => bytes.truncate(random.below(bytes.len() as u64 + 1).to_usize()),
        1 => {
            let len = random.pick(&[63, 64, 65, 128, 254, 255, 256, 900, 1100]);
            while bytes.len() < len {
                instruction(random, arch, &mut bytes);
            }
            bytes.truncate(len);
        }
        // Pushes only, which are common up to 4088 bytes.
        2 => {
            let count = random.pick(&[10, 20, 30, 60, 90, 1361, 1362, 1363]);
            (0..count).for_each(|_| bytes.extend([0x41, 0x0e, random.byte(1, 0x7f)]));
        }
        _ => {}
    }
    bytes
}

/// The longest FREs, each from two bytes of instructions.
fn large_program(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::from(*b"\x0e\x80\x04\x9d\x02\x9e\x01\x04\0\0\x02\0");
    (0..random.byte(120, 165)).for_each(|_| bytes.extend([0x40 | random.byte(1, 4), 0x2d, 0x41, 0x2d]));
    bytes
}

/// Appends a record, with `padding` bytes in it and after its body. Returns where it starts.
fn record(section: &mut Vec<u8>, body: &[u8], padding: usize) -> usize {
    let at = section.len();
    section.extend(((body.len() + padding) as u32).to_le_bytes());
    section.extend(body);
    section.resize(section.len() + padding, 0);
    at
}

/// Appends a CIE. Its FDEs have PC-relative pointers of four bytes.
fn cie(random: &mut Random, arch: Arch, section: &mut Vec<u8>) -> usize {
    let is_aarch64 = arch == Arch::Aarch64;
    let mut body = Vec::from(*b"\0\0\0\0\x01");
    let augmentations: [(&[u8], &[u8]); 4] = [
        (b"zR\0", b"\x01\x1b"),
        (b"zRS\0", b"\x01\x1b"),
        (b"zLR\0", b"\x02\x1b\x1b"),
        (b"zRB\0", b"\x01\x1b"),
    ];
    let (letters, data) = augmentations[random.below(if is_aarch64 { 4 } else { 3 }).to_usize()];
    body.extend(letters);
    // Factors of 1 to 256, where 256 is too large for common functions, and of -8 or -4.
    body.extend(random.pick::<&[u8]>(&[&[1], &[1], &[4], &[4], &[0xff, 1], &[0x80, 2]]));
    body.extend([random.pick(&[0x78, 0x7c]), arch.return_address().0 as u8]);
    body.extend(data);
    let at_entry: &[u8] = if is_aarch64 { b"\x0c\x1f\x00" } else { b"\x0c\x07\x08\x90\x01" };
    body.extend(at_entry);
    if random.below(4) == 0 {
        instruction(random, arch, &mut body);
    }
    record(section, &body, random.below(9).to_usize())
}

/// An `.eh_frame` of functions 0x80000 bytes apart, with at most `max_size` bytes each. Sometimes functions
/// repeat other functions, and the section may end right after the last function.
fn eh_frame(random: &mut Random, arch: Arch, max_size: u32) -> Vec<u8> {
    let mut section = Vec::new();
    let (mut cies, mut programs) = (Vec::new(), Vec::new());
    let is_large = arch == Arch::Aarch64 && random.below(20) == 0;
    let most_cies = if is_large { 1 } else { random.pick(&[1, 1, 3, 20]) };
    for number in 0..60u32 {
        if cies.is_empty() || cies.len() < most_cies && random.below(3) == 0 {
            cies.push(cie(random, arch, &mut section));
        }
        let repeats = !programs.is_empty() && !is_large && random.below(2) == 0;
        let mut instructions: Vec<u8> = match programs.len().to_u64() {
            count if repeats => Vec::clone(&programs[random.below(count).to_usize()]),
            _ if is_large => large_program(random),
            _ => program(random, arch),
        };
        // Sometimes a function differs from another function in the last byte only.
        if let Some(byte) = instructions.last_mut().filter(|_| !is_large && random.below(6) == 0) {
            *byte ^= 1;
        }
        let at = section.len() as u32;
        let size = match random.below(20) {
            0 => 0_u32,
            1..=4 => 0x4_0000,
            5 => i32::MAX as u32,
            _ if is_large => 0x100_0000,
            _ => 1 << random.below(14) | random.below(100) as u32,
        }
        .min(max_size);
        let mut body = Vec::from((at + 4 - random.pick(&cies) as u32).to_le_bytes());
        body.extend((0x10_0000 + number * 0x8_0000 - (at + 8)).to_le_bytes());
        body.extend(size.to_le_bytes());
        // The augmentation data: none, an LSDA, or a length in two bytes.
        let lengths: [&[u8]; 4] = [&[0], &[0], &[4, 1, 2, 3, 4], &[0x80, 0]];
        body.extend(if is_large { lengths[0] } else { random.pick(&lengths) });
        body.extend(&instructions);
        programs.push(instructions);
        let is_padded = random.below(4) != 0;
        record(&mut section, &body, if is_padded { 12 - body.len() % 8 } else { 0 });
    }
    section.resize(section.len() + random.pick(&[0, 4, 64]), 0);
    section
}

/// The section of a builder, the number of functions that were given to it, and the functions that it omitted.
type Outcome = (Vec<u8>, u64, Vec<OmittedFunction>);

fn outcome<'a>(
    arch: Arch,
    options: Options,
    push: impl FnOnce(&mut Builder<'a>, &mut Vec<OmittedFunction>) -> u64,
) -> Outcome {
    let (mut builder, mut omitted) = (Builder::new(arch, options).unwrap(), Vec::new());
    let count = push(&mut builder, &mut omitted);
    (builder.finish().into_bytes(Address(0), Key::address).unwrap(), count, omitted)
}

/// Adds a section's functions one after the other.
fn each<'a>(
    section: &Section<'a>,
    omitted: &mut Vec<OmittedFunction>,
    mut push: impl FnMut(&Function<'a>) -> Result<(), Unsupported>,
) -> u64 {
    let mut count = 0;
    for function in crate::cfi::Functions::new(section) {
        omitted.extend(push(&function.unwrap()).err().map(OmittedFunction::Unsupported));
        count += 1;
    }
    count
}

fn check(section: &Section<'_>, options: Options, context: &str) {
    let arch = section.arch;
    let general = outcome(arch, options, |builder, omitted| {
        each(section, omitted, |function| {
            let pushed = builder.push_rows(function, function.size as u32);
            pushed.inspect_err(|_| builder.note_omitted(function.key, function.size))
        })
    });
    let single =
        outcome(arch, options, |builder, omitted| each(section, omitted, |function| builder.push(function)));
    assert!(single == general, "{context}: one by one");
    let together = outcome(arch, options, |builder, omitted| {
        builder.push_all(crate::cfi::Functions::new(section), |left| omitted.push(left))
    });
    assert!(together == general, "{context}: all together");
    #[cfg(feature = "std")]
    for threads in [2, 5] {
        use cfipack_format::pool::Threads;
        let threaded = outcome(arch, options, |builder, omitted| {
            builder.push_all(Parallel::new(section, &Threads(threads)), |left| omitted.push(left))
        });
        assert!(threaded == general, "{context}: on {threads} threads");
    }
}

/// Compares functions with keys, in several ways, with the same functions with addresses. The keys are neither
/// addresses nor in the order of addresses: they count down from the greatest number by the FDEs' offsets, so
/// keys are closer than the parts of a function.
fn check_keyed(section: &Section<'_>, options: Options, context: &str) -> bool {
    let functions = Functions::new(section).map(Result::unwrap);
    let starts: BTreeMap<_, _> = functions.map(|function| (function.start_field, function.key)).collect();
    let key_of =
        |field: SectionOffset| Some(Key(u64::MAX - field.0.to_u64())).filter(|_| starts.contains_key(&field));
    let address_of = |key: Key| starts[&SectionOffset((u64::MAX - key.0).to_usize())].address();
    let by_address = |left: OmittedFunction| match left {
        OmittedFunction::Unsupported(left) => {
            OmittedFunction::Unsupported(Unsupported { function: address_of(left.function).into(), ..left })
        }
        malformed => malformed,
    };
    let mut has_set_loc = false;
    let placed = outcome(section.arch, options, |builder, omitted| {
        builder.push_all(Functions::new(section), |left| omitted.push(left))
    });
    for way in 0..4 {
        let (mut builder, mut omitted) = (Builder::new(section.arch, options).unwrap(), Vec::new());
        let mut record = |left| omitted.push(by_address(left));
        let count = match way {
            0 => {
                let pushed =
                    Functions::keyed(section, key_of).map(|function| builder.push(&function.unwrap()));
                pushed
                    .map(|pushed| pushed.unwrap_or_else(|why| record(OmittedFunction::Unsupported(why))))
                    .count()
                    .to_u64()
            }
            1 => builder.push_all(Functions::keyed(section, key_of), record),
            2 => builder.push_all(Parallel::keyed(section, &Serial, key_of), record),
            _ => builder.push_all(Parallel::keyed(section, &Reversed, key_of), record),
        };
        has_set_loc |= omitted.iter().any(
            |left| matches!(left, OmittedFunction::Unsupported(why) if why.reason == Reason::PlaceUnknown),
        );
        let keyed =
            (builder.finish().into_bytes(At::on(Address(0), &Reversed), address_of).unwrap(), count, omitted);
        assert!(has_set_loc || keyed == placed, "{context}: way {way}");
    }
    !has_set_loc
}

/// A pool that runs tasks in the wrong order, and drops every third task.
struct Reversed;

impl Pool for Reversed {
    fn threads(&self) -> usize {
        3
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        let tasks = tasks.into_iter().enumerate().rev();
        tasks.filter(|(number, _)| number % 3 != 1).for_each(|(_, task)| task());
    }
}

#[test]
fn functions_with_keys_give_what_functions_with_addresses_give() {
    let mut compared = 0;
    for seed in 1..=200 {
        for arch in [Arch::Amd64, Arch::Aarch64] {
            let random = &mut Random::new(seed);
            let bytes = eh_frame(random, arch, 0x7_ffff);
            let (version, layout) = (random.pick(&[Version::V2, Version::V3]), random.pick(&Layout::ALL));
            let options =
                Options::new().with_version(version).with_layout(layout).with_share(random.below(4) != 0);
            let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), arch);
            compared +=
                u64::from(check_keyed(&section, options, &format!("seed {seed}, {arch:?}, {options:?}")));
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn every_way_gives_what_the_interpreter_makes_of_a_section() {
    for seed in 1..=300 {
        for arch in [Arch::Amd64, Arch::Aarch64] {
            let random = &mut Random::new(seed);
            let bytes = eh_frame(random, arch, u32::MAX);
            let version = random.pick(&[Version::V2, Version::V3]);
            let (share, merge_functions) = (random.below(4) != 0, random.pick(&[0, 16]));
            let options =
                Options::new().with_version(version).with_share(share).with_merge_functions(merge_functions);
            let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), arch);
            check(&section, options, &format!("seed {seed}, {arch:?}, {options:?}"));
        }
    }
}

/// The blocks of a batch reach the end of the 4 GiB that starts of 32 bits can address. Functions are refused
/// if the general path has left no room for them. Untouched parts of the 4 GiB take no memory.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn blocks_at_the_end_of_the_room_for_all() {
    let mut bytes = eh_frame::CIE.to_vec();
    // The first function is alone, because of its CIE. Two functions are too long to be common.
    let pushes = [1, 7000, 7000, 220, 220, 220, 220];
    for (count, number) in pushes.into_iter().zip(0..) {
        let pushed = (0..count).flat_map(|push| [0x41, 0x0e, 1 + (push + number) as u8 % 100]);
        let instructions: Vec<u8> = pushed.chain([0; 8]).collect();
        eh_frame::fde(&mut bytes, 0, 0x10_0000 + number * 0x1_0000, 0x1_0000, &instructions);
    }
    let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
    let mut builder = Builder::new(Arch::Amd64, Options::default()).unwrap();
    builder.reserve(1, None);
    let blocks = &mut builder.draft.entries.blocks;
    blocks.bytes = vec![0; (1 << 32) + (1 << 16)];
    blocks.end = blocks.front + u32::MAX.to_usize() - 57_300;
    let mut omitted = Vec::new();
    builder.push_all(crate::cfi::Functions::new(&section), |left| omitted.push(left));
    assert!(builder.draft.entries.blocks.starts.is_sorted());
    let refused = |left: &OmittedFunction| matches!(left, OmittedFunction::Unsupported(why) if why.reason == Reason::SectionSize);
    assert!(omitted.len() == 3 && omitted.iter().all(refused), "{omitted:?}");
}
