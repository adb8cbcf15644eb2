//! Tests that `lint` does not accuse right code of whole files, and that it accuses wrong twins.

use cfipack_tests::reference::Tools;
use serde_json::Value;

use crate::program::run;

/// Assembles a source, links it if `linked`, and returns the symbol and the kind of each finding.
fn found(tools: &Tools, name: &str, text: &str, linked: bool) -> Vec<(String, String)> {
    let (source, object, program) = (format!("{name}.s"), format!("{name}.o"), format!("{name}.so"));
    tools.write(&source, text);
    tools.run_well(&["as", "-o", &object, &source]);
    if linked {
        tools.run_well(&["ld", "-shared", "-o", &program, &object]);
    }
    found_in(tools, if linked { &program } else { &object })
}

fn found_in(tools: &Tools, file: &str) -> Vec<(String, String)> {
    let file = tools.path(file);
    let output = run(&["lint", "--json", file.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|finding| (text(&finding["symbol"]), text(&finding["kind"]))).collect()
}

fn is(found: &[(String, String)], expected: &[(&str, &str)]) {
    let found: Vec<_> = found.iter().map(|(symbol, kind)| (symbol.as_str(), kind.as_str())).collect();
    assert_eq!(found, expected);
}

/// `f` enters `part` by an instruction. The part has the frame of `f`.
const PART: &str = "\
\t.text
\t.globl f
\t.type f, @function
f:
\t.cfi_startproc
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tENTER
\tpop %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size f, . - f
\t.section .text.part, \"ax\"
\t.type part, @function
part:
\t.cfi_startproc
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\txor %ebx, %ebx
\tpop %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size part, . - part
";

/// Compilers divide functions, and the parts have symbols of functions with any name. A call shows that a part is a
/// function.
#[test]
#[ignore = "needs the reference tools"]
fn parts_that_are_jumped_to_are_fragments() {
    let tools = Tools::find();
    for linked in [false, true] {
        is(&found(&tools, "jumped", &PART.replace("ENTER", "je part"), linked), &[]);
        is(&found(&tools, "computed", &PART.replace("ENTER", "jmp *%rax\n\tnop"), linked), &[]);
        let called = found(&tools, "called", &PART.replace("ENTER", "call part"), linked);
        assert!(called.contains(&("part".to_string(), "entry".to_string())), "{called:?}");
        // The first row of the part has a frame of another size.
        let size = PART.replace("offset 16\n\t.cfi_offset %rbx, -16\n\txor", "offset 24\n\txor");
        is(&found(&tools, "size", &size.replace("ENTER", "je part"), linked), &[("part", "branch")]);
        // The default of a switch may be unreachable, and then its jump may lead to another function's part.
        let default = size.replace("ENTER", "cmp $3, %edi\n\tja part\n\tjmp *(%rsi,%rdi,8)\n\tnop");
        is(&found(&tools, "default", &default, linked), &[]);
        let bound = size.replace("ENTER", "cmp $3, %edi\n\tja part");
        is(&found(&tools, "bound", &bound, linked), &[("part", "branch")]);
        // The part has no row after `pop`.
        let (function, part) = PART.split_once("\t.section").unwrap();
        let part = part.replace("\t.cfi_def_cfa_offset 8\n", "");
        let wrong = format!("{function}\t.section{part}").replace("ENTER", "je part");
        assert!(!found(&tools, "wrong", &wrong, linked).is_empty());
    }
}

/// A call can lead to an exported function, so its first row is judged. A local part of a linked file may be jumped to.
#[test]
#[ignore = "needs the reference tools"]
fn an_exported_function_is_called() {
    let tools = Tools::find();
    let wrong = PART.replace("\tENTER\n", "").replace(
        "part:\n",
        "part:\n\t.cfi_startproc\n\tret\n\t.cfi_endproc\n\t.size part, . - part\n\t.type other, @function\nother:\n",
    );
    let wrong = wrong.replace("\t.size part, . - part\n\t.section", "\t.section");
    is(&found(&tools, "local", &wrong, true), &[]);
    let exported = wrong.replace("\t.type other", "\t.globl other\n\t.type other");
    is(&found(&tools, "exported", &exported, true), &[("other", "entry"), ("other+0x3", "return")]);
}

/// The FDE of `f` ends early. The next function has a symbol, so its own fault is found.
#[test]
#[ignore = "needs the reference tools"]
fn a_short_fde_hides_no_fault_of_the_next_function() {
    let tools = Tools::find();
    let text = "\
\t.text
\t.type f, @function
f:
\t.cfi_startproc
\tnop
\t.cfi_endproc
\tret
\t.size f, . - f
\t.type g, @function
g:
\t.cfi_startproc
\tpush %rbx
\tpop %rbx
\tret
\t.cfi_endproc
\t.size g, . - g
";
    let found = found(&tools, "short", text, true);
    let has = |symbol: &str, kind: &str| found.contains(&(symbol.to_string(), kind.to_string()));
    assert!(has("f+0x1", "uncovered") && has("g", "no-row"), "{found:?}");
}

/// A thunk drops the return address of a call within the function and returns, so its callers go on.
#[test]
#[ignore = "needs the reference tools"]
fn a_function_that_ends_in_a_thunk_returns() {
    let tools = Tools::find();
    let text = "\
\t.text
\t.type s, @function
s:
\t.cfi_startproc
\tcall 2f
1:\tpause
\tlfence
\tjmp 1b
2:\tlea 8(%rsp), %rsp
\tret
\t.cfi_endproc
\t.size s, . - s
\t.globl top
\t.type top, @function
top:
\t.cfi_startproc
\tcall s
\t.cfi_def_cfa_offset 64
\tnop
\tcall s
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size top, . - top
";
    let found = found(&tools, "thunk", text, true);
    assert!(found.iter().any(|(symbol, _)| symbol.starts_with("top")), "{found:?}");
}

/// An unreachable end of a function runs into a fragment of another function.
#[test]
#[ignore = "needs the reference tools"]
fn a_fragment_belongs_to_one_function() {
    let tools = Tools::find();
    let other = "\t.text\n\t.type g, @function\ng:\n\t.cfi_startproc\n\tsub $8, %rsp\n\t.cfi_def_cfa_offset 16\n\tje part
\tadd $8, %rsp\n\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n\t.size g, . - g\n";
    let both = format!("{}{other}", PART.replace("ENTER", "je part"));
    is(&found(&tools, "both", &both, true), &[]);
    let only = format!("{}{other}", PART.replace("ENTER", "nop"));
    assert!(!found(&tools, "only", &only, true).is_empty());
}

/// No call enters a signal frame.
#[test]
#[ignore = "needs the reference tools"]
fn a_signal_frame_is_not_entered_by_a_call() {
    let tools = Tools::find();
    let text = |directive: &str| {
        format!(
            "\t.text\n\t.globl landing\n\t.type landing, @function\n\t.cfi_startproc\n\t{directive}
\t.cfi_def_cfa %rsp, 16\n\t.cfi_offset %rip, -8\nlanding:\n\taddq $8, %rsp\n\t.cfi_def_cfa_offset 8\n\tret
\t.cfi_endproc\n\t.size landing, . - landing\n"
        )
    };
    is(&found(&tools, "signal", &text(".cfi_signal_frame"), false), &[]);
    is(&found(&tools, "call", &text(""), false)[..1], &[("landing", "entry")]);
}

/// Where gimli cannot evaluate the CFI, nothing is accused from there on.
#[test]
#[ignore = "needs the reference tools"]
fn rows_that_cannot_be_evaluated_are_not_accused() {
    let tools = Tools::find();
    let text = |escape: &str| {
        format!(
            "\t.text\n\t.globl f\n\t.type f, @function\nf:\n\t.cfi_startproc\n\tpush %rbp\n\t{escape}\n\txor %ebp, %ebp
\tcall *%rdi\n\tpop %rbp\n\tret\n\t.cfi_endproc\n\t.size f, . - f\n"
        )
    };
    // DW_CFA 0x2d is unknown.
    is(&found(&tools, "unknown", &text(".cfi_escape 0x2d"), false), &[]);
    is(&found(&tools, "known", &text("nop"), false), &[("f", "no-row")]);
    // The last call does not return, and overwrites x30. GCC 16 ends frames of SVE by an offset without a register.
    let report = |escape: &str| {
        let text = format!(
            "\t.text\n\t.globl f\n\t.type f, %function\nf:\n\t.cfi_startproc\n\t{escape}\n\tbl abort\n"
        );
        tools.write("last.s", text + "\t.cfi_endproc\n\t.size f, . - f\n");
        tools.run_well(&["aarch64-linux-gnu-as", "-o", "last.o", "last.s"]);
        found_in(&tools, "last.o")
    };
    is(&report(".cfi_escape 0x0f, 2, 0x8f, 0\n\tnop\n\t.cfi_def_cfa_offset 0"), &[]);
    is(&report("nop"), &[("f+0x4", "return-address")]);
}

/// The FDE starts after the first instructions. This is one fault, and the rows are not compared.
#[test]
#[ignore = "needs the reference tools"]
fn code_that_runs_into_an_fde_is_one_finding() {
    let tools = Tools::find();
    let text = |start: &str, late: &str| {
        format!(
            "\t.text\n\t.globl f\n\t.type f, @function\nf:\n\t{start}\n\tpush %rbx\n\t{late}\n\tsub $16, %rsp
\t.cfi_adjust_cfa_offset 16\n\tcall g\n\tadd $16, %rsp\n\t.cfi_adjust_cfa_offset -16\n\tpop %rbx
\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n\t.size f, . - f\n"
        )
    };
    is(&found(&tools, "late", &text("nop", ".cfi_startproc"), false), &[("f", "uncovered")]);
    let saved = ".cfi_def_cfa_offset 16\n\t.cfi_offset %rbx, -16";
    is(&found(&tools, "early", &text(".cfi_startproc", saved), false), &[]);
}

/// Linkers put an empty FDE into the index, where it can hide the next function.
#[test]
#[ignore = "needs the reference tools"]
fn an_object_has_no_empty_fde() {
    let tools = Tools::find();
    let text =
        "\t.section .text.f, \"ax\"\n\t.type f, @function\nf:\n\t.cfi_startproc\n\t.cfi_endproc\n\t.size f, 0
\t.text\n\t.globl g\n\t.type g, @function\ng:\n\t.cfi_startproc\n\tret\n\t.cfi_endproc\n\t.size g, . - g\n";
    is(&found(&tools, "empty", text, false), &[("f", "empty-fde")]);
}

/// A function whose calls can throw. At the landing pad, the stack pointer is where it was at the call, less the arguments
/// that the CFI says were pushed.
const THROWS: &str = "\
\t.text
\t.type throws, @function
throws:
\t.cfi_startproc
\t.cfi_lsda 0x1b, table
\tpushq %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tBEFORE
first:
\tcall other
last:
\tAFTER
\tpopq %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_def_cfa_offset PAD
pad:
\tmovq %rax, %rdi
\tcall _Unwind_Resume
\t.cfi_endproc
end:
\t.size throws, . - throws
\t.section .gcc_except_table, \"a\"
table:
\t.byte 0xff, 0xff, 1, 4
\t.uleb128 first - throws, last - first, pad - throws, 0
";

/// An unwinder takes pushed arguments off the stack before it enters a landing pad, if the CFI has their size.
#[test]
#[ignore = "needs the reference tools"]
fn landing_pads_have_the_stack_of_their_calls() {
    let tools = Tools::find();
    let pushed =
        "pushq $1\n\t.cfi_def_cfa_offset 24\n\tpushq $2\n\t.cfi_def_cfa_offset 32\n\t.cfi_escape 0x2e, 16";
    let popped = "addq $16, %rsp\n\t.cfi_escape 0x2e, 0\n\t.cfi_def_cfa_offset 16";
    let throws = |before: &str, after: &str, pad: &str| {
        let text = THROWS.replace("BEFORE", before).replace("AFTER", after).replace("PAD", pad);
        found(&tools, "pads", &text, false)
    };
    is(&throws("", "", "16"), &[]);
    is(&throws("", "", "8")[..1], &[("pad", "branch")]);
    is(&throws("", "", "24")[..1], &[("pad", "branch")]);
    is(&throws(pushed, popped, "16"), &[]);
}

/// A hot function and its cold part, as GCC writes them for `throw`.
const COLD: &str = "\
\t.text
\t.globl f
\t.type f, @function
f:
\t.cfi_startproc
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tmov %edi, %ebx
\ttest %edi, %edi
\tjs f.cold
\tpop %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size f, . - f
\t.section .text.unlikely, \"ax\"
\t.type f.cold, @function
f.cold:
\t.cfi_startproc
\tFIRST
\tmov $4, %edi
\tcall allocate@PLT
\tAFTER
\tmov %rax, %rdi
\tmov %ebx, (%rax)
\tcall throw@PLT
\t.cfi_endproc
\t.size f.cold, . - f.cold
";

/// No call enters a cold part, and code after a call that nothing else leads to belongs to the call, although the part never
/// returns. In an object, other sections may lead there.
#[test]
#[ignore = "needs the reference tools"]
fn faults_of_cold_parts_are_found() {
    let tools = Tools::find();
    let saved = ".cfi_def_cfa_offset 16\n\t.cfi_offset %rbx, -16";
    let cold = |linked, first: &str, after: &str| {
        found(&tools, "cold", &COLD.replace("FIRST", first).replace("AFTER", after), linked)
    };
    for linked in [false, true] {
        is(&cold(linked, saved, ""), &[]);
        for wrong in ["", ".cfi_offset %rbx, -16", ".cfi_def_cfa %rbp, 16", ".cfi_def_cfa %rbx, 16"] {
            is(&cold(linked, wrong, "")[..1], &[("f.cold", "branch")]);
        }
        let after = cold(linked, saved, ".cfi_adjust_cfa_offset 8");
        is(&after, if linked { &[("f.cold+0xa", "no-instruction")] } else { &[] });
    }
}

/// The call never returns, and a jump with the row leads to the code after it. The row changes at the return of the call, and
/// is wrong only later for what comes from the call, as in `sysmalloc` of glibc for AArch64.
#[test]
#[ignore = "needs the reference tools"]
fn a_row_of_another_path_after_a_call_is_not_accused() {
    let tools = Tools::find();
    let text = "\
\t.text
\t.globl f
\t.type f, @function
f:
\t.cfi_startproc
\tsub $24, %rsp
\t.cfi_def_cfa_offset 32
\tmov %rbx, 8(%rsp)
\t.cfi_offset %rbx, -24
\tmov %edi, %ebx
\ttest %edi, %edi
\tjne 2f
\tmov 8(%rsp), %rbx
\t.cfi_remember_state
\t.cfi_restore %rbx
\ttest %esi, %esi
\tje 1f
\tadd $24, %rsp
\t.cfi_def_cfa_offset 8
\tret
2:\t.cfi_restore_state
\tcall never
\t.cfi_restore %rbx
1:\tmov %rbx, 8(%rsp)
\t.cfi_offset %rbx, -24
\tnop
\tcall __stack_chk_fail
\t.cfi_endproc
\t.size f, . - f
";
    is(&found(&tools, "other", text, false), &[]);
}

/// A handler of an exception with an error code, as gcc compiles it with the attribute `interrupt`.
const HANDLER: &str = "\
\t.text
\t.globl handler
\t.type handler, @function
handler:
\t.cfi_startproc
\t.cfi_def_cfa_offset 16
\tpush %rax
\t.cfi_def_cfa_offset 24
\t.cfi_offset %rax, -24
\tmov 8(%rsp), %rax
\tmov %rax, code(%rip)
\tpop %rax
\t.cfi_def_cfa_offset 16
\tadd $8, %rsp
\t.cfi_def_cfa_offset 8
\tiretq
\t.cfi_endproc
\t.size handler, . - handler
\t.comm code, 8
";

/// The processor pushes an error code after the return address, so the CFA of a right handler is 8 bytes higher than after a
/// call. A function that ends with `ret` is called.
#[test]
#[ignore = "needs the reference tools"]
fn handlers_with_an_error_code_are_entered_by_the_processor() {
    let tools = Tools::find();
    is(&found(&tools, "handler", HANDLER, false), &[]);
    let called = found(&tools, "handler-called", &HANDLER.replace("iretq", "ret"), false);
    is(&called, &[("handler", "entry"), ("handler+0x12", "return")]);
    let late = HANDLER.replace("\tadd $8, %rsp\n\t.cfi_def_cfa_offset 8\n", "\tadd $8, %rsp\n");
    is(&found(&tools, "handler-late", &late, false), &[("handler+0xe", "no-row")]);
}
