//! Tests that the program's work grows no faster than its input, by the instructions that callgrind counts.
//! `tests/tests/growth.rs` does the same for the libraries.

use std::fs;
use std::path::Path;
use std::process::Command;

use cfipack_testkit::needs;
use cfipack_tests::hostile::{Input, OVERLAPPING_NAMES};

use crate::program::scratch;

/// A relocatable object with `n` sections of this code, each with a symbol. The first section has an FDE.
fn sections_of_code(n: usize, code: &[u8]) -> Vec<u8> {
    let eh_frame = b"\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0\
        \x10\0\0\0\x1c\0\0\0\0\0\0\0";
    let eh_frame = [&eh_frame[..], &(code.len() as u32).to_le_bytes(), &[0; 4]].concat();
    // A global STT_FUNC at offset 0.
    let symbol = |section: u16| {
        let place = [&[11, 0, 0, 0, 0x12, 0][..], &section.to_le_bytes()].concat();
        [&place[..], &[0; 8], &(code.len() as u64).to_le_bytes()].concat()
    };
    let symbols: Vec<_> = (0..=n as u16).flat_map(symbol).collect();
    // R_X86_64_PC32 against symbol 1.
    let relocation = [0x20, 1 << 32 | 2, 0_u64].map(u64::to_le_bytes).concat();
    let names = b"\0.eh_frame\0.text\0";
    let n = n as u32;
    // Name, type, flags, link, info, size of an entry, bytes.
    let code = (1, 6, 0, 0, 0, code);
    let mut sections = vec![(0, 0, 0, 0, 0, &[][..])];
    sections.extend((0..n).map(|_| code));
    sections.extend([
        (1, 2, 0, 0, 0, &eh_frame[..]),
        (4, 0, n + 3, n + 1, 24, &relocation),
        (2, 0, n + 4, 1, 24, &symbols),
        (3, 0, 0, 0, 0, names),
    ]);
    let (mut bytes, mut headers) = (vec![0; 64], Vec::new());
    for (kind, flags, link, info, entry, contents) in sections {
        let name = if flags == 2 { 1 } else { 11_u32 };
        headers.extend([name, kind].map(u32::to_le_bytes).concat());
        let at = bytes.len() as u64;
        headers.extend([flags, 0, at, contents.len() as u64].map(u64::to_le_bytes).concat());
        headers.extend([link, info].map(u32::to_le_bytes).concat());
        headers.extend([8_u64, entry].map(u64::to_le_bytes).concat());
        bytes.extend(contents);
    }
    let (at, last) = (bytes.len() as u64, n as u16 + 4);
    bytes.extend(headers);
    bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    bytes[16..20].copy_from_slice(&[1_u16, 62].map(u16::to_le_bytes).concat());
    bytes[20] = 1;
    bytes[40..48].copy_from_slice(&at.to_le_bytes());
    bytes[52..64].copy_from_slice(&[64, 56, 0, 64, last + 1, last].map(u16::to_le_bytes).concat());
    bytes
}

