//! Tests `--synthesize`, which makes rows for functions that no CFI covers. `synthesize.s` has functions without CFI.
//! It also has the CFI that an author would write for them, and gas's table of that CFI is the expected result.

use std::collections::BTreeMap;
use std::process::Command;

use cfipack_testkit::needs;
use serde_json::{Value, json};

use crate::objects::printed;
use crate::program::{scratch, transcript};

fn converted(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(0, &[&["--json"], arguments].concat())).unwrap()
}

#[test]
fn rows_from_code_are_those_that_gas_makes_of_written_cfi() {
    let path = scratch("synthesize").join("out.o");
    let path = path.to_str().unwrap();
    printed(0, &["synthesize.o", "--synthesize", "-o", path]);
    assert_eq!(printed(0, &["dump", path]), printed(0, &["dump", "synthesize.described.o"]));
    let verified = printed(0, &["verify", path]);
    assert!(verified.contains("2 equal, 0 different, 0 missing\n"), "{verified}");
    assert!(verified.contains("judged by code: functions without CFI"), "{verified}");
    // Without the option the table has nothing of these functions.
    printed(0, &["synthesize.o", "-o", path]);
    assert!(printed(0, &["dump", path]).contains("Num FDEs: 2\n"));
}

/// Each function that gets no rows is reported with a reason. Two functions are entered elsewhere, one of them from a
/// function with CFI, and two functions jump into others.
#[test]
fn what_is_not_synthesized_has_a_reason() {
    let report = converted(&["synthesize.o", "--synthesize"]);
    let reasons = json!({
        "cfa-not-known": 1, "entered-elsewhere": 2, "indirect-jump": 1, "into-function": 2, "never-returns": 1,
        "odd-call": 1, "register-not-restored": 1, "stack-at-return": 1, "system-call": 1,
    });
    let not_tried = json!({ "bytes": 0, "places": [] });
    let expected = json!({ "functions": 9, "omitted": 11, "reasons": reasons, "not_tried": not_tried });
    assert_eq!(report["synthesized"], expected);
    // Functions without rows have a count of their own.
    assert_eq!((&report["functions"], &report["omitted"]), (&json!(2), &json!(0)));
    assert_eq!(converted(&["synthesize.o"]).get("synthesized"), None);
}

/// If you change a row of synthesized code, `verify` must notice.
#[test]
fn a_changed_row_is_not_judged_right() {
    let directory = scratch("synthesize-changed");
    let path = directory.join("out.o");
    let path = path.to_str().unwrap();
    printed(0, &["synthesize.o", "--synthesize", "-o", path]);
    let section = directory.join("table");
    let section = section.to_str().unwrap();
    printed(0, &["synthesize.o", "--synthesize", "--section", section]);
    let table = std::fs::read(section).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    // FREs follow the header and the FDEs. No relocation changes them.
    let rows = &table[table.len() - 16..];
    let at = bytes.windows(rows.len()).position(|window| window == rows).unwrap();
    let changed = (0..rows.len()).filter(|index| {
        let before = bytes[at + index];
        bytes[at + index] ^= 8;
        std::fs::write(path, &bytes).unwrap();
        bytes[at + index] = before;
        let output = crate::program::run(&["verify", path]);
        !output.status.success()
    });
    // Only one damage does no harm: the only row of `leaf` then starts after its end, so the table has no row there.
    assert_eq!(changed.count(), rows.len() - 1);
}

#[test]
fn reports() {
    let runs: [&[&str]; 4] = [
        &["explain", "synthesize.o", "twice"],
        &["explain", "synthesize.o", "odd_call+1"],
        &["synthesize.o", "--synthesize", "--verify"],
        &["synthesize.o", "--synthesize", "--merge-functions", "2"],
    ];
    insta::assert_snapshot!(runs.map(transcript).join("\n"));
}

