//! Tests `annotate` on texts as people write them: where directives go, and which texts get none. gas assembles each
//! result.

use cfipack_tests::reference::Tools;

use crate::program::command;

/// Annotates `text` with the object of `of_object`, and has gas assemble the result. Returns the result and the report.
pub fn annotate(tools: &Tools, assembler: &str, of_object: &str, text: &str) -> (String, String) {
    tools.write("text.s", of_object);
    tools.run_well(&[assembler, "-g", "-o", "text.o", "text.s"]);
    tools.write("text.s", text);
    let path = |name: &str| tools.path(name).to_str().unwrap().to_owned();
    let arguments =
        ["annotate", &path("text.s"), "--object", &path("text.o"), "--output", &path("annotated.s")];
    let output = command(&arguments).output().unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{report}");
    tools.run_well(&[assembler, "-o", "annotated.o", "annotated.s"]);
    (String::from_utf8(tools.read("annotated.s")).unwrap(), report)
}

const FUNCTION: &str = "
\t.type f, @function
f:
\tpush %rbx
\tmov %rdi, %rbx
\tmov %rdi, %rax
\tmov %rdi, %rcx
\tmov %rdi, %rdx
\tcall g
\tpop %rbx
\tret
\t.size f, . - f
";

/// With one line added, most lines still match the object's instructions by name. The text must be refused all the same.
#[test]
#[ignore = "needs the reference tools"]
fn a_text_with_one_line_more_gets_no_directives() {
    let tools = Tools::find();
    for (before, more) in [("\tmov %rdi, %rdx\n", "# more\n"), ("\tret\n", "\n"), ("\t.type", "# more\n")] {
        let changed = FUNCTION.replacen(before, &format!("{more}{before}"), 1);
        let (annotated, report) = annotate(&tools, "as", FUNCTION, &changed);
        assert_eq!(annotated, changed);
        assert!(report.contains("f: not annotated: other-text"), "{report}");
    }
    assert!(annotate(&tools, "as", FUNCTION, FUNCTION).1.contains("1 function annotated"));
}

