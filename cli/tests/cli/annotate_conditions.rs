//! Tests `annotate` on texts with conditions: the result also assembles in other configurations, where directives are
//! balanced. Tests that each refusal names the line and the instruction that shows its reason.

use cfipack_tests::reference::Tools;

use crate::annotate_text::annotate;
use crate::program::command;

/// `f` ends in an arm, and a directive of `k` would stand in one. The places before the arms of `g` and `i` are free. `h` needs
/// no directives in arms, and `j` is in an arm with all of its directives.
const CONDITIONS: &str = "
\t.type f, @function
f:\tpush %rax
\tpop %rax
IF
\tret
ELSE
\tjmp h
ENDIF
\t.size f, . - f
\t.type g, @function
g:\tpush %rbx
IF
\tmov %rdi, %rbx
ENDIF
\tpop %rbx
\tret
\t.size g, . - g
\t.type h, @function
h:\tpush %rbx
\tnop
IF
\tmov %rdi, %rbx
ELSE
\tmov %rsi, %rbx
ENDIF
\tnop
\tpop %rbx
\tret
\t.size h, . - h
\t.type i, @function
i:
IF
\tnop
ENDIF
\tret
\t.size i, . - i
\t.type k, @function
k:\tpush %rbx
\tjmp 2f
1:\tpop %rbx
\tret
2:
IF
\tmov %rdi, %rbx
ENDIF
\tjmp 1b
\t.size k, . - k
IF
\t.type j, @function
j:\tpush %rbx
\tpop %rbx
\tret
\t.size j, . - j
ENDIF
\tnop
";

/// Returns the text with conditions of the assembler, or of the preprocessor.
fn text(of: [&str; 3]) -> String {
    let [first, other, end] = of;
    CONDITIONS.replace("ENDIF", end).replace("ELSE", other).replace("IF", first)
}

fn check(annotated: &str, report: &str) {
    for refused in ["6: f: not annotated: in-condition (ret)", ": k: not annotated: in-condition (mov)"] {
        assert!(report.contains(refused), "{report}");
    }
    let starts = annotated.match_indices(".cfi_startproc\n").map(|(start, found)| start + found.len());
    let names: Vec<_> = starts.map(|start| &annotated[start..=start]).collect();
    assert_eq!(names, ["g", "h", if annotated.contains("#if") { "#" } else { "\t" }, "j"], "{annotated}");
}

#[test]
#[ignore = "needs the reference tools"]
fn directives_stand_outside_of_the_assemblers_conditions() {
    let tools = Tools::find();
    let text = text(["\t.ifndef OFF", "\t.else", "\t.endif"]);
    let (annotated, report) = annotate(&tools, "as", &text, &text);
    check(&annotated, &report);
    // The other configuration.
    tools.write("text.s", &text);
    for name in ["text", "annotated"] {
        let (source, object) = (format!("{name}.s"), format!("{name}.off.o"));
        tools.run_well(&["as", "--defsym", "OFF=1", "-o", &object, &source]);
        tools.run_well(&["objcopy", "-O", "binary", "-j", ".text", &object, name]);
    }
    assert_eq!(tools.read("text"), tools.read("annotated"));
    let fdes = tools.print(&["readelf", "--debug-dump=frames", "annotated.off.o"]);
    assert_eq!(fdes.matches(" FDE ").count(), 3, "{fdes}");
}

#[test]
#[ignore = "needs the reference tools"]
fn directives_stand_outside_of_the_preprocessors_conditions() {
    let tools = Tools::find();
    let text = text(["#ifndef OFF", "#else", "#endif"]);
    tools.write("text.S", &text);
    tools.run_well(&["gcc", "-g", "-c", "text.S", "-o", "text.o"]);
    let path = |name: &str| tools.path(name).to_str().unwrap().to_owned();
    let arguments = ["annotate", &path("text.S"), "--object", &path("text.o"), "-o", &path("out.S")];
    let output = command(&arguments).output().unwrap();
    let annotated = String::from_utf8(tools.read("out.S")).unwrap();
    check(&annotated, &String::from_utf8(output.stderr).unwrap());
    for option in ["-DOFF", "-UOFF"] {
        tools.run_well(&["gcc", option, "-c", "out.S", "-o", "out.o"]);
    }
}