/// In a stripped program without CFI, functions start where a call leads that a path reaches, where a jump with a frame
/// leads, and where the code itself returns to a caller. `search.s` also has code that a runtime enters by jumps, data
/// that looks like a call, and pointers into functions: nothing of these gets rows.
#[test]
fn a_function_needs_a_call_that_a_path_reaches_or_code_that_returns() {
    let dumped = found("search");
    let expected = [(0x4000b0, 7), (0x4000e0, 22), (0x400100, 8), (0x400110, 14), (0x400120, 8)];
    assert_eq!(functions(&dumped), expected, "{dumped}");
    // The fragment has the frame of its function.
    assert!(dumped.contains("00000000004000b0  sp+16"), "{dumped}");
}

/// `search_library.s` has a landing pad in a function with a symbol, a call after which only a call that never returns
/// follows, and functions to which only a relative relocation or padding leads. Of `saving`, which ends with a jump to an
/// unknown address, only the function after it gets rows. Nothing after `runtime` gets rows.
#[test]
fn functions_of_a_library_without_landing_pads() {
    let dumped = found("search_library.so");
    let expected = [(0x1b0, 8), (0x1d0, 26), (0x1f0, 5), (0x200, 8), (0x210, 10), (0x230, 14)];
    assert_eq!(functions(&dumped), expected, "{dumped}");
    let report = converted(&["search_library.so", "--synthesize"]);
    let not_tried = &report["synthesized"]["not_tried"];
    let places = not_tried["places"].as_array().unwrap();
    let sizes = places.iter().map(|place| place["size"].as_u64().unwrap());
    assert_eq!(not_tried["bytes"], sizes.clone().sum::<u64>());
    assert!(sizes.is_sorted_by(|one, next| one >= next), "{not_tried}");
    assert!(places.iter().any(|place| place["start"] == "0x1b8"), "{not_tried}");
    // Without CFI there is no share of it.
    let text = transcript(&["search_library.so", "--synthesize"]);
    assert!(text.contains("search_library.so: 0 functions with CFI\n"), "{text}");
    assert!(text.contains("never tried, since no function is known there: "), "{text}");
    assert!(!text.contains("100.00 %"), "{text}");
}

/// Makes the rows of a file, and returns the dump of the table.
fn found(input: &str) -> String {
    let path = scratch(&format!("synthesize-{input}")).join("out");
    let path = path.to_str().unwrap();
    printed(0, &[input, "--synthesize", "-o", path]);
    printed(0, &["dump", path])
}

/// Returns the functions of a dump: the address and the size.
fn functions(dumped: &str) -> Vec<(u64, u64)> {
    let heads = dumped.lines().filter_map(|line| line.split_once("pc = 0x")?.1.split_once(", size = "));
    let size = |rest: &str| rest.strip_suffix(" bytes").unwrap().parse().unwrap();
    heads.map(|(pc, rest)| (u64::from_str_radix(pc, 16).unwrap(), size(rest))).collect()
}

/// The program's own code has no CFI. In the stripped copy, only calls show where functions start. All rows made of the
/// copy are also made of the program with its symbols.
#[test]
#[ignore = "needs gcc and strip"]
fn calls_lead_to_functions_of_a_stripped_program() {
    [("cc", "gcc"), ("strip", "binutils")].iter().for_each(|(tool, package)| needs::program(tool, package));
    let directory = scratch("synthesize-stripped");
    let source = directory.join("program.c");
    let text: String = (0..40).map(function).collect();
    let main = "int main(int argc, char **argv) { sink = f39(argc); return 0; }\n";
    std::fs::write(&source, format!("volatile long sink;\n{text}{main}")).unwrap();
    let (program, stripped) = (directory.join("program"), directory.join("stripped"));
    let flags = ["-O2", "-fcf-protection=none", "-fno-asynchronous-unwind-tables", "-fno-ipa-icf", "-o"];
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    run(Command::new("cc").args(flags).args([&program, &source]));
    run(Command::new("strip").arg("-o").args([&stripped, &program]));
    let rows = |path: &std::path::Path| -> BTreeMap<String, Vec<String>> {
        let with = path.with_extension("sframe");
        let (path, with) = (path.to_str().unwrap(), with.to_str().unwrap());
        printed(0, &[path, "--synthesize", "-o", with]);
        let text = printed(0, &["dump", with]);
        let functions = text.split("func idx").skip(1).map(|function| {
            let (head, rows) = function.split_once('\n').unwrap();
            let pc = head.split("pc = ").nth(1).unwrap().split(',').next().unwrap();
            (pc.to_owned(), rows.trim_end().lines().map(str::to_owned).collect())
        });
        functions.collect()
    };
    let (named, found) = (rows(&program), rows(&stripped));
    for (start, rows) in &found {
        assert_eq!(named.get(start), Some(rows), "{start}");
    }
    assert!(found.len() > 40, "{} of {}", found.len(), named.len());
    let verified = printed(0, &["verify", stripped.with_extension("sframe").to_str().unwrap()]);
    assert!(verified.contains("judged by code: functions without CFI"), "{verified}");
}

