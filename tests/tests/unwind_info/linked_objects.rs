//! Makes `__unwind_info` of objects as a linker does, and compares it with what ld64.lld links of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use cfipack_decoder::unwind_info as decoder;
use cfipack_encoder::unwind_info::{Layout, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::LsdaEntry;
use cfipack_format::{Arch, ImageOffset, PersonalityKey};
use cfipack_linker::unwind_info::{Addresses, Section};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::apple_sources;
use cfipack_tests::libunwind::judge;
use cfipack_tests::mach_link::Link;
use cfipack_tests::mach_object::{self, Mix};
use cfipack_tests::mach_said::{Compared, compare};
use cfipack_tests::reference::Tools;

const LD: [&str; 9] =
    ["-dylib", "-undefined", "dynamic_lookup", "-platform_version", "macos", "11.0", "11.0", "-map", "f.map"];

/// Returns the arguments of a link.
fn arguments<'a>(arch: Arch, options: &[&'a str], objects: &[&'a str]) -> Vec<&'a str> {
    let arch = if arch == Arch::Amd64 { "x86_64" } else { "arm64" };
    [&LD[..], &["-arch", arch], options, objects, &["-o", "f.dylib"]].concat()
}

/// Links objects with ld64.lld 23. Returns the image and its map.
fn link(tools: &Tools, arch: Arch, options: &[&str], objects: &[&str]) -> (Vec<u8>, String) {
    tools.run_well(&[&["ld64.lld-23"][..], &arguments(arch, options, objects)].concat());
    (tools.read("f.dylib"), String::from_utf8(tools.read("f.map")).unwrap())
}

/// Writes a section's table at these addresses, and checks the promised size. A plan uses `tentative` and `growth`.
fn write(
    section: &Section,
    addresses: &impl Addresses,
    growth: u32,
    slot_of: impl Fn(PersonalityKey) -> ImageOffset,
) -> Vec<u8> {
    let plan = section.plan(|key| addresses.function(key), growth).unwrap();
    let table = section.place(Some(&plan), None, addresses).unwrap();
    assert!(table.warnings().is_empty(), "{}", table.warnings()[0]);
    assert!(table.len() <= plan.max_len(), "{} bytes, {} planned", table.len(), plan.max_len());
    assert!(plan.max_len() <= section.max_len(), "{} planned of {}", plan.max_len(), section.max_len());
    let mut bytes = vec![0xaa; table.len()];
    table.write(&mut bytes, slot_of).unwrap();
    bytes
}

fn in_layout(link: &mut Link<'_>, layout: Layout) -> (Vec<u8>, Section) {
    let section = link.collect(Options::new().with_layout(layout));
    assert!(section.warnings().is_empty(), "{}", section.warnings()[0]);
    let bytes = write(&section, &link.output(&section), 0, |personality| link.slot_of(personality));
    (bytes, section)
}

/// Returns the table's answer for each address, without numbers of personalities.
fn meaning(bytes: &[u8]) -> BTreeMap<u32, (Encoding, Option<ImageOffset>, Option<ImageOffset>)> {
    let section = decoder::Section::parse(bytes).unwrap();
    let entry = |entry: Result<decoder::Entry, decoder::Error>| {
        let entry = entry.unwrap();
        let lsda = section.lsda(&entry).unwrap();
        let personality = section.personality(&entry).unwrap();
        (entry.start.0, (entry.encoding.with_personality(0), personality, lsda))
    };
    section.entries().map(entry).collect()
}

/// A random link: objects, options of the linker, and an order file, which the options may name.
struct RandomLink {
    arch: Arch,
    objects: Vec<(String, Vec<u8>)>,
    options: Vec<&'static str>,
    order: String,
}

impl RandomLink {
    fn new(random: &mut Random) -> Self {
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64]);
        let count = random.pick(&[1, 1, 2, 5]);
        let limit = random.pick(&[3, 600, 5000]) / count;
        let objects = ["a", "b", "c", "d", "e"][..count as usize].iter().map(|name| {
            let mix = Mix::random(random, limit.max(2));
            (format!("{name}.o"), mach_object::random(random, arch, mix, name))
        });
        let objects = objects.collect();
        let mut options = Vec::new();
        if random.chance(40) {
            options.extend(["-dead_strip", "-exported_symbol", "_f*"]);
        }
        if random.chance(30) {
            options.push("--icf=all");
        }
        // Some of the names are in no object.
        let names = random.pick(&[0, 0, 5, 60]);
        let names = (0..names).map(|_| {
            let [kept, name] = [&["f", "drop"][..], &["a", "b", "c"]].map(|parts| random.pick(parts));
            format!("_{kept}{name}{}\n", random.below(limit + 1))
        });
        let order: String = names.collect();
        if !order.is_empty() {
            options.extend(["-order_file", "order"]);
        }
        Self { arch, objects, options, order }
    }

    /// Makes a link whose functions lie around 1 GB and 2 GB. The image has holes there.
    fn far(random: &mut Random) -> Self {
        let objects = ["a", "b"].map(|name| {
            let mix = Mix { align: 1 << 30, ..Mix::random(random, 2000) };
            (format!("{name}.o"), mach_object::random(random, Arch::Amd64, mix, name))
        });
        Self { arch: Arch::Amd64, objects: objects.into(), options: Vec::new(), order: String::new() }
    }

    /// Returns the names and contents of all files that the linker reads.
    fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let objects = self.objects.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        objects.chain([("order", self.order.as_bytes())])
    }

    fn arguments(&self) -> Vec<&str> {
        let objects: Vec<_> = self.objects.iter().map(|(name, _)| name.as_str()).collect();
        arguments(self.arch, &self.options, &objects)
    }

    /// Links with ld64.lld 23. Returns the image and its map.
    fn link(&self, tools: &Tools) -> (Vec<u8>, String) {
        self.files().for_each(|(name, bytes)| tools.write(name, bytes));
        let names: Vec<_> = self.objects.iter().map(|(name, _)| name.as_str()).collect();
        link(tools, self.arch, &self.options, &names)
    }

    fn objects(&self) -> Vec<&[u8]> {
        self.objects.iter().map(|(_, bytes)| bytes.as_slice()).collect()
    }
}

