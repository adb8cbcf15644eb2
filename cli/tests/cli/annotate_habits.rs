//! Tests `annotate` on the habits of generators of assembler and of people: instructions as data, labels without a type,
//! repeated text. The expected rows are directives by hand, and gimli evaluates both.

use cfipack_tests::reference::Tools;

use crate::annotate::compare_text;
use crate::annotate_text::annotate;

const X86: &str = "as";
const AARCH64: &str = "aarch64-linux-gnu-as";

/// Generators write `endbr64` as bytes, which the line table does not mention. Data in another section stands between the
/// functions.
const ENDBR: &str = "
\t.text
\t.globl first
\t.type first, @function
first:
\t.cfi_startproc
\t.byte 0xf3,0x0f,0x1e,0xfa
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tcall other
\tpop %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size first, . - first
\t.section .rodata
\t.p2align 4
table:\t.long 1
\t.byte 1
\t.previous
\t.globl second
\t.type second, @function
second:
\t.cfi_startproc
\t.byte 243,15,30,250
\t.byte 0x48,0x89,0xf8
\tsub $8, %rsp
\t.cfi_def_cfa_offset 16
\tcall other
\tadd $8, %rsp
\t.cfi_def_cfa_offset 8
\t.byte 0xf3,0xc3
\t.cfi_endproc
\t.size second, . - second
";

#[test]
#[ignore = "needs the reference tools"]
fn functions_that_begin_with_data_begin_at_their_labels() {
    let tools = Tools::find();
    assert_eq!(compare_text(&tools, X86, ENDBR, "endbr"), (2, 2));
}