/// A call may never return, and another function may start behind it. Only a path back, or to a return, shows that the
/// code goes on.
#[test]
#[ignore = "needs gcc and strip"]
fn a_function_ends_at_a_call_that_may_not_return() {
    let text = "\
\t.text
\t.globl spawn
\t.type spawn, @function
spawn:\tpush %rbx
\tsub $0x270, %rsp
\tlea child(%rip), %rdi
\tcall *%rax
\tcmp $3, %eax
\tjne 1f
\tadd $0x270, %rsp
\tpop %rbx
\tret
1:\tcall fail
\t.p2align 4
child:\tpush %rbp
\tmov %rsp, %rbp
2:\tcall *%rax
\tjmp 2b
\t.p2align 4
\t.globl fail
\t.type fail, @function
fail:\tud2
";
    let (_, dumped) = linked("synthesize-lost-call", text, &["-shared"]);
    // The instructions from `spawn` to the call of `fail` have 36 bytes.
    assert!(dumped.contains("size = 36 bytes"), "{dumped}");
}

/// As in libgo's `panicdivide`: after the call of `check`, which returns, no path of the function returns, and the code there
/// is aligned. Without a frame, it would be a function by its look, since the call of `fail` seems to return. The symbol
/// with its size shows that it is none.
#[test]
#[ignore = "needs gcc and strip"]
fn no_function_starts_where_a_frame_may_be_in_place() {
    let text = "\
\t.text
\t.globl named
\t.type named, @function
named:\tcmp %rdi, %rsp
\tjb 2f
\tmov $0x16, %esi
\tmov %rdi, %r12
\tmov %rsi, %r13
\tsub $8, %rsp
\tcall check@PLT
\t.p2align 4
\tmov (%rdi), %rax
\ttest %rax, %rax
\tje 1f
\tmov (%rax), %rax
1:\tcall other@PLT
2:\tmov $8, %r10d
\tcall more@PLT
\tret
\t.size named, . - named
\t.p2align 4
\t.globl check
\t.type check, @function
check:\tpush %rbx
\tcall other@PLT
\tpop %rbx
\tret
\t.size check, . - check
\t.p2align 4
\t.globl other
\t.type other, @function
other:\tjmp *(%rax)
\t.size other, . - other
\t.globl more
\t.type more, @function
more:\tmov %rdi, %rax
\tret
\t.size more, . - more
";
    let (found, dumped) = linked("synthesize-in-frame", text, &["-shared"]);
    let named = found.iter().find(|function| function.0 == 0x10000);
    assert!(named.is_some(), "{dumped}");
    assert!(found.iter().all(|function| !(0x10001..0x10040).contains(&function.0)), "{dumped}");
}