/// Makes random links with `link`, which returns image and map, and compares the tables.
fn compare_random(what: &str, count: usize, link: impl Fn(&RandomLink) -> (Vec<u8>, String)) {
    let (seed, count) = cases(what, count);
    let mut random = Random::new(seed);
    let (mut with, mut entries, mut sizes) = ([0; 4], 0, [0; 2]);
    for number in 0..count {
        let case = RandomLink::new(&mut random);
        let (image, map) = link(&case);
        let mut link = Link::new(&case.objects(), &image, &map);
        let (ours, section) = in_layout(&mut link, Layout::Lld);
        let theirs = link.table();
        let count = case.objects.len();
        let case = format!("link {number}, {:?}, {count} objects, {:?}", case.arch, case.options);
        assert!(is_same(&ours, &theirs, &case), "{case}: {}", difference(&ours, &theirs));
        let (small, _) = in_layout(&mut link, Layout::Small);
        assert!(small.len() <= ours.len(), "{case}: {} bytes, lld {}", small.len(), ours.len());
        let features = ["-dead_strip", "--icf=all", "-order_file"].map(|option| case.contains(option));
        for (sum, has) in with.iter_mut().zip(features.into_iter().chain([section.personalities().len() > 1]))
        {
            *sum += u32::from(has);
        }
        if !ours.is_empty() {
            entries += decoder::Section::parse(&ours).unwrap().entries().count();
        }
        sizes = [sizes[0] + small.len(), sizes[1] + theirs.len()];
    }
    let [stripped, folded, ordered, personalities] = with;
    println!(
        "{count} links: {stripped} stripped, {folded} folded, {ordered} ordered, {personalities} with several \
         personalities; {entries} entries; [small, lld] {sizes:?} bytes"
    );
}

/// Returns whether two tables have the same bytes. If LSDAs are folded, lld's records in DWARF mode lead anywhere. No
/// reader follows them.
fn is_same(ours: &[u8], theirs: &[u8], case: &str) -> bool {
    if case.contains("--icf=all") {
        return without_dead_lsdas(ours) == without_dead_lsdas(theirs);
    }
    ours == theirs
}

