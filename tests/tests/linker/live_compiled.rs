//! Compares `relink` with GNU `ld` on compilers' output: random C and C++ of gcc and clang, and a program with this
//! machine's C++ library.

use std::process::Command;

use cfipack_format::Arch;
use cfipack_testkit::needs;
use cfipack_testkit::random::{Case, Random, assert_enough, cases};
use cfipack_tests::directives::{TARGETS, Target};
use cfipack_tests::linkers::{LinkerKind, linkers};
use cfipack_tests::reference::Tools;

use crate::compiled::source;
use crate::live_relink::{Count, Kept, compare, linker};

/// Returns the functions that the sources call, as a shared library for any architecture.
fn library() -> String {
    let functions = "e0 e1 e4 memset __stack_chk_fail __cxa_begin_catch __cxa_end_catch __cxa_throw _Unwind_Resume \
        __cxa_allocate_exception __cxa_free_exception __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort \
        __gxx_personality_v0 __cxa_atexit _ZdlPv _ZdlPvm __cxa_pure_virtual __cxa_rethrow _ZSt9terminatev";
    let data = "e2 __stack_chk_guard _ZTIi _ZTVN10__cxxabiv117__class_type_infoE _ZTVN10__cxxabiv120__si_class_type_infoE";
    let symbols = |names: &str, kind: &str, body: &str| -> String {
        let symbol = |name: &str| {
            format!("\t.globl {name}\n\t.type {name},@{kind}\n\t.size {name},32\n{name}:\n{body}\n")
        };
        names.split_whitespace().map(symbol).collect()
    };
    let code = symbols(functions, "function", "\t.cfi_startproc\n\t.skip 32\n\t.cfi_endproc");
    format!("\t.text\n{code}\t.data\n{}", symbols(data, "object", "\t.skip 32"))
}