/// The function at 0x10000 ends with a call of a function that may return, and padding. The function behind it, which nothing
/// in the file calls, is no part of it: its rows would count the first function's frame.
#[test]
#[ignore = "needs gcc and strip"]
fn a_function_ends_before_a_prologue() {
    for prologue in ["push %rbx", "push %rax", "sub $24, %rsp"] {
        let text = format!(
            "\
\t.text
\t.globl _start
\t.type _start, @function
_start:\tpush %rbx
\ttest %rdi, %rdi
\tje 1f
\tpop %rbx
\tret
1:\tcall raise@PLT
\t.p2align 4
\t{prologue}
2:\tcall raise@PLT
\tjmp 2b
"
        );
        let (found, dumped) = linked("synthesize-prologue", &text, &["-shared"]);
        let first = found.iter().find(|function| function.0 == 0x10000);
        assert!(first.is_some_and(|first| first.1 <= 0x10), "{prologue}: {dumped}");
    }
}

/// Haskell's compiler puts a table before each function, after the padding of the function before. The bytes of these tables
/// look like `adc $N, %eax; ret` and `test $0, %al; ret`.
#[test]
#[ignore = "needs gcc and strip"]
fn no_function_starts_in_data_between_functions() {
    for table in [".quad 0\n\t.byte 0x15, 0, 0, 0, 0xc0, 0xc3, 0x24, 7", ".byte 0xa8, 0, 0xc3, 3, 0, 0, 0, 0"]
    {
        let text = format!(
            "\
\t.text
\t.globl _start
\t.type _start, @function
_start:\tmov %rdi, %rax
\tret
\t.size _start, . - _start
\t.p2align 4
\t{table}
\t.globl next
\t.type next, @function
next:\tmov %rsi, %rax
\tret
\t.size next, . - next
"
        );
        let (found, dumped) = linked("synthesize-table", &text, &["-shared"]);
        assert_eq!(found.len(), 2, "{dumped}");
    }
}

/// Nothing in the file leads to the code at 0x10010, as to a landing pad, nor to the function after it. Its prologue shows where
/// it starts. No function starts in the other aligned code: it removes a frame that it has not made.
#[test]
#[ignore = "needs gcc and strip"]
fn a_prologue_shows_a_function_after_code_that_is_never_tried() {
    let text = "\
\t.text
\t.globl _start
\t.type _start, @function
_start:\tmov %rdi, %rax
\tret
\t.p2align 4
\tmov %rax, %rdi
\tcall resume@PLT
\t.p2align 4
\tpush %rbx
\tcall work@PLT
\tpop %rbx
\tret
\t.p2align 4
\tcall resume@PLT
\t.p2align 4
\tpush %rbx
\tcall work@PLT
\tadd $24, %rsp
\tret
";
    let (found, dumped) = linked("synthesize-after-pad", text, &["-shared"]);
    let starts: Vec<_> = found.iter().map(|function| function.0).filter(|start| *start >= 0x10000).collect();
    assert_eq!(starts, [0x10000, 0x10020], "{dumped}");
}

/// A fragment goes on after a call that returns, although no path after the call does.
#[test]
#[ignore = "needs gcc and strip"]
fn a_fragment_goes_on_after_a_call_that_returns() {
    let text = "\
\t.text
\t.globl _start
\t.type _start, @function
_start:\tpush %rbx
\ttest %rdi, %rdi
\tje 1f
\tpop %rbx
\tret
\tcall resume@PLT
1:\tcall __cxa_allocate_exception@PLT
\tmov %rax, %rdi
\tcall leaf
\tmov %rbx, %rdi
\tcall __cxa_throw@PLT
leaf:\tmov $1, %eax
\tret
";
    let (found, dumped) = linked("synthesize-throws", text, &["-shared"]);
    // The calls and moves from label 1 on have 21 bytes.
    assert!(found.iter().any(|function| function.0 == 0x1000d && function.1 == 21), "{dumped}");
}

