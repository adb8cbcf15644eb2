//! Embeds tables in objects of gcc and clang, and links them with every linker that is there.

use std::path::Path;
use std::process::Command;

use cfipack_container::{File, Kind};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::Options;
use cfipack_format::Arch;
use cfipack_roundtrip::{Options as VerifyOptions, Table, verify};
use cfipack_testkit::needs;
use cfipack_tests::convert::{all_options, cfi_of};
use cfipack_tests::embedded_objects::{embed, embedded, embedded_archive, stripped};
use cfipack_tests::linkers::{Linker, LinkerKind, linkers};
use cfipack_tests::reference::Tools;
use object::{Object as _, ObjectSection as _};

use crate::seen::assert_only_table_added;

/// Two C++ sources that share functions in COMDAT groups, and a third source in C.
const SOURCES: [(&str, &str); 3] = [
    (
        "one.cpp",
        "#include <map>\n#include <string>\n#include <vector>\n\
         template <class T> struct Twice { std::vector<T> all; T sum(); virtual ~Twice() {} };\n\
         template <class T> T Twice<T>::sum() { T s = 0; for (T &x : all) s += 2 * x; if (s > 100) throw s; return s; }\n\
         int other(int); extern \"C\" int third(int, ...);\n\
         static thread_local std::map<std::string, int> counts;\n\
         struct Guard { int &n; ~Guard() { n++; } };\n\
         int main() { int n = 0; try { Guard guard{n}; Twice<int> t; t.all = {1, 2, 200}; t.sum(); }\n\
         catch (int s) { n += s; } counts[\"x\"] = other(3);\n\
         return n == 407 && counts[\"x\"] == 12 && third(3, 1, 2, 3) == 6 ? 0 : 1; }\n",
    ),
    (
        "two.cpp",
        "#include <vector>\n\
         template <class T> struct Twice { std::vector<T> all; T sum(); virtual ~Twice() {} };\n\
         template <class T> T Twice<T>::sum() { T s = 0; for (T &x : all) s += 2 * x; if (s > 100) throw s; return s; }\n\
         int other(int n) { Twice<int> t; for (int i = 1; i <= n; i++) t.all.push_back(i); return t.sum(); }\n\
         int unused(int n) { Twice<long> t; t.all.push_back(n); return t.sum(); }\n",
    ),
    (
        "three.c",
        "#include <stdarg.h>\n#include <string.h>\n#include <alloca.h>\n\
         static __attribute__((noinline)) int add(int a, int b) { return a + b; }\n\
         int third(int n, ...) { va_list l; va_start(l, n); int *p = alloca(n * sizeof *p), s = 0;\n\
         for (int i = 0; i < n; i++) p[i] = va_arg(l, int); for (int i = 0; i < n; i++) s = add(s, p[i]);\n\
         va_end(l); return s; }\n",
    ),
];

/// Ways to compile: the C compiler with options.
const COMPILERS: [(&str, &[&str]); 6] = [
    ("gcc", &["-O2", "-fPIE"]),
    ("gcc", &["-O1", "-fPIE", "-ffunction-sections", "-fdata-sections", "-g"]),
    ("gcc", &["-O0", "-fPIE", "-flto", "-ffat-lto-objects"]),
    ("clang", &["-O2", "-fPIE"]),
    ("clang", &["-O1", "-fPIE", "-ffunction-sections", "-fno-omit-frame-pointer", "-g"]),
    ("clang", &["-O2", "-fPIE", "-gz", "-faddrsig"]),
];

fn compile(directory: &Path, compiler: &str, options: &[&str]) -> Vec<Vec<u8>> {
    let mut objects = Vec::new();
    for (name, source) in SOURCES {
        let path = directory.join(name);
        std::fs::write(&path, source).unwrap();
        let compiler = match (name.ends_with(".cpp"), compiler) {
            (true, "gcc") => "g++",
            (true, _) => "clang++",
            (false, compiler) => compiler,
        };
        let mut command = Command::new(compiler);
        command.args(options).arg("-c").arg(&path).arg("-o").arg(directory.join("out.o"));
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        objects.push(std::fs::read(directory.join("out.o")).unwrap());
    }
    objects
}