/// Runs the program and returns its number of instructions. The program may refuse its input.
fn instructions(directory: &Path, arguments: &[&str]) -> u64 {
    needs::program("valgrind", "valgrind");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=counted", env!("CARGO_BIN_EXE_cfi2sframe")]);
    let output = command.args(arguments).current_dir(directory).output().unwrap();
    assert!(
        output.status.code().is_some_and(|code| code <= 2),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let counted = fs::read_to_string(directory.join("counted")).unwrap();
    let total = counted.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    total.unwrap().trim().parse().unwrap()
}

/// Compares the counts for a file and for one twice as large. Both counts contain the cost of starting.
fn check(what: &str, [once, twice]: [u64; 2]) {
    assert!(twice as f64 <= 2.3 * once as f64, "{what}: {once} instructions, {twice} for twice the input");
}

#[test]
#[ignore = "needs valgrind"]
fn sections_of_code_cost_in_proportion() {
    let directory = scratch("growth");
    for verb in ["unwind-info", "explain", "stats"] {
        let counts = [3000, 6000].map(|n| {
            fs::write(directory.join("object"), sections_of_code(n, &[0x90; 16])).unwrap();
            instructions(&directory, &[verb, "object"])
        });
        check(verb, counts);
    }
}

/// Makes the code of a function with `n` parts.
type LongCode = fn(usize) -> Vec<u8>;

const LONG: [(&str, LongCode); 6] = [
    ("padding before wrong rows", |n| {
        // mov rcx, rbx; xor ebx, ebx; mov rbx, rcx: for an instruction, the row of rbx is wrong.
        let lost = [0x48_u8, 0x89, 0xd9, 0x31, 0xdb, 0x48, 0x89, 0xcb];
        [&CALL[..], &[0x90_u8].repeat(64 * n), &lost.repeat(n)].concat()
    }),
    ("traps after calls", |n| [&CALL[..], &[0xcc; 59]].concat().repeat(n)),
    // syscall; mov [rdi], eax
    ("system calls", |n| [&[0x0f_u8, 0x05][..], &[0x89_u8, 0x07].repeat(31)].concat().repeat(n)),
    ("calls", |n| CALL.repeat(13 * n)),
    // cmp edx, ecx; jne to the next instruction
    ("small jumps", |n| [0x39, 0xca, 0x75, 0].repeat(17 * n)),
    // add edx, 1; cmp edx, ecx; mov [rsp+8], rdx; jne to the iteration before
    ("small loops", |n| [0x83, 0xc2, 1, 0x39, 0xca, 0x48, 0x89, 0x54, 0x24, 8, 0x75, 0xe8].repeat(6 * n)),
];

/// A call of code outside of the function.
const CALL: [u8; 5] = [0xe8, 0, 0, 0x20, 0];

/// Instructions of functions with more than 64 KB are decoded when they are needed. Whatever follows code must not ask for
/// the same instructions again and again.
#[test]
#[ignore = "needs valgrind"]
fn long_functions_cost_in_proportion_slow() {
    let directory = scratch("growth-long-counted");
    // The second function has no CFI.
    let verbs: [(usize, &[&str]); 3] = [
        (1, &["lint", "object"]),
        (1, &["explain", "object", ".text+0x0"]),
        (2, &["object", "--synthesize", "--section", "out"]),
    ];
    for (name, code) in LONG {
        for (functions, arguments) in verbs {
            let counts = [1024, 2048].map(|n| {
                let code = [code(n), vec![0xc3]].concat();
                fs::write(directory.join("object"), sections_of_code(functions, &code)).unwrap();
                instructions(&directory, arguments)
            });
            println!("{name}, {arguments:?}: {counts:?}");
            check(&format!("{name}, {arguments:?}"), counts);
        }
    }
}

/// Functions that begin with data, that have macros or a compiler's `.loc`, and labels without a type.
#[test]
#[ignore = "needs valgrind and gas"]
fn sources_cost_in_proportion() {
    needs::program("as", "binutils");
    let directory = scratch("growth-sources");
    let function = |i: usize, extra: &str, kind: &str| {
        format!(
            "\t.globl f{i}\n{kind}f{i}:\n\t.byte 0xf3,0x0f,0x1e,0xfa\n\tpush %rbx\n{extra}\tmov %rdi, %rbx\n\
             \tcall g\n1:\tdec %rbx\n\tjnz 1b\n\tpop %rbx\n\tret\n"
        )
    };
    for (extra, is_typed) in [("", true), ("\t.loc 1 1\n", true), ("", false)] {
        let counts = [1000, 2000].map(|n| {
            let kind = |i| if is_typed { format!("\t.type f{i}, @function\n") } else { String::new() };
            let functions: String = (0..n).map(|i| function(i, extra, &kind(i))).collect();
            fs::write(directory.join("a.s"), format!("\t.file 1 \"a.c\"\n{functions}")).unwrap();
            let object = Command::new("as").args(["-g", "-o", "a.o", "a.s"]).current_dir(&directory).status();
            assert!(object.unwrap().success());
            instructions(&directory, &["annotate", "a.s", "--object", "a.o", "-o", "out.s", "--strict"])
        });
        check("annotate", counts);
    }
}

/// Each shape of tree is made in two sizes. The work may grow no faster than the size.
#[test]
#[ignore = "needs valgrind"]
fn trees_cost_in_proportion_slow() {
    let directory = scratch("growth-trees");
    let library = fs::read(crate::program::corpus().join("linked.so")).unwrap();
    let links = |tree: &Path, n: usize| {
        fs::write(tree.join("0"), &library).unwrap();
        (1..n).for_each(|i| fs::hard_link(tree.join("0"), tree.join(i.to_string())).unwrap());
    };
    let deep = |tree: &Path, n: usize| {
        let mut at = tree.to_path_buf();
        for _ in 0..n {
            fs::write(at.join("file"), "").unwrap();
            at.push("d");
            fs::create_dir(&at).unwrap();
            fs::write(at.join("a"), "").unwrap();
        }
    };
    let members = |tree: &Path, n: usize| {
        let names = "../../outside/\n".repeat(n);
        let list = format!("{:<48}{:<10}`\n", "//", names.len());
        let member = |i| format!("{:<48}{:<10}`\n", format!("/{}", i * 15), 1);
        let members: String = (0..n).map(member).collect();
        fs::write(tree.join("a"), ["!<thin>\n", &list, &names, &members].concat()).unwrap();
    };
    type Tree<'t> = (&'t str, usize, &'t dyn Fn(&Path, usize));
    let trees: [Tree<'_>; 3] =
        [("hard links", 1500, &links), ("nested directories", 150, &deep), ("members", 1000, &members)];
    for (what, n, build) in trees {
        let counts = [n, 2 * n].map(|n| {
            let tree = directory.join("tree");
            let _ = fs::remove_dir_all(&tree);
            fs::create_dir(&tree).unwrap();
            build(&tree, n);
            instructions(&directory, &["--in-place", "--no-sync", "-r", "tree"])
        });
        check(what, counts);
    }
}

/// Runs for files in which names start at successive bytes of one long name.
const QUESTIONS: [&[&str]; 14] = [
    &["stats"],
    &["stats", "--json"],
    &["verify"],
    &["verify", "--json"],
    &["dump"],
    &["dump", "--json"],
    &["gaps"],
    &["gaps", "--json"],
    &["explain"],
    &["explain", "--json"],
    &["unwind-info", "--json"],
    &["strip", "--json", "-o", "out"],
    &["--json", "-o", "out"],
    &["--json", "--section", "out"],
];

/// Writes a file of each shape, with `parts` parts. Returns their names and lengths.
fn files(directory: &Path, parts: usize) -> Vec<(String, usize)> {
    let write = |(number, shape): (usize, &cfipack_tests::hostile::Shape)| {
        let Input::File(bytes) = shape.1(parts) else { unreachable!("shapes of files") };
        let name = format!("{number}-{parts}");
        fs::write(directory.join(&name), &bytes).unwrap();
        (name, bytes.len())
    };
    OVERLAPPING_NAMES.iter().enumerate().map(write).collect()
}

/// Neither memory nor output may be a large multiple of the file's size.
#[test]
fn names_that_overlap_take_room_in_proportion() {
    let directory = scratch("growth-names");
    for ((file, len), shape) in files(&directory, 500).into_iter().zip(OVERLAPPING_NAMES) {
        for question in QUESTIONS {
            let output = limited(&directory, 16, &[question, &[file.as_str()]].concat(), len);
            let errors = String::from_utf8_lossy(&output.stderr);
            let what = format!("{question:?} {}, {len} bytes", shape.0);
            // A verb may refuse a file that has nothing for it (status 1 or 2), but no signal may end it.
            assert!(
                output.status.code().is_some_and(|code| code <= 2),
                "{what}: {}: {errors}",
                output.status
            );
            let printed = output.stdout.len() + output.stderr.len();
            assert!(printed <= (1 << 20) + 24 * len, "{what}: {printed} bytes printed");
        }
    }
}

/// Runs a verb with a limit on its memory: 100 MB, and a multiple of the file's length.
fn limited(directory: &Path, multiple: usize, arguments: &[&str], len: usize) -> std::process::Output {
    let kilobytes = (100 << 10) + multiple * len / 1024;
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -v {kilobytes}; exec \"$@\""), "sh"]);
    limited.arg(env!("CARGO_BIN_EXE_cfi2sframe")).args(arguments).current_dir(directory).output().unwrap()
}

