//! Links a program twice, from unchanged and from changed objects. At every call both links must have the same row,
//! personality and LSDA.

use cfipack_format::{Address, Arch};
use cfipack_testkit::random::{Random, assert_enough, cases};
use cfipack_tests::corpora;
use cfipack_tests::encoding_by_cfi::Judge;
use cfipack_tests::reference::Tools;

use super::edited::{edited, scratch};
use super::image::{Function, Image};
use super::programs::Program;
use super::structure::assert_same_but_rows;

/// Counts of what was compared.
#[derive(Default, Debug)]
pub struct Compared {
    pub functions: usize,
    /// Functions that have a compact encoding in the second link only.
    pub gained: usize,
    /// Calls in the functions that gained an encoding.
    pub calls: u64,
    /// Bytes of `__eh_frame`, in both links.
    pub eh_frame: [usize; 2],
    pub image: [usize; 2],
}

/// Links objects or archives.
pub fn link(tools: &Tools, arch: Arch, files: &[String], output: &str) -> (Vec<u8>, String) {
    link_with(tools, arch, &[], files, output)
}

fn link_with(
    tools: &Tools,
    arch: Arch,
    options: &[&str],
    files: &[String],
    output: &str,
) -> (Vec<u8>, String) {
    let arch = if arch == Arch::Amd64 { "x86_64" } else { "arm64" };
    let map = format!("{output}.map");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let ld = ["ld64.lld-23", "-arch", arch, "-dylib", "-all_load", "-undefined", "dynamic_lookup"];
    let ld = [&ld[..], &["-platform_version", "macos", "11.0", "11.0", "-map", &map, "-o", output]].concat();
    tools.run_well(&[&ld[..], options, &files].concat());
    (tools.read(output), String::from_utf8(tools.read(&map)).unwrap())
}

impl Compared {
    /// Compares all functions of two links.
    pub fn add(&mut self, old: &(Vec<u8>, String), new: &(Vec<u8>, String), case: &str) {
        let (old, new) = (Image::new(&old.0, &old.1), Image::new(&new.0, &new.1));
        let (functions, moved) = (old.functions(), new.functions());
        // If the second link has no section `__eh_frame`, the load commands are shorter and everything moves.
        let distance = functions.first().unwrap() - moved.first().unwrap();
        assert!(matches!(distance, 0 | 80), "{case}: {distance}");
        assert!(functions.iter().map(|address| address - distance).eq(moved), "{case}");
        self.functions += functions.len();
        let (eh_frame, address) = old.eh_frame();
        let mut judge = Judge::new(eh_frame, Address(address), old.arch);
        for &address in &functions {
            let case = format!("{case}: function at {address:#x}");
            let after = new.function(address - distance).map(|function| {
                let lsda = function.lsda.map(|lsda| Address(lsda.0 + distance));
                Function { lsda, ..function }
            });
            let (Some(before), Some(after)) = (old.function(address), &after) else {
                assert_eq!(old.function(address), after, "{case}");
                continue;
            };
            assert_eq!(before.lsda, after.lsda, "{case}");
            let Some(encoding) = after.encoding.filter(|_| before.encoding.is_none()) else {
                assert_eq!(before, *after, "{case}");
                let instructions = |image: &Image<'_>, address| {
                    let fde = image.fde(address)?;
                    Some((fde.len, fde.instructions.clone()))
                };
                assert_eq!(instructions(&old, address), instructions(&new, address - distance), "{case}");
                continue;
            };
            assert_eq!(before.personality, after.personality, "{case}");
            assert!(new.fde(address - distance).is_none(), "{case}: the linker keeps the FDE");
            let fde = old.fde(address).unwrap();
            let code = &old.code(address)[..fde.len as usize];
            let judged = judge.judge(encoding, fde.offset, code);
            self.calls += judged.unwrap_or_else(|error| panic!("{case}: {error}")).calls;
            self.gained += 1;
        }
        self.eh_frame = [self.eh_frame[0] + eh_frame.len(), self.eh_frame[1] + new.eh_frame().0.len()];
    }
}

