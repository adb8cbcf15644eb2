//! Compares `relink` with GNU `ld` on random programs, linked in every way.

use cfipack_format::Arch;
use cfipack_testkit::random::{Case, Random, assert_enough, cases};
use cfipack_tests::directives::{TARGETS, Target};
use cfipack_tests::reference::Tools;

use crate::programs::{Program, external};
use cfipack_tests::relink::{self, map::Map, output::Linked, table::Report};

/// Counts of links, by their results.
#[derive(Debug, Default)]
pub struct Count {
    pub identical: usize,
    /// Links whose tables have functions.
    pub with_functions: usize,
    /// Links with a row that is known to be wrong in `ld`'s table.
    pub excused: usize,
    /// Links with functions whose rows mean nothing. `ld` copies them.
    pub malformed: usize,
    pub functions: usize,
}

impl Count {
    /// Counts a link. Its tables must be identical, or the report must say why not.
    pub fn add(&mut self, report: &Report) {
        let says = |what: &str| report.notes.iter().any(|note| note.contains(what));
        self.excused += usize::from(says(".plt.got"));
        if says("means nothing") {
            self.malformed += 1;
            return;
        }
        if let Some(difference) = &report.difference {
            panic!("{difference}\n{}", report.notes.join("\n"));
        }
        self.identical += 1;
        self.with_functions += usize::from(report.functions != 0);
        self.functions += report.functions;
    }
}

/// The tools. If `CFIPACK_KEEP` is set, their working directory stays after a failure.
pub struct Kept(Option<Tools>);

impl Kept {
    /// Returns the tools. Panics without them.
    pub fn find() -> Self {
        Self(Some(Tools::find()))
    }
}

impl std::ops::Deref for Kept {
    type Target = Tools;

    fn deref(&self) -> &Tools {
        self.0.as_ref().expect("they are there until they are dropped")
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("CFIPACK_KEEP").is_some() {
            println!("files are kept in {}", self.path("").display());
            std::mem::forget(self.0.take());
        }
    }
}

/// Compares the files that a link in the working directory has written.
pub fn compare(map: &[u8], output: &[u8], files: &[std::path::PathBuf]) -> Report {
    let map = Map::parse(std::str::from_utf8(map).expect("a map in UTF-8")).expect("a map");
    let objects = relink::files::read(&map, files).expect("the files that the map names");
    let linked = Linked::parse(output).expect("an ELF file");
    relink::table::compare(&map, &objects, &linked).expect("a table")
}

/// Returns the name of GNU `ld` for an architecture.
pub fn linker(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "ld",
        Arch::Aarch64 => "aarch64-linux-gnu-ld",
        _ => "s390x-linux-gnu-ld",
    }
}

/// Assembles all objects, and makes the archives and the shared library, in one run of a shell.
fn assemble(tools: &Tools, program: &Program) {
    let Target { arch, assembler, .. } = program.target;
    let mut script = String::from("set -e\n");
    for directory in ["d0", "d1", "d2", "a0", "a1"] {
        std::fs::create_dir_all(tools.path(directory)).unwrap();
    }
    for object in &program.objects {
        let (path, option) = (&object.path, if object.has_table { "--gsframe" } else { "--gsframe=no" });
        tools.write(&format!("{path}.s"), &object.text);
        script += &format!("{assembler} {option} {path}.s -o {path}.o\n");
    }
    for archive in 0..program.archives {
        let members = program.objects.iter().filter(|object| object.archive == Some(archive));
        let members: Vec<_> = members.map(|object| format!("{}.o", object.path)).collect();
        script += &format!("rm -f lib{archive}.a\nar rcs lib{archive}.a {}\n", members.join(" "));
    }
    tools.write("external.s", external(arch));
    let linker = linker(arch);
    script += &format!("{assembler} external.s -o external.o\n{linker} -shared external.o -o libe.so\n");
    tools.run_well(&["sh", "-c", &script]);
}