/// One long function takes more memory than many short ones.
#[test]
fn one_long_function_takes_room_in_proportion() {
    let directory = scratch("growth-long");
    let mut code = vec![0x90; 8 << 20];
    code.push(0xc3);
    let object = sections_of_code(1, &code);
    fs::write(directory.join("object"), &object).unwrap();
    for arguments in [&["lint", "object"][..], &["explain", "object", ".text+0x0"]] {
        let output = limited(&directory, 4, arguments, object.len());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code <= 1), "{arguments:?}: {errors}");
    }
}

/// Runs on all files at once. A verb reads the same for text and JSON, so one of the two is enough.
const COUNTED: [&[&str]; 5] =
    [&["stats", "--json"], &["stats"], &["verify", "--json"], &["dump"], &["gaps", "--json"]];

/// Runs on one file, for some of the shapes.
const COUNTED_ALONE: [&[&str]; 4] = [
    &["explain", "--json"],
    &["unwind-info", "--json"],
    &["strip", "--json", "-o", "out"],
    &["--json", "-o", "out"],
];

#[test]
#[ignore = "needs valgrind"]
fn names_that_overlap_cost_in_proportion_slow() {
    let directory = scratch("growth-names-counted");
    let is_for_one =
        |name: &str| ["as long as they may be", "Mach-O object"].iter().any(|end| name.ends_with(end));
    let [few, many] = [50, 100].map(|parts| files(&directory, parts));
    let cost = |question: &[&str], files: &[&str]| instructions(&directory, &[question, files].concat());
    for question in COUNTED {
        let counts = [&few, &many].map(|files| {
            let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
            cost(question, &names)
        });
        check(&format!("{question:?}"), counts);
    }
    for question in COUNTED_ALONE {
        for (shape, (few, many)) in OVERLAPPING_NAMES.iter().zip(few.iter().zip(&many)) {
            if is_for_one(shape.0) {
                let counts = [few, many].map(|(name, _)| cost(question, &[name]));
                check(&format!("{question:?} {}", shape.0), counts);
            }
        }
    }
}