/// Changes files in the tools' directory. Returns their new names and the number of functions that gain an encoding.
pub fn edit(tools: &Tools, files: &[String], names: impl Fn(&str) -> String) -> (Vec<String>, u64) {
    let mut gained = 0;
    let changed = files.iter().map(|file| {
        let (bytes, json) = edited(&tools.path(file));
        gained += json["gained"].as_u64().unwrap();
        tools.write(&names(file), &bytes);
        names(file)
    });
    (changed.collect(), gained)
}

/// Asserts that LLVM's readers print the same of both objects, apart from places that move.
fn assert_readable(tools: &Tools, old: &str, new: &str) {
    for options in [&["--sections", "--symbols", "--relocs"][..], &["--unwind"]] {
        let output = tools.run(&[&["llvm-readobj-23"], options, &[new]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{new}: {error}");
    }
    let output = tools.run(&["llvm-objdump-23", "--macho", "--private-headers", "--unwind-info", "-r", new]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{new}: {error}");
    let nm = |file: &str| {
        let text = tools.run_well(&["llvm-nm-23", "-a", "-p", "-m", file]);
        // Clang puts labels at the starts of sections. The label of `__compact_unwind` moves.
        let lines = text.lines().map(|line| {
            let is_moved = line.contains("(__LD,__compact_unwind)");
            if is_moved { line.get(16..).unwrap().to_owned() } else { line.to_owned() }
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(nm(old), nm(new));
}

#[test]
#[ignore = "needs the reference tools"]
fn links_of_changed_objects_unwind_alike() {
    let what = "compact-unwind: links of changed objects of random programs, by ld64.lld 23";
    let tools = Tools::find();
    let (seed, count) = cases(what, 10);
    let mut random = Random::new(seed);
    let mut total = [Compared::default(), Compared::default()];
    for number in 0..count {
        let arch = [Arch::Amd64, Arch::Aarch64][number % 2];
        let personality = (number % 3 != 0).then_some("_my_personality");
        let program = Program::compile(&tools, &mut random, arch, personality);
        let case = format!("program {number}: {arch} {:?} {personality:?}", program.options);
        let objects = program.assemble(&tools, &[], ".o");
        let (changed, gained) = edit(&tools, &objects, |name| format!("new-{name}"));
        for (old, new) in objects.iter().zip(&changed) {
            assert_same_but_rows(&tools.read(old), &tools.read(new), &format!("{case}: {old}"));
            assert_readable(&tools, old, new);
        }
        let options =
            if random.chance(40) { &["-dead_strip", "-exported_symbol", "*keep_*"][..] } else { &[] };
        let link = |files: &[String], output: &str| link_with(&tools, arch, options, files, output);
        let links = [link(&objects, "old"), link(&changed, "new")];
        let total = &mut total[number % 2];
        let before = total.gained;
        total.add(&links[0], &links[1], &case);
        total.image = [total.image[0] + links[0].0.len(), total.image[1] + links[1].0.len()];
        assert!((total.gained - before) as u64 <= gained, "{case}: {gained}");
    }
    println!("{what}: x86-64 {:?}, arm64 {:?}", total[0], total[1]);
    assert_enough(total.iter().all(|compared| compared.gained > 0 && compared.calls > 0), total);
}

/// Runs without the reference tools.
#[test]
fn unchanged_files_are_copied() {
    let directory = scratch("compact-unwind-unchanged");
    let object = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind/link");
    let bytes = corpora::decompress(&object.join("l_003_two_same.o.gz"));
    let path = directory.join("two.o");
    std::fs::write(&path, &bytes).unwrap();
    let (new, json) = edited(&path);
    assert!(new == bytes, "{json}");
    std::fs::remove_dir_all(directory).unwrap();
}