/// Makes a random command line, without the linker's name.
fn command(random: &mut Random, program: &Program) -> Vec<String> {
    let kind = random.below(6);
    let mut command: Vec<String> = match kind {
        0 | 1 => vec!["-e".into(), "g0".into()],
        2 => vec!["-pie".into(), "-e".into(), "g0".into()],
        3 | 4 => vec!["-shared".into()],
        _ => vec!["-r".into()],
    };
    let is_relocatable = kind == 5;
    let pick = |random: &mut Random, options: &[&str]| -> Vec<String> {
        random.pick(&[options]).iter().map(|&option| option.into()).collect()
    };
    let mut options: Vec<&[&str]> = vec![&["--build-id"], &["-x"], &["--sort-section=name"], &["-s"]];
    if is_relocatable {
        options = vec![&["--unique=.text*"], &["-x"], &["-d"], &["--unique"]];
    } else {
        options.extend::<[&[&str]; 12]>([
            &["--gc-sections", "--undefined=root0", "--undefined=root1"],
            &["--gc-sections", "--undefined=root2"],
            &["-z", "now"],
            &["--relax"],
            &["--no-relax"],
            &["--section-start=.text=0x500000"],
            &["--section-start=mycode=0x8000000", "--section-start=early=0x6000000"],
            &["-z", "separate-code"],
            &["-z", "noseparate-code"],
            &["-Bsymbolic"],
            &["--hash-style=both"],
            &["--sort-section=alignment"],
        ]);
        match program.target.arch {
            Arch::Amd64 => options.extend::<[&[&str]; 2]>([&["-z", "ibtplt"], &["-z", "ibt"]]),
            Arch::Aarch64 => options.extend::<[&[&str]; 3]>([
                &["-z", "force-bti"],
                &["-z", "pac-plt"],
                &["--section-start=mycode=0x10000000"],
            ]),
            _ => {}
        }
    }
    for _ in 0..random.below(4) {
        let choice = random.below(options.len() as u64) as usize;
        let chosen = pick(random, options.swap_remove(choice));
        command.extend(chosen);
    }
    if !is_relocatable {
        command.push("--defsym=__gxx_personality_v0=0".into());
    }
    let mut files: Vec<String> = program
        .objects
        .iter()
        .filter(|object| object.archive.is_none())
        .map(|object| format!("{}.o", object.path))
        .collect();
    let archives: Vec<_> = (0..program.archives).map(|archive| format!("lib{archive}.a")).collect();
    match random.below(3) {
        0 => {
            files.push("--whole-archive".into());
            files.extend(archives);
            files.push("--no-whole-archive".into());
        }
        1 => {
            // Archives are given before the last object, and again at the end.
            files.splice(files.len() - 1..files.len() - 1, archives.clone());
            files.push("--start-group".into());
            files.extend(archives);
            files.push("--end-group".into());
        }
        _ => {
            files.push("--start-group".into());
            files.extend(archives);
            files.push("--end-group".into());
        }
    }
    command.extend(files);
    if !is_relocatable {
        command.push("libe.so".into());
    }
    command
}

/// Links a program by a command, and compares the table.
fn link(tools: &Tools, program: &Program, command: &[String]) -> Report {
    let linker = linker(program.target.arch);
    let mut whole = vec![linker, "-Map=map", "-o", "out"];
    whole.extend(command.iter().map(String::as_str));
    tools.run_well(&whole);
    let objects = program.objects.iter().map(|object| format!("{}.o", object.path));
    let archives = (0..program.archives).map(|archive| format!("lib{archive}.a"));
    let files: Vec<_> = objects.chain(archives).map(|name| tools.path(&name)).collect();
    compare(&tools.read("map"), &tools.read("out"), &files)
}

/// Links all objects into relocatable output, which is then the only object of a library.
fn link_again(tools: &Tools, program: &Program) -> Report {
    let linker = linker(program.target.arch);
    let objects: Vec<_> = program.objects.iter().map(|object| format!("{}.o", object.path)).collect();
    let mut first = vec![linker, "-r", "-o", "whole.o"];
    first.extend(objects.iter().map(String::as_str));
    tools.run_well(&first);
    let personality = "--defsym=__gxx_personality_v0=0";
    tools.run_well(&[linker, "-Map=map", "-o", "out", "-shared", personality, "whole.o"]);
    compare(&tools.read("map"), &tools.read("out"), &[tools.path("whole.o")])
}