#[test]
#[ignore = "needs the reference tools, g++ and clang"]
fn compiled_objects_link_and_run() {
    for (compiler, package) in [("g++", "g++"), ("clang++", "clang")] {
        needs::program(compiler, package);
    }
    let tools = Tools::find();
    let directory = tools.path("");
    let linkers = linkers(&tools.path("linkers"));
    let mut verified = 0;
    for (compiler, options) in COMPILERS {
        let objects = compile(&directory, compiler, options);
        for table in all_options() {
            let name = format!("{compiler} {options:?} {table:?}");
            let mut paths = Vec::new();
            for (number, object) in objects.iter().enumerate() {
                let new = embedded(object, table);
                assert_only_table_added(&name, object, &new);
                assert!(embed(&new, table).unwrap().unwrap().is_unchanged(&new), "{name}: twice");
                assert!(stripped(&new) == *object, "{name}: removed again");
                let file = format!("{number}.o");
                tools.write(&file, &new);
                for command in [&["readelf", "-aW", "--sframe", &file][..], &["objdump", "-drx", &file]] {
                    let output = tools.run(command);
                    let complaints = String::from_utf8_lossy(&output.stderr);
                    let complaints: Vec<_> =
                        complaints.lines().filter(|line| !line.contains(".gnu.debuglto_")).collect();
                    assert!(output.status.success() && complaints.is_empty(), "{name}: {complaints:?}");
                }
                paths.push(tools.path(&file).display().to_string());
            }
            for linker in &linkers {
                relink(linker, &name, &objects, table, &tools);
                verified += usize::from(link(linker, &name, &paths, &tools));
            }
        }
    }
    assert!(verified > 0);
}

/// Links several objects into one (`-r`), and embeds a table in it.
fn relink(linker: &Linker, name: &str, objects: &[Vec<u8>], table: Options, tools: &Tools) {
    let mut arguments = vec!["-r".to_owned(), "-o".to_owned(), tools.path("r.o").display().to_string()];
    for (number, object) in objects.iter().enumerate() {
        let file = format!("r{number}.o");
        tools.write(&file, object);
        arguments.push(tools.path(&file).display().to_string());
    }
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let output = linker.ld(&arguments).expect("the linker runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let object = tools.read("r.o");
    let name = format!("{}: -r: {name}", linker.name);
    let new = embedded(&object, table);
    assert_only_table_added(&name, &object, &new);
    assert!(stripped(&new) == object, "{name}: removed again");
}

/// Links and runs a program. Returns whether its table was verified.
fn link(linker: &Linker, name: &str, objects: &[String], tools: &Tools) -> bool {
    let name = format!("{}: {name}", linker.name);
    let program = tools.path("program").display().to_string();
    let mut arguments: Vec<_> = objects.iter().map(String::as_str).collect();
    // gcc would compile an object again if it also has intermediate code; `-fno-lto` prevents that.
    arguments.extend(["-pie", "-fno-lto", "-lstdc++", "-o", &program]);
    if linker.kind != LinkerKind::Wild {
        arguments.push("-Wl,--gc-sections");
    }
    let output = linker.cc(&arguments).expect("cc runs");
    let complaints = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && matches!(linker.kind, LinkerKind::Gold | LinkerKind::Lld) {
        // These linkers cannot drop functions of discarded groups from a table. That is a reason for `strip`.
        assert!(complaints.contains("discarded section"), "{name}: {complaints}");
        return false;
    }
    assert!(output.status.success(), "{name}: {complaints}");
    let status = Command::new(&program).status().expect("the program runs");
    assert!(status.success(), "{name}: {status}");
    let is_merger = match linker.kind {
        LinkerKind::Bfd => linker.is_at_least((2, 46)),
        LinkerKind::Mold => linker.name.split(' ').nth(1).is_some_and(|version| version >= "3"),
        _ => false,
    };
    if linker.kind == LinkerKind::Bfd {
        assert_no_overlap(&name, &std::fs::read(&program).unwrap());
    }
    // mold and ld 2.46 only merge version 3.
    if !is_merger || name.contains("version: V2") {
        return false;
    }
    verify_linked(&name, &std::fs::read(&program).unwrap(), &complaints)
}

/// GNU `ld` reserves as many bytes as its inputs have, then writes a merged table of any length. It must not overlap.
fn assert_no_overlap(name: &str, bytes: &[u8]) {
    let file = object::File::parse(bytes).unwrap();
    let mut ranges: Vec<_> = file.sections().filter_map(|section| section.file_range()).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{name}: {pair:x?} overlap");
    }
}

/// Verifies the table of a linked file against its CFI. Returns whether there is one.
fn verify_linked(name: &str, bytes: &[u8], complaints: &str) -> bool {
    let file = File::parse(bytes).unwrap();
    assert_eq!(file.kind(), Kind::Linked);
    let tables = file.sframe_sections().unwrap();
    let tables: Vec<_> = tables.iter().map(|it| Section::parse(&it.bytes, it.address).unwrap()).collect();
    let [table] = &tables[..] else { panic!("{name}: {} tables; {complaints}", tables.len()) };
    assert!(table.num_functions() >= 5, "{name}: {} functions", table.num_functions());
    let sections = file.call_frame_sections().unwrap();
    let report = verify(&cfi_of(&sections), &Table::new(&tables), &VerifyOptions::default());
    assert!(report.is_true(), "{name}: {:?}", report.differences);
    true
}