/// A macro call, or an instruction with a negative operand, does not have the name that the disassembled instruction has.
#[test]
#[ignore = "needs the reference tools"]
fn functions_that_are_mostly_macros_are_of_their_text() {
    let tools = Tools::find();
    let text = "
\t.macro save a, b
\tstp \\a, \\b, [sp, #-16]!
\t.endm
\t.macro reload a, b
\tldp \\a, \\b, [sp], #16
\t.endm
\t.type f, %function
f:
\tsave x29, x30
\tmov x29, sp
\tsave x19, x20
\tldr x0, [x1, #8]
\tldr x0, [x1, #-8]
\tadd x0, x0, #8
\tadd x0, x0, #-8
\tbl g
\treload x19, x20
\treload x29, x30
\tret
\t.size f, . - f
";
    let (annotated, report) = annotate(&tools, "aarch64-linux-gnu-as", text, text);
    assert!(report.contains("1 function annotated"), "{report}");
    let expected =
        "\tsave x29, x30\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset x29, -16\n\t.cfi_offset x30, -8\n";
    assert!(annotated.contains(expected), "{annotated}");
}

/// The directive that ends a function is neither put into a comment nor into another section.
#[test]
#[ignore = "needs the reference tools"]
fn ends_stand_after_comments_and_before_sections() {
    let tools = Tools::find();
    let text = "
\t.type f, @function
f:\tret /* a comment
 of two lines */
\t.type g, @function
g:\tret; /* a comment
 of two lines */ .size g, . - g
\t.pushsection .text.h, \"ax\"
\t.type h, @function
h:\tret; .size h, . - h; .popsection
\tnop
";
    let (annotated, report) = annotate(&tools, "as", text, text);
    assert!(report.contains("3 functions annotated"), "{report}");
    for expected in [
        " of two lines */\n\t.cfi_endproc\n\t.type g",
        " of two lines */ .cfi_endproc; .size g",
        "h:\tret; .cfi_endproc; .size h, . - h; .popsection\n",
    ] {
        assert!(annotated.contains(expected), "{annotated}");
    }
}

/// New lines end as the text's lines do (LF or CRLF), even after a last line without an end.
#[test]
#[ignore = "needs the reference tools"]
fn line_ends_are_those_of_the_text() {
    let tools = Tools::find();
    let text = "\t.type f, @function\r\nf:\r\n\tret";
    let (annotated, _) = annotate(&tools, "as", text, text);
    assert_eq!(annotated, "\t.type f, @function\r\nf:\r\n\t.cfi_startproc\r\n\tret\r\n\t.cfi_endproc\r\n");
}

/// `g` may be called from elsewhere too, although `f` enters it by a jump with a frame in place.
#[test]
#[ignore = "needs the reference tools"]
fn functions_begin_as_calls_enter_them() {
    let tools = Tools::find();
    let text = "
\t.type f, @function
f:\tpush %rbp
\tmov %rsp, %rbp
\tjmp g
\t.size f, . - f
\t.globl g
\t.type g, @function
g:\tpop %rbp
\tret
\t.size g, . - g
";
    let (annotated, report) = annotate(&tools, "as", text, text);
    assert!(report.contains("g: not annotated: entered-elsewhere"), "{report}");
    assert!(annotated.ends_with("\t.globl g\n\t.type g, @function\ng:\tpop %rbp\n\tret\n\t.size g, . - g\n"));
}

/// `.ascii` writes the bytes of a `mov`. The `mov` statement after it must not be taken for that instruction.
#[test]
#[ignore = "needs the reference tools"]
fn bytes_of_strings_are_no_statement() {
    let tools = Tools::find();
    let text = "
\t.type f, @function
f:\tpush %rbx; .ascii \"\\211\\370\"; mov %rdi, %rdx
\tpop %rbx
\tret
\t.size f, . - f
";
    let (annotated, report) = annotate(&tools, "as", text, text);
    assert!(report.contains("f: not annotated: "), "{report}");
    assert_eq!(annotated, text);
}

/// `as` would refuse the comment, but the preprocessor removes it first.
#[test]
#[ignore = "needs the reference tools"]
fn comments_of_the_preprocessor_hide_what_is_in_them() {
    let tools = Tools::find();
    let text = FUNCTION.replacen("%rbx\n", "%rbx // /* don't\n", 1);
    let source = tools.path("text.s");
    tools.write("text.s", FUNCTION);
    tools.run_well(&["as", "-g", "-o", "text.o", "text.s"]);
    tools.write("text.s", &text);
    let object = tools.path("text.o");
    let arguments = ["annotate", source.to_str().unwrap(), "--object", object.to_str().unwrap()];
    let output = command(&arguments).output().unwrap();
    let annotated = String::from_utf8(output.stdout).unwrap();
    assert!(annotated.contains("don't\n\t.cfi_def_cfa_offset 16\n"), "{annotated}");
}

/// A prefix may have a line of its own, and a directive may precede code on the same line.
#[test]
#[ignore = "needs the reference tools"]
fn prefixes_and_directives_are_of_their_text() {
    let tools = Tools::find();
    let text = "
\t.text; .globl f
\t.type f, @function
\t.globl g; f:\tlock; incl (%rdi)
\tlock
\tincl (%rdi)
\trep movsb
\trep
\tmovsb
\tret
\t.size f, . - f
";
    let (annotated, _) = annotate(&tools, "as", text, text);
    assert!(annotated.contains("\t.globl g; f:\t.cfi_startproc; lock; incl (%rdi)\n"), "{annotated}");
    let text = text.replace("\t.globl g; ", "");
    let (_, report) = annotate(&tools, "as", &text, &text);
    assert!(report.contains("1 function annotated"), "{report}");
}