/// Links each random program in several ways, on each architecture.
#[test]
#[ignore = "needs the reference tools"]
fn random_programs_are_linked_as_relink_expects() {
    const LINKS: usize = 3;
    let what = "relink of random programs";
    let tools = Kept::find();
    let (seed, count) = cases(what, 4);
    let mut seeds = Random::new(seed);
    let (mut sum, mut again) = (Count::default(), Count::default());
    for number in 0..count {
        let (_case, mut random) = Case::new(if number == 0 { seed } else { seeds.next() });
        for target in TARGETS {
            let program = Program::random(&mut random, target);
            assemble(&tools, &program);
            for _ in 0..LINKS {
                let command = command(&mut random, &program);
                println!("{}", command.join(" "));
                sum.add(&link(&tools, &program, &command));
            }
            again.add(&link_again(&tools, &program));
        }
    }
    println!("{sum:?}; again: {again:?}");
    assert!(sum.identical >= sum.malformed);
    assert_enough(sum.with_functions > 0, sum);
}

/// In these links `ld` treats tables, relocations or PLTs in its own way. relink must name it, and expect the rest.
#[test]
#[ignore = "needs the reference tools"]
fn unusual_links_are_what_relink_expects() {
    let what = "relink of unusual links";
    let tools = Kept::find();
    let (seed, count) = cases(what, 1);
    let mut random = Random::new(seed);
    // One link sets an address in relocatable output. One has a script that discards the table.
    tools.write(
        "address.ld",
        "SECTIONS { . = 0x10000; .text : { *(.text .text.*) } .sframe : { *(.sframe) } }",
    );
    tools.write(
        "discard.ld",
        "SECTIONS { . = 0x10000; .text : { *(.text .text.*) } /DISCARD/ : { *(.sframe) } }",
    );
    let ways: [(&[&str], Option<&str>); 9] = [
        (&["-r", "-T", "address.ld"], None),
        (
            &["--gc-sections", "-u", "root0", "-e", "g0", "-T", "discard.ld"],
            Some("the linker script discards"),
        ),
        (&["-e", "g0", "--discard-sframe"], Some("--discard-sframe")),
        (&["-r", "--discard-sframe"], Some("--discard-sframe")),
        (&["--gc-sections", "-u", "root0", "-e", "g0", "--discard-sframe"], Some("--discard-sframe")),
        (&["-r", "--gc-sections", "-u", "root0", "-e", "g0", "--discard-sframe"], Some("--discard-sframe")),
        (&["-e", "g0", "--emit-relocs", "--discard-sframe"], Some("--discard-sframe")),
        (&["-e", "g0", "--emit-relocs"], Some("--emit-relocs")),
        (&["-pie", "-e", "g0", "--unresolved-symbols=ignore-all"], Some("are zeros")),
    ];
    let mut notes = [0; 9];
    let mut sum = Count::default();
    for _ in 0..4 * count {
        for target in TARGETS {
            let program = Program::random(&mut random, target);
            assemble(&tools, &program);
            for (number, (options, note)) in ways.iter().enumerate() {
                let mut command: Vec<String> = options.iter().map(|&option| option.into()).collect();
                let objects = program.objects.iter().filter(|object| object.archive.is_none());
                command.extend(objects.map(|object| format!("{}.o", object.path)));
                if !command.contains(&"-r".into()) {
                    command.push("--defsym=__gxx_personality_v0=0".into());
                    command.push("--unresolved-symbols=ignore-all".into());
                }
                println!("{}", command.join(" "));
                let report = link(&tools, &program, &command);
                sum.add(&report);
                let said = note.is_some_and(|note| report.notes.iter().any(|said| said.contains(note)));
                notes[number] += usize::from(said || note.is_none());
            }
        }
    }
    println!("{sum:?} {notes:?}");
    assert_enough(notes.iter().all(|&count| count > 0), notes);
}