/// Compiles a source to assembler text, for x86-64 with this machine's gcc, else with clang of the tools.
fn compile(tools: &Tools, random: &mut Random, target: Target, name: &str, is_pic: bool) {
    let level = random.pick(&["-O0", "-O1", "-O2", "-O2", "-O3", "-Os"]);
    let mut options = vec![level, "-w", "-S", if is_pic { "-fPIC" } else { "-fno-pie" }];
    for option in [
        "-ffunction-sections",
        "-fno-omit-frame-pointer",
        "-fomit-frame-pointer",
        "-fno-plt",
        "-fstack-protector-strong",
        "-fno-asynchronous-unwind-tables",
    ] {
        if random.chance(20) {
            options.push(option);
        }
    }
    let output = format!("{}.s", name.split('.').next().unwrap());
    if target.arch == Arch::Amd64 {
        options.extend(random.chance(30).then_some("-fcf-protection"));
        let compiler = if name.ends_with(".cpp") { "g++" } else { "gcc" };
        let mut gcc = Command::new(compiler);
        gcc.args(&options).arg(tools.path(name)).arg("-o").arg(tools.path(&output));
        let output = gcc.output().expect("gcc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let compiler = if name.ends_with(".cpp") { "clang++-23" } else { "clang-23" };
    let triple = if target.arch == Arch::S390x { "s390x-linux-gnu" } else { "aarch64-linux-gnu" };
    let mut command = vec![compiler, "-target", triple, "-fno-integrated-as", name, "-o", &output];
    command.extend(options);
    tools.run_well(&command);
}

/// Links programs of a few sources in several ways.
#[test]
#[ignore = "needs the reference tools and g++"]
fn compiled_programs_are_linked_as_relink_expects() {
    let what = "relink of compiled programs";
    ["gcc", "g++"].iter().for_each(|compiler| needs::program(compiler, "g++"));
    let tools = Kept::find();
    let (seed, count) = cases(what, 1);
    let mut seeds = Random::new(seed);
    let mut sum = Count::default();
    for number in 0..count {
        let (_case, mut random) = Case::new(if number == 0 { seed } else { seeds.next() });
        for target in TARGETS {
            program(&tools, &mut random, target, &mut sum);
        }
    }
    println!("{sum:?}");
    assert_enough(sum.with_functions > 0, sum);
}

fn program(tools: &Tools, random: &mut Random, target: Target, sum: &mut Count) {
    let sources = 2 + random.below(5);
    let is_pic = random.chance(70);
    let mut script = String::from("set -e\n");
    for number in 0..sources {
        let is_cpp = random.chance(70);
        let name = format!("s{number}.{}", if is_cpp { "cpp" } else { "c" });
        tools.write(&name, source(random, number, is_cpp));
        compile(tools, random, target, &name, is_pic);
        script += &format!("{} --gsframe s{number}.s -o s{number}.o\n", target.assembler);
    }
    let linker = linker(target.arch);
    tools.write("library.s", library());
    script +=
        &format!("{} library.s -o library.o\n{linker} -shared library.o -o library.so\n", target.assembler);
    script += "rm -f last.a\nar rcs last.a s1.o\n";
    tools.run_well(&["sh", "-c", &script]);
    let kinds: &[&[&str]] = if is_pic {
        &[&["-shared"], &["-pie"], &["-shared", "--gc-sections", "-u", "f0_0"], &["-e", "f0_0"], &["-r"]]
    } else {
        &[&["-e", "f0_0"], &["-e", "f0_0", "--gc-sections"], &["-r"], &["-r", "--unique"]]
    };
    for kind in kinds {
        let objects: Vec<_> =
            (0..sources).filter(|&number| number != 1).map(|number| format!("s{number}.o")).collect();
        let mut command = vec![linker, "-Map=map", "-o", "out"];
        command.extend(*kind);
        command.extend(objects.iter().map(String::as_str));
        command.extend(["--whole-archive", "last.a", "--no-whole-archive"]);
        if !kind.contains(&"-r") {
            command.extend(["library.so", "--defsym=__dso_handle=0"]);
        }
        if random.chance(30) {
            command.extend(["-z", "now"]);
        }
        if target.arch == Arch::Amd64 && random.chance(30) {
            command.extend(["-z", "ibtplt"]);
        }
        println!("{}", command.join(" "));
        tools.run_well(&command);
        let files: Vec<_> =
            objects.iter().map(String::as_str).chain(["last.a"]).map(|name| tools.path(name)).collect();
        sum.add(&compare(&tools.read("map"), &tools.read("out"), &files));
    }
}

/// Links a C++ program with this machine's libraries, some of them archives. This machine's gcc calls `ld` 2.47.
#[test]
#[ignore = "needs the reference tools and g++"]
fn a_program_with_the_machines_libraries_is_linked_as_relink_expects() {
    const SOURCE: &str = "#include <iostream>\n#include <map>\n#include <string>\n#include <vector>\n\
        int sum(const std::map<std::string, std::vector<int>> &all) {\n\
        int sum = 0; for (auto &[name, numbers] : all) for (int n : numbers) sum += n + name.at(0); return sum; }\n\
        int main(int argc, char **argv) { try { std::map<std::string, std::vector<int>> all;\n\
        for (int i = 0; i < argc; i++) all[argv[i]].push_back(i); std::cout << sum(all); }\n\
        catch (const std::exception &e) { std::cerr << e.what(); } }\n";
    needs::program("g++", "g++");
    let tools = Kept::find();
    let linkers = linkers(&tools.path("linkers"));
    let ld = linkers.iter().find(|it| it.kind == LinkerKind::Bfd && it.is_at_least((2, 46)));
    let ld = ld.expect("the reference tools have ld 2.46 or later");
    tools.write("main.cpp", SOURCE);
    let compile = |options: &[&str]| {
        let mut gcc = Command::new("g++");
        gcc.args(options).args(["-S", "-O2", "-std=c++17", "-o"]).arg(tools.path("main.s"));
        let output = gcc.arg(tools.path("main.cpp")).output().expect("g++ runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let mut sum = Count::default();
    for (pic, options) in [
        ("-fPIE", &["-pie"][..]),
        ("-fPIE", &["-pie", "-Wl,--gc-sections", "-static-libstdc++", "-static-libgcc"]),
        ("-fno-pie", &["-no-pie", "-static-libstdc++"]),
        ("-fno-pie", &["-static"]),
        ("-fPIC", &["-shared"]),
        ("-fPIC", &["-r", "-nostdlib"]),
    ] {
        compile(&[pic, "-ffunction-sections"]);
        tools.run_well(&["as", "--gsframe", "main.s", "-o", "main.o"]);
        let [object, map, output] =
            ["main.o", "map", "out"].map(|name| tools.path(name).display().to_string());
        let map = format!("-Wl,-Map={map}");
        let mut arguments = vec![&*object, "-lstdc++", &map, "-o", &output];
        arguments.extend(options);
        let linked = ld.cc(&arguments).expect("gcc runs");
        assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
        println!("{}", options.join(" "));
        sum.add(&compare(&tools.read("map"), &tools.read("out"), &[tools.path("main.o")]));
    }
    println!("{sum:?}");
    assert_eq!(sum.identical, sum.with_functions);
}

/// Links the objects of gcc's link-time optimisation, which `-save-temps` keeps.
#[test]
#[ignore = "needs the reference tools"]
fn optimised_links_are_what_relink_expects() {
    let tools = Kept::find();
    tools.write("a.c", "int g(int, char **);\nint main(int c, char **v) { volatile char b[64]; b[0] = c; return g(c + b[0], v); }\n");
    tools.write(
        "b.c",
        "int puts(const char *);\n__attribute__((noinline)) int h(int n) { char b[100]; puts(b); return n; }\n\
         int g(int n, char **v) { puts(v[0]); return h(n) + h(n + 1); }\n",
    );
    let common = ["gcc", "-O2", "-w", "-flto", "-Wa,--gsframe"];
    tools.run_well(&[&common[..], &["-c", "a.c", "b.c"]].concat());
    let mut sum = Count::default();
    let partitions: [&[&str]; 2] = [&["-flto-partition=one"], &["-flto-partition=max"]];
    for partition in partitions {
        tools.run_well(
            &[&common[..], partition, &["-save-temps", "-Wl,-Map=map", "a.o", "b.o", "-o", "out"]].concat(),
        );
        let directory = tools.path("");
        let names = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = names.filter(|path| path.to_string_lossy().ends_with(".ltrans.o")).collect();
        // The C library's objects have no tables.
        let map = String::from_utf8(tools.read("map")).unwrap();
        let loaded = map.lines().filter_map(|line| line.strip_prefix("LOAD /"));
        files.extend(loaded.filter(|path| path.ends_with(".o")).map(|path| tools.root().join(path)));
        sum.add(&compare(map.as_bytes(), &tools.read("out"), &files));
    }
    println!("{sum:?}");
    assert_eq!((sum.identical, sum.with_functions), (2, 2));
    assert!(sum.functions >= 6, "{sum:?}");
}