/// Tests clang 23 and other architectures, whose programs do not run here.
#[test]
#[ignore = "needs the reference tools"]
fn objects_of_other_machines_link_with_true_tables() {
    let tools = Tools::find();
    let targets = [
        (Arch::Amd64, "x86_64-linux-gnu", "ld", &[][..]),
        (Arch::Aarch64, "aarch64-linux-gnu", "aarch64-linux-gnu-ld", &[][..]),
        (Arch::Aarch64Be, "aarch64_be-linux-gnu", "aarch64-linux-gnu-ld", &["-EB"][..]),
        (Arch::S390x, "s390x-linux-gnu", "s390x-linux-gnu-ld", &[][..]),
    ];
    let source = SOURCES[2].1.replace("#include <alloca.h>", "#define alloca __builtin_alloca");
    let source = source.replace("#include <string.h>", "").replace("#include <stdarg.h>", "#define va_list __builtin_va_list\n#define va_start __builtin_va_start\n#define va_arg __builtin_va_arg\n#define va_end __builtin_va_end");
    tools.write("c.c", source);
    for (arch, triple, ld, linker_options) in targets {
        for options in [
            &["-O2"][..],
            &["-O1", "-ffunction-sections", "-fno-omit-frame-pointer"],
            &["-O2", "-flto", "-ffat-lto-objects"],
        ] {
            let compile =
                ["clang-23", "-target", triple, "-fPIC", "-funwind-tables", "-c", "c.c", "-o", "c.o"];
            tools.run_well(&[&compile, options].concat());
            let object = tools.read("c.o");
            for table in all_options() {
                let name = format!("{arch:?} {options:?} {table:?}");
                let Ok(Some(new)) = embed(&object, table) else {
                    // s390x only has version 3.
                    assert!(arch == Arch::S390x, "{name}");
                    continue;
                };
                let new = new.to_vec(&object);
                assert_only_table_added(&name, &object, &new);
                assert!(stripped(&new) == object, "{name}: removed again");
                tools.write("new.o", &new);
                let link = [&[ld], linker_options, &["-shared", "new.o", "-o", "new.so"]].concat();
                let output = tools.run(&link);
                assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
                if !name.contains("version: V2") {
                    verify_small(&name, &tools.read("new.so"));
                }
            }
        }
    }
}

fn verify_small(name: &str, bytes: &[u8]) {
    let file = File::parse(bytes).unwrap();
    let tables = file.sframe_sections().unwrap();
    let tables: Vec<_> = tables.iter().map(|it| Section::parse(&it.bytes, it.address).unwrap()).collect();
    assert_eq!(tables.iter().map(Section::num_functions).sum::<usize>(), 2, "{name}");
    let sections = file.call_frame_sections().unwrap();
    let report = verify(&cfi_of(&sections), &Table::new(&tables), &VerifyOptions::default());
    assert!(report.is_true(), "{name}: {:?}", report.differences);
}

/// Links a program in which every function comes from an object with an embedded table.
#[test]
#[ignore = "needs the reference tools and g++"]
fn a_static_program_of_embedded_libraries_has_a_true_table() {
    needs::program("g++", "g++");
    let tools = Tools::find();
    let linkers = linkers(&tools.path("linkers"));
    let ld = linkers.iter().find(|it| it.kind == LinkerKind::Bfd && it.is_at_least((2, 46)));
    let ld = ld.expect("the reference tools have ld 2.46 or later");
    for library in ["libc.a", "libm.a", "libstdc++.a", "libgcc.a", "libgcc_eh.a"] {
        let output = Command::new("g++").arg(format!("-print-file-name={library}")).output().unwrap();
        let path = String::from_utf8(output.stdout).unwrap();
        let bytes = std::fs::read(path.trim()).unwrap_or_else(|error| panic!("{library}: {error}"));
        // libm.a may be a linker script that names the library.
        if bytes.starts_with(b"!<arch>\n") {
            tools.write(library, embedded_archive(&bytes, Options::new()).0);
        }
    }
    let directory = tools.path("");
    let objects = compile(&directory, "gcc", &["-O2"]);
    let mut arguments = vec!["-static".to_owned(), format!("-L{}", directory.display())];
    for (number, object) in objects.iter().enumerate() {
        let file = format!("{number}.o");
        tools.write(&file, embedded(object, Options::new()));
        arguments.push(tools.path(&file).display().to_string());
    }
    let program = tools.path("program").display().to_string();
    arguments.extend(["-lstdc++", "-lm", "-o", &program].map(str::to_owned));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let output = ld.cc(&arguments).expect("cc runs");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    let status = Command::new(&program).status().expect("the program runs");
    assert!(status.success(), "{status}");
    let bytes = std::fs::read(&program).unwrap();
    assert_no_overlap("static", &bytes);
    assert!(verify_linked("static", &bytes, &complaints));
    let file = File::parse(&bytes).unwrap();
    let table = &file.sframe_sections().unwrap()[0];
    let functions = Section::parse(&table.bytes, table.address).unwrap().num_functions();
    assert!(functions > 1000, "{functions} functions");
}