/// Returns the lld of the Rust toolchain, in its directory `gcc-ld`.
fn toolchain_lld() -> PathBuf {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let print = |what: &[&str]| {
        let output = Command::new(&rustc).args(what).output().expect("rustc runs");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = print(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let root = PathBuf::from(print(&["--print", "sysroot"]).trim());
    let lld = root.join("lib/rustlib").join(host).join("bin/gcc-ld/ld64.lld");
    assert!(
        lld.exists(),
        "this test needs {}, which is a part of the Rust toolchains of rustup",
        lld.display()
    );
    lld
}

#[test]
fn random_links_through_the_toolchains_lld() {
    let lld = toolchain_lld();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("toolchain-lld");
    fs::create_dir_all(&directory).unwrap();
    compare_random("the linker's __unwind_info of random links, against the toolchain's", 60, |case| {
        case.files().for_each(|(name, bytes)| fs::write(directory.join(name), bytes).unwrap());
        let mut command = Command::new(&lld);
        let output = command.args(case.arguments()).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let [image, map] = ["f.dylib", "f.map"].map(|name| fs::read(directory.join(name)).unwrap());
        (image, String::from_utf8(map).unwrap())
    });
}

#[test]
#[ignore = "needs the reference tools"]
fn random_links_through_lld() {
    let tools = Tools::find();
    compare_random("the linker's __unwind_info of random links, against ld64.lld 23", 300, |case| {
        case.link(&tools)
    });
}

/// A link of random C, C++ and Objective-C programs by ld64.lld 23.
struct LinkedPrograms {
    objects: Vec<Vec<u8>>,
    image: Vec<u8>,
    map: String,
    /// The commands.
    case: String,
    is_changed: bool,
}

impl LinkedPrograms {
    fn new(tools: &Tools, random: &mut Random, arch: Arch) -> Self {
        let target = if arch == Arch::Amd64 { "x86_64-apple-macos11" } else { "arm64-apple-macos11" };
        let sources: Vec<_> = (0..2 + random.below(4) as usize)
            .map(|number| apple_sources::random(random, number, 40))
            .collect();
        let level = random.pick(&["-O0", "-O1", "-O2", "-Os"]);
        let mut clang = vec!["clang-23", "-target", target, level, "-fexceptions", "-w", "-c"];
        // Without this option, only two personalities have compact encodings.
        if random.chance(60) {
            clang.push("-femit-compact-unwind-non-canonical");
        }
        if random.chance(30) {
            clang.push("-fomit-frame-pointer");
        }
        for source in &sources {
            tools.write(&source.name, &source.text);
            clang.push(&source.name);
        }
        tools.run_well(&clang);
        let names: Vec<_> =
            sources.iter().map(|source| format!("{}.o", source.name.rsplit_once('.').unwrap().0)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut options = Vec::new();
        if random.chance(50) {
            options.extend(["-dead_strip", "-exported_symbol", "*keep_*"]);
        }
        if random.chance(50) {
            options.push("--icf=all");
        }
        let (image, map) = link(tools, arch, &options, &names);
        let objects = names.iter().map(|name| tools.read(name)).collect();
        let (case, is_changed) = (format!("{clang:?} {options:?}"), !options.is_empty());
        Self { objects, image, map, case, is_changed }
    }

    fn objects(&self) -> Vec<&[u8]> {
        self.objects.iter().map(Vec::as_slice).collect()
    }
}

#[test]
#[ignore = "needs the reference tools"]
fn far_functions_through_lld() {
    let tools = Tools::find();
    let case = RandomLink::far(&mut Random::new(1));
    let (image, map) = case.link(&tools);
    let mut link = Link::new(&case.objects(), &image, &map);
    let (ours, _) = in_layout(&mut link, Layout::Lld);
    let theirs = link.table();
    assert_eq!(ours, theirs, "{}", difference(&ours, &theirs));
    let last = meaning(&ours).into_keys().next_back().unwrap();
    assert!(last > 1 << 31, "{last:#x}");
}

#[test]
#[ignore = "needs the reference tools"]
fn programs_through_lld() {
    let what = "the linker's __unwind_info of random C, C++ and Objective-C programs, against ld64.lld 23";
    let tools = Tools::find();
    let (seed, count) = cases(what, 12);
    let mut random = Random::new(seed);
    let (mut totals, mut sizes) = ([0; 4], [0; 2]);
    for number in 0..count {
        let programs = LinkedPrograms::new(&tools, &mut random, [Arch::Amd64, Arch::Aarch64][number % 2]);
        let mut link = Link::new(&programs.objects(), &programs.image, &programs.map);
        let (ours, section) = in_layout(&mut link, Layout::Lld);
        let theirs = link.table();
        let case = format!("link {number}: {}", programs.case);
        assert!(is_same(&ours, &theirs, &case), "{case}: {}", difference(&ours, &theirs));
        totals[0] += decoder::Section::parse(&ours).unwrap().entries().count();
        totals[1] += section.fdes().count();
        totals[2] += usize::from(programs.is_changed);
        totals[3] += section.personalities().len();
        // The smallest table has the same answers. It has no LSDA records in DWARF mode, and folds as lld does.
        let (small, _) = in_layout(&mut link, Layout::Small);
        assert_eq!(meaning(&small), meaning(&theirs), "{case}");
        sizes = [sizes[0] + small.len(), sizes[1] + theirs.len()];
    }
    println!(
        "{what}: [entries, FDEs, stripped or folded, personalities]: {totals:?}, [small, lld] {sizes:?} bytes"
    );
}

/// LLVM's libunwind finds in our tables what the objects say about each function, and in lld's own.
#[test]
#[ignore = "needs the reference tools and CFIPACK_LIBUNWIND"]
fn libunwind_finds_what_objects_say_download() {
    let what = "what objects say about functions, by LLVM's libunwind in the linker's __unwind_info";
    let (tools, judge) = (Tools::find(), judge());
    let (seed, count) = cases(what, 40);
    let mut random = Random::new(seed);
    let mut total = Compared::default();
    let mut compare_all = |image: &[u8], map: &str, objects: &[&[u8]], case: &str| {
        let mut link = Link::new(objects, image, map);
        let mut tables: Vec<_> =
            Layout::ALL.map(|layout| (Some(layout), in_layout(&mut link, layout).0)).into();
        tables.push((None, link.table()));
        for (layout, table) in tables.into_iter().filter(|(_, table)| !table.is_empty()) {
            let found = compare(&judge, image, &table, objects);
            assert!(found.wrong.is_empty(), "{case}, {layout:?}: {}", found.wrong[0]);
            total.functions += found.functions;
            total.dwarf += found.dwarf;
            total.none += found.none;
            total.pcs += found.pcs;
        }
    };
    for number in 0..count {
        if number % 4 == 0 {
            let arch = random.pick(&[Arch::Amd64, Arch::Aarch64]);
            let programs = LinkedPrograms::new(&tools, &mut random, arch);
            compare_all(&programs.image, &programs.map, &programs.objects(), &programs.case);
            continue;
        }
        let is_far = number == 1;
        let case = if is_far { RandomLink::far(&mut random) } else { RandomLink::new(&mut random) };
        let (image, map) = case.link(&tools);
        compare_all(&image, &map, &case.objects(), &format!("link {number}: {:?}", case.options));
    }
    println!("{what}: {count} links, {total:?}");
}

/// Returns a table in which LSDAs of functions in DWARF mode are zero.
fn without_dead_lsdas(bytes: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    if bytes.is_empty() {
        return changed;
    }
    let section = decoder::Section::parse(bytes).unwrap();
    let first = section.index().next().unwrap().lsda_off as usize;
    for (lsda, at) in section.all_lsdas().unwrap().zip((first..).step_by(LsdaEntry::SIZE)) {
        let entry = section.lookup(lsda.function).unwrap().unwrap();
        if !entry.encoding.has_lsda() {
            changed[at + 4..at + 8].fill(0);
        }
    }
    changed
}

fn difference(ours: &[u8], theirs: &[u8]) -> String {
    let at = ours.iter().zip(theirs).position(|(a, b)| a != b);
    let dump = |bytes: &[u8]| {
        let mut text = String::new();
        if !bytes.is_empty() {
            decoder::Section::parse(bytes).unwrap().dump(&mut text).unwrap();
        }
        text.lines().take(60).collect::<Vec<_>>().join("\n")
    };
    let (a, b) = (dump(ours), dump(theirs));
    format!("{} bytes, lld {}, first difference at {at:x?}\n{a}\n---- lld\n{b}", ours.len(), theirs.len())
}