/// Each function is refused at the line with its name as the comment.
const REFUSED: &str = "
\t.globl pop_rsp
\t.type pop_rsp, @function
pop_rsp:
\tpush %rbx
\tmov %rsp, %rax
\tpush %rax
\tcall other
\tpop %rsp # pop_rsp: cfa-not-known (pop)
\tpop %rbx
\tret
\t.size pop_rsp, . - pop_rsp
\t.globl entered
\t.type entered, @function
entered:
\tpush %rax
\tmov $1, %eax # entered: entered-elsewhere (mov)
\tpop %rdx
\tret
\t.size entered, . - entered
\t.globl enters
\t.type enters, @function
enters:
\tnop
\tcall entered + 1
\tret
\t.size enters, . - enters
\t.globl calls
\t.type calls, @function
calls:
\tpush %rax
\tcall loses # calls: odd-call (call)
\tpop %rax
\tret
\t.size calls, . - calls
\t.type loses, @function
loses:
\tnop
\tmov %rax, %rbx # loses: saved-register-not-known (mov)
\tnop
\tret
\t.size loses, . - loses
";

#[test]
#[ignore = "needs the reference tools"]
fn refusals_name_the_instruction_that_shows_the_reason() {
    let tools = Tools::find();
    let (_, report) = annotate(&tools, "as", REFUSED, REFUSED);
    for (number, line) in REFUSED.lines().enumerate() {
        let Some((_, comment)) = line.split_once("# ") else { continue };
        let (name, reason) = comment.split_once(": ").unwrap();
        let expected = format!("text.s:{}: {name}: not annotated: {reason}\n", number + 1);
        assert!(report.contains(&expected), "{expected}{report}");
    }
}

/// A function that `hlt` ends, and one with `enter`.
#[test]
#[ignore = "needs the reference tools"]
fn enter_and_hlt_are_followed() {
    let tools = Tools::find();
    let text = "
\t.globl f
\t.type f, @function
f:\tenter $32, $0
\tcall g
\tleave
\tret
\t.size f, . - f
\t.globl g
\t.type g, @function
g:\tpush %rbx
\tcall abort
\thlt
\t.size g, . - g
";
    let (annotated, report) = annotate(&tools, "as", text, text);
    assert!(report.contains("2 functions annotated"), "{report}");
    assert!(annotated.contains("\t.cfi_def_cfa %rbp, 16\n\t.cfi_offset %rbp, -16\n\tcall g"), "{annotated}");
}

/// Macros of an included file are in no definition of the text.
#[test]
#[ignore = "needs the reference tools"]
fn macros_of_included_files_are_no_other_text() {
    let tools = Tools::find();
    let header = "
#define SAVE push %rbx; push %r12
#define save_more(register) push register
#define RESTORE pop %r12; pop %rbx
";
    let text = "
#include \"header.h\"
\t.type f, @function
f:
\tSAVE
\tsave_more(%r13)
\tmov %rdi, %rbx
\tpop %r13
\tRESTORE
\tret
\t.size f, . - f
";
    tools.write("header.h", header);
    tools.write("text.S", text);
    tools.run_well(&["gcc", "-g", "-c", "text.S", "-o", "text.o"]);
    let path = |name: &str| tools.path(name).to_str().unwrap().to_owned();
    let output = command(&["annotate", &path("text.S"), "--object", &path("text.o")]).output().unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    // Inside of the macro's line, the second `push` has no place.
    assert!(report.contains("text.S:5: f: not annotated: inside-a-line (push)"), "{report}");
}