/// The same on AArch64, where no padding is before the next function. It saves x30, which the call has changed.
#[test]
#[ignore = "needs gcc for aarch64"]
fn a_function_ends_where_another_saves_the_link_register() {
    let text = "\
\t.text
\t.globl _start
\t.type _start, %function
_start:\tstp x29, x30, [sp, #-32]!
\tmov x29, sp
\tcbz x0, 1f
\tldp x29, x30, [sp], #32
\tret
1:\tbl raise
\tstp x29, x30, [sp, #-48]!
\tmov x29, sp
2:\tbl raise
\tb 2b
";
    let tools = ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-strip"];
    let (found, dumped) =
        linked_by(tools, "gcc-aarch64-linux-gnu", "synthesize-link-register", text, &["-shared"]);
    assert!(found.contains(&(0x10000, 0x18)), "{dumped}");
}

/// An instruction computes 0x10010, in the middle of an instruction, where `mov %rdx, %rax; ret` is.
#[test]
#[ignore = "needs gcc and strip"]
fn an_address_in_the_middle_of_code_shows_no_function() {
    let text = "\
\t.text
first:\t.fill 4, 1, 0x90
\tmovabs $0x1122334455667788, %rcx
\tmovabs $0x22334455c3d08948, %rcx
\tjmp *%rax
\t.p2align 4
\t.globl _start
\t.type _start, @function
_start:\tpush %rax
\tlea first + 0x10(%rip), %rax
\tpop %rax
\tret
";
    let (found, dumped) = linked("synthesize-inside", text, &["-shared"]);
    assert!(found.iter().all(|function| function.0 != 0x10010), "{dumped}");
}

/// Links assembler text without CFI, strips it, and returns the functions that get rows: the address, the size and the dump.
fn linked(name: &str, text: &str, options: &[&str]) -> (Vec<(u64, u64)>, String) {
    linked_by(["cc", "strip"], "gcc", name, text, options)
}

fn linked_by(
    [compiler, strip]: [&str; 2],
    package: &str,
    name: &str,
    text: &str,
    options: &[&str],
) -> (Vec<(u64, u64)>, String) {
    [compiler, strip].iter().for_each(|tool| needs::program(tool, package));
    let directory = scratch(name);
    let (source, linked) = (directory.join("text.s"), directory.join("linked"));
    std::fs::write(&source, text).unwrap();
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    let options = [&["-nostdlib", "-Wl,-Ttext=0x10000"], options].concat();
    run(Command::new(compiler).args(options).arg("-o").args([&linked, &source]));
    run(Command::new(strip).arg(&linked));
    let table = directory.join("table");
    printed(0, &[linked.to_str().unwrap(), "--synthesize", "--section", table.to_str().unwrap()]);
    let dumped = printed(0, &["dump", table.to_str().unwrap()]);
    (functions(&dumped), dumped)
}

/// At 0x10010, in the middle of an instruction, is `mov %rdx, %rax; ret`. The data has this number, which is no pointer.
#[test]
#[ignore = "needs gcc and strip"]
fn a_number_that_is_an_address_of_code_shows_no_function() {
    let text = "\
\t.text
\t.fill 4, 1, 0x90
\tmovabs $0x1122334455667788, %rcx
\tmovabs $0x22334455c3d08948, %rcx
\tjmp *%rax
\t.p2align 4
\t.globl _start
\t.type _start, @function
_start:\tpush %rax
\tpop %rax
\tret
\t.data
\t.quad 0x10010, pointer
pointer:\t.quad _start
";
    for options in [&["-static", "-no-pie"][..], &["-shared"]] {
        let (found, dumped) = linked("synthesize-number", text, options);
        assert!(found.iter().all(|function| function.0 != 0x10010), "{dumped}");
    }
}

/// Returns the text of a function that the next one calls. Every third has a frame, every fifth has two returns.
fn function(number: usize) -> String {
    let before = number.checked_sub(1).map_or("a + sink".to_owned(), |before| format!("f{before}(a + sink)"));
    let frame =
        if number.is_multiple_of(3) { "long all[9]; all[a & 7] = a; a += all[sink & 7];" } else { "" };
    let leaves = if number.is_multiple_of(5) { "if (a > 7) return a + 1;" } else { "" };
    format!(
        "__attribute__((noinline, noclone)) static long f{number}(long a) {{ {frame} {leaves} long r = {before}; return r + a * {}; }}\n",
        number + 2
    )
}