/// Macros of the preprocessor make the label and the first instruction.
#[test]
#[ignore = "needs the reference tools"]
fn macros_may_make_a_label_and_its_data() {
    let tools = Tools::find();
    let text = "
#define SYMBOL(name) of_##name
#define VALID_TARGET .byte 0xf3,0x0f,0x1e,0xfa
\t.text
\t.globl SYMBOL(add)
\t.type SYMBOL(add), @function
SYMBOL(add):
\tVALID_TARGET
#if WINDOWS
\tpush %rdi
#endif
\tpush %r12
\tcall other
\tpop %r12
\tret
\t.size SYMBOL(add), . - SYMBOL(add)
";
    tools.write("text.S", text);
    tools.run_well(&["gcc", "-g", "-c", "text.S", "-o", "text.o"]);
    let path = |name: &str| tools.path(name).to_str().unwrap().to_owned();
    let arguments =
        ["annotate", &path("text.S"), "--object", &path("text.o"), "--strict", "-o", &path("out.S")];
    let output = crate::program::command(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let annotated = String::from_utf8(tools.read("out.S")).unwrap();
    let expected = text
        .replace("(add):\n", "(add):\n\t.cfi_startproc\n")
        .replace("\tcall", "\t.cfi_def_cfa_offset 16\n\t.cfi_offset %r12, -16\n\tcall")
        .replace("\tret\n", "\t.cfi_def_cfa_offset 8\n\tret\n\t.cfi_endproc\n");
    assert_eq!(annotated, expected);
    tools.run_well(&["gcc", "-c", "out.S", "-o", "out.o"]);
}

/// A label in a condition of the preprocessor may not exist.
#[test]
#[ignore = "needs the reference tools"]
fn a_label_in_a_condition_is_no_place() {
    let tools = Tools::find();
    let text = "
\t.text
\t.globl f
\t.type f, @function
#if 1
f:
#else
f_: 
#endif
\t.byte 0xf3,0x0f,0x1e,0xfa
\tpush %r12
\tpop %r12
\tret
\t.size f, . - f
";
    tools.write("text.S", text);
    tools.run_well(&["gcc", "-g", "-c", "text.S", "-o", "text.o"]);
    let path = |name: &str| tools.path(name).to_str().unwrap().to_owned();
    let output =
        crate::program::command(&["annotate", &path("text.S"), "--object", &path("text.o")]).output();
    let output = output.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(report.contains("text.S:12: f: not annotated: in-condition (pop)"), "{report}");
}

/// A disassembler shows other names than people write: `cmn` for `adds xzr`, `neg` for `sub` from `xzr`, `mov` for `add` to
/// the stack pointer. The plain names occur too. Two labels are one function.
const ALIASES: &str = "
\t.text
\t.globl f
\t.type f, %function
\t.globl same
\t.type same, %function
f:
same:
\t.cfi_startproc
\tsub sp, sp, #32
\t.cfi_def_cfa_offset 32
\tstp x29, x30, [sp, #16]
\t.cfi_offset x29, -16
\t.cfi_offset x30, -32 + 24
\tadds x3, x4, x5
\tadds xzr, x6, x6
\tsub x1, xzr, x2
\tsub x1, x3, x2
\tadd x1, sp, #0
\tand x1, x1, x2
\tands xzr, x1, x2
\torr x1, xzr, x2
\torr x1, x1, x2
\tubfm x1, x2, #3, #63
\tmadd x1, x2, x3, xzr
\tcsinc x1, xzr, xzr, ne
\tldrb w1, [x2, -1]
\tldrh w1, [x2, -1]
\tldrsb x1, [x2, -1]
\tldrsh x1, [x2, -1]
\tldrsw x1, [x2, -1]
\tldr x1, [x2, -1]
\tstrb w1, [x2, -1]
\tstrh w1, [x2, -1]
\tstr x1, [x2, -1]
\tblo 1f
\tb.hs 1f
1:\tbl other
\tldp x29, x30, [sp, #16]
\t.cfi_restore x29
\t.cfi_restore x30
\tadd sp, sp, #32
\t.cfi_def_cfa_offset 0
\tret
\t.cfi_endproc
\t.size f, . - f
\t.size same, . - same
";

#[test]
#[ignore = "needs the reference tools"]
fn aliases_are_the_same_instruction() {
    let tools = Tools::find();
    assert_eq!(compare_text(&tools, AARCH64, ALIASES, "aliases"), (1, 1));
}

/// Global labels, and a label that only a call in the file shows, without `.type`. A local label and padding are inside
/// one of the functions.
const NO_TYPE: &str = "
\t.text
\t.globl mix
mix:
\t.cfi_startproc
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tmov %rdi, %rbx
\t.p2align 4
again:
\tcall inner
\tdec %rbx
\tjnz again
\tpop %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
inner:
\t.cfi_startproc
\tpush %r12
\t.cfi_def_cfa_offset 16
\t.cfi_offset %r12, -16
\tcall other
\tpop %r12
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
";

#[test]
#[ignore = "needs the reference tools"]
fn labels_without_a_type_are_functions_if_a_call_can_arrive() {
    let tools = Tools::find();
    assert_eq!(compare_text(&tools, X86, NO_TYPE, "no type").0, 2);
}

/// A loop that is entered in the middle, and whose jump back is thousands of bytes after the function's start. The
/// function has no type, but a call leads to it.
#[test]
#[ignore = "needs the reference tools"]
fn long_loops_that_are_entered_in_the_middle_are_one_function() {
    let tools = Tools::find();
    let text = "
\t.text
\t.globl f
\t.type f, @function
f:
\t.cfi_startproc
\tpush %rax
\t.cfi_def_cfa_offset 16
\tcall loop
\tpop %rax
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size f, . - f
loop:
\t.cfi_startproc
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tmov $3, %ebx
\tjmp middle
again:
\tcall other
middle:
\t.rept 2000
\tadd %rax, %rax
\t.endr
\tdec %ebx
\tjnz again
\tpop %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
";
    assert_eq!(compare_text(&tools, X86, text, "loop"), (2, 1));
}

/// A call may arrive at a global label in the middle of a frame, so neither of the two parts gets directives. The report
/// names the labels and what is missing.
#[test]
#[ignore = "needs the reference tools"]
fn code_that_is_no_function_by_itself_needs_a_type() {
    let tools = Tools::find();
    let text = "
\t.text
\t.globl outer
outer:
\tpush %rbx
\t.globl middle
middle:
\tcall other
\tpop %rbx
\tret
\t.globl tail
tail:
\tjmp *%rax
";
    let (annotated, report) = annotate(&tools, X86, text, text);
    assert_eq!(annotated, text);
    for (line, name) in [(4, "outer"), (7, "middle"), (12, "tail")] {
        let expected =
            format!("text.s:{line}: {name}: not annotated: no-type, '.type {name}, %function' is missing");
        assert!(report.contains(&expected), "{report}");
    }
}

/// Compilers without CFI write `.loc` with the lines of their own source, so the line table does not name the text.
const OF_COMPILER: &str = "
\t.file 1 \"a.ha\"
\t.section \".text.f\",\"ax\"
\t.globl f
f:
\t.cfi_startproc
\tpushq %rbp
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbp, -16
\tmovq %rsp, %rbp
\t.cfi_def_cfa_register %rbp
\tsubq $8, %rsp
\tpushq %rbx
\t.cfi_offset %rbx, -32
\tmovl %edi, %ebx
\t.loc 1 7 3
\t.loc 1 7 9
.Lbb1:
\tcallq g
\t.loc 1 8 1
\tcmpl $1, %ebx
\tjz .Lbb1
\tpopq %rbx
\tleave
\t.cfi_restore %rbx
\t.cfi_def_cfa %rsp, 8
\tret
\t.cfi_endproc
.type f, @function
.size f, .-f
";

#[test]
#[ignore = "needs the reference tools"]
fn texts_with_lines_of_another_source_are_walked() {
    let tools = Tools::find();
    let text = OF_COMPILER.replace("\t.section \".text.f\",\"ax\"\n", "\t.text\n");
    assert_eq!(compare_text(&tools, X86, &text, "compiler").0, 1);
    let bare: Vec<_> = OF_COMPILER.lines().filter(|line| !line.contains(".cfi_")).collect();
    let bare = bare.join("\n") + "\n";
    let (annotated, report) = annotate(&tools, X86, &bare, &bare);
    assert!(report.contains("1 function annotated"), "{report}");
    // A text with another statement is not the object's.
    let changed = bare.replace("\tmovl %edi, %ebx\n", "\tmovl %edi, %ebx\n\tnegl %ebx\n");
    let (same, report) = annotate(&tools, X86, &bare, &changed);
    assert_eq!(same, changed);
    assert!(report.contains("text.s:5: f: not annotated: no-line (mov)"), "{report}");
    assert_ne!(annotated, bare);
}

/// A refusal names the line and the instruction that show the reason, not only the function.
#[test]
#[ignore = "needs the reference tools"]
fn refusals_name_the_line_and_the_instruction() {
    let tools = Tools::find();
    let text = "
\t.text
\t.type switch, @function
switch:
\tpush %rbx
\tmov %rsp, (%rdi)
\tmov (%rsi), %rsp
\tpop %rbx
\tret
\t.type caller, @function
caller:
\tpush %rax
\tcall switch
\tpop %rax
\tret
";
    let (_, report) = annotate(&tools, X86, text, text);
    assert!(report.contains("text.s:7: switch: not annotated: cfa-not-known (mov)"), "{report}");
}

/// A macro changes the section after the last instruction, so that the end of the function would be in `.rodata`.
#[test]
#[ignore = "needs the reference tools"]
fn directives_stay_in_the_section_of_the_function() {
    let tools = Tools::find();
    let text = "
\t.macro finish
\tret
\t.section .rodata
\t.endm
\t.text
\t.type f, @function
f:
\tpush %rbx
\tcall g
\tpop %rbx
\tfinish
\t.data
\t.long 1
";
    let (annotated, report) = annotate(&tools, X86, text, text);
    assert_eq!(annotated, text);
    assert!(report.contains("text.s:12: f: not annotated: interleaved (ret)"), "{report}");
    let balanced = text.replace("\t.section .rodata\n", "\t.pushsection .rodata\n\t.byte 1\n\t.popsection\n");
    let (annotated, report) = annotate(&tools, X86, &balanced, &balanced);
    assert!(report.contains("1 function annotated"), "{report}");
    assert!(annotated.contains("\tfinish\n\t.cfi_endproc\n\t.data\n"), "{annotated}");
}

/// The assembler would repeat directives in a body that it repeats.
#[test]
#[ignore = "needs the reference tools"]
fn no_directives_are_repeated() {
    let tools = Tools::find();
    let text = "
\t.text
\t.type f, @function
f:
\t.rept 2
\tpush %rbx
\tpop %rbx
\t.endr
\tret
\t.type g, @function
g:
\t.rept 2
\tnop
\t.endr
\tret
\t.type h, @function
h:
\tpush %r12
\t.rept 2
\tnop
\t.endr
\tpop %r12
\tret
";
    let (annotated, report) = annotate(&tools, X86, text, text);
    assert!(report.contains("f: not annotated: repeated-line (pop)"), "{report}");
    assert!(annotated.contains("g:\n\t.cfi_startproc\n\t.rept"), "{annotated}");
    assert!(
        annotated.contains("\tpush %r12\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %r12, -16\n\t.rept"),
        "{annotated}"
    );
    assert!(!annotated.contains(".rept 2\n\t.cfi_"), "{annotated}");
}
