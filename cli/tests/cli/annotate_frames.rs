//! Tests `annotate` on frames that no frame pointer describes, and on system calls. The expected rows are directives by
//! hand, and gimli evaluates both.

use cfipack_tests::reference::Tools;

use crate::annotate::compare_text;
use crate::annotate_text::annotate;

const X86: &str = "as";
const AARCH64: &str = "aarch64-linux-gnu-as";

/// A trampoline whose arguments are as many as a register says. The CFA is in x22, and the return address in x20.
const INVOKE: &str = "
\t.text
\t.globl invoke
\t.type invoke, %function
invoke:
\t.cfi_startproc
\tsub sp, sp, #48
\t.cfi_def_cfa_offset 48
\tstp x19, x20, [sp, #32]
\t.cfi_offset x19, -16
\t.cfi_offset x20, -8
\tstp x21, x22, [sp, #16]
\t.cfi_offset x21, -32
\t.cfi_offset x22, -24
\tmov x19, x0
\tmov x20, x30
\tmov x22, sp
\tsub sp, sp, x2, lsl #3
\t.cfi_def_cfa_register x22
\tand sp, x22, #0xfffffffffffffff0
\tblr x19
\t.cfi_register x30, x20
\tmov sp, x22
\t.cfi_def_cfa_register sp
\tmov x30, x20
\t.cfi_restore x30
\tldp x21, x22, [sp, #16]
\t.cfi_restore x21
\t.cfi_restore x22
\tldp x19, x20, [sp, #32]
\t.cfi_restore x19
\t.cfi_restore x20
\tadd sp, sp, #48
\t.cfi_def_cfa_offset 0
\tret
\t.cfi_endproc
\t.size invoke, . - invoke
";

/// A generator's frame that is aligned. The old stack pointer is in rax, and then in memory at rsp+40: the CFA is
/// `*(rsp + 40) + 8`.
const ALIGNED: &str = "
\t.text
\t.globl aligned
\t.type aligned, @function
aligned:
\t.cfi_startproc
\tmov %rsp, %rax
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tsub $64, %rsp
\t.cfi_def_cfa_offset 80
\tand $-64, %rsp
\t.cfi_def_cfa %rax, 8
\tmov %rax, 40(%rsp)
\tmov %rdi, %rbx
\txor %eax, %eax
\t.cfi_escape 0x0f, 5, 0x77, 40, 0x06, 0x23, 8
\tcall other
\tmov 40(%rsp), %rsi
\tmov -8(%rsi), %rbx
\tlea (%rsi), %rsp
\t.cfi_def_cfa %rsp, 8
\t.cfi_restore %rbx
\tret
\t.cfi_endproc
\t.size aligned, . - aligned
";

/// A leaf that keeps a register of its caller in another register, and a function that keeps one in its aligned frame.
const ELSEWHERE: &str = "
\t.text
\t.globl leaf
\t.type leaf, @function
leaf:
\t.cfi_startproc
\tmov %rbx, %r11
\tmov (%rdi), %rbx
\t.cfi_register %rbx, %r11
\tlea (%rbx, %rsi), %rax
\tmov %r11, %rbx
\t.cfi_restore %rbx
\tret
\t.cfi_endproc
\t.size leaf, . - leaf
\t.globl inner
\t.type inner, @function
inner:
\t.cfi_startproc
\tpush %rbp
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbp, -16
\tmov %rsp, %rbp
\t.cfi_def_cfa_register %rbp
\tand $-32, %rsp
\tsub $64, %rsp
\tmov %rbx, 8(%rsp)
\tmov %rdi, %rbx
\t.cfi_escape 0x10, 3, 2, 0x77, 8
\tcall other
\tmov 8(%rsp), %rbx
\tleave
\t.cfi_restore %rbx
\t.cfi_def_cfa %rsp, 8
\tret
\t.cfi_endproc
\t.size inner, . - inner
";

#[test]
#[ignore = "needs the reference tools"]
fn frames_are_found_in_any_register_and_in_memory() {
    let tools = Tools::find();
    assert_eq!(compare_text(&tools, AARCH64, INVOKE, "invoke"), (1, 0));
    assert_eq!(compare_text(&tools, X86, ALIGNED, "aligned"), (1, 1));
    assert_eq!(compare_text(&tools, X86, ELSEWHERE, "elsewhere"), (2, 1));
}

/// The number of a system call is an argument: a wrapper, and a stub that a signal handler recognizes by its labels.
/// `vfork` keeps its return address in a register, because the child overwrites the stack.
const SYSTEM_CALLS: &str = "
\t.text
\t.globl wrapper
wrapper:
\t.cfi_startproc
\tmov %rdi, %rax
\tmov %rsi, %rdi
\tsyscall
\tret
\t.cfi_endproc
\t.globl cancellable, begin, end, cancel
\t.type cancellable, @function
cancellable:
begin:
\t.cfi_startproc
\tmov (%rdi), %eax
\ttest %eax, %eax
\tjnz cancel
\tmov %rsi, %rax
\tsyscall
end:
\tret
cancel:
\tjmp cancelled
\t.cfi_endproc
\t.globl child
\t.type child, @function
child:
\t.cfi_startproc
\tpop %rdx
\t.cfi_def_cfa_offset 0
\t.cfi_register %rip, %rdx
\tmov $58, %eax
\tsyscall
\tpush %rdx
\t.cfi_def_cfa_offset 8
\t.cfi_offset %rip, -8
\tmov %rax, %rdi
\tjmp result
\t.cfi_endproc
";

#[test]
#[ignore = "needs the reference tools"]
fn system_calls_stay_on_the_stack_if_the_function_only_returns() {
    let tools = Tools::find();
    assert_eq!(compare_text(&tools, X86, SYSTEM_CALLS, "system calls").0, 3);
    let wrapper = "
\t.text
\t.globl wrapper
wrapper:
\t.cfi_startproc
\tmov x8, x0
\tmov x0, x1
\tsvc #0
\tret
\t.cfi_endproc
";
    assert_eq!(compare_text(&tools, AARCH64, wrapper, "wrapper").0, 1);
}

/// After these system calls the code runs on another stack: `clone`, whose number is written to a part of a register, and
/// the return from a signal.
#[test]
#[ignore = "needs the reference tools"]
fn system_calls_that_change_the_stack_get_no_directives() {
    let tools = Tools::find();
    let text = "
\t.text
\t.type start, @function
start:
\txor %eax, %eax
\tmov $56, %al
\tsyscall
\ttest %eax, %eax
\tjnz 1f
\tpop %rdi
\tcall *%r9
\tmov %eax, %edi
\tmov $60, %eax
\tsyscall
\tud2
1:\tret
\t.type restore, @function
restore:
\tmov $15, %eax
\tsyscall
\tret
";
    let (annotated, report) = annotate(&tools, X86, text, text);
    assert_eq!(annotated, text);
    assert!(report.contains("text.s:7: start: not annotated: system-call (syscall)"), "{report}");
    assert!(report.contains("text.s:20: restore: not annotated: system-call (syscall)"), "{report}");
}

/// Parts of functions in a subsection, in another section and behind `.size`, with and without a frame. Each part has directives
/// of its own.
const PARTS: &str = "
\t.text
\t.globl one
\t.type one, @function
one:
\t.cfi_startproc
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tmov %rdi, %rbx
\ttest %rdi, %rdi
\tjz .Lone
.Lone_back:
\tcall other
\tpop %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.subsection 1
.Lone:
\t.cfi_startproc
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tmov $1, %edi
\tcall other
\tjmp .Lone_back
\t.cfi_endproc
\t.previous
\t.size one, . - one
\t.globl two
\t.type two, @function
two:
\t.cfi_startproc
\tpush %rbp
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbp, -16
\tmov %rsp, %rbp
\t.cfi_def_cfa_register %rbp
\ttest %rdi, %rdi
\tjz .Ltwo
.Ltwo_back:
\tcall other
\tpop %rbp
\t.cfi_def_cfa %rsp, 8
\tret
\t.cfi_endproc
\t.size two, . - two
\t.pushsection .text.unlikely,\"ax\",@progbits
.Ltwo:
\t.cfi_startproc
\t.cfi_def_cfa %rbp, 16
\t.cfi_offset %rbp, -16
\tmov $1, %edi
\tcall other
\tjmp .Ltwo_back
\t.cfi_endproc
\t.popsection
\t.globl three
\t.type three, @function
three:
\t.cfi_startproc
\ttest %rdi, %rdi
\tjz .Lthree
\tret
\t.cfi_endproc
\t.size three, . - three
.Lthree:
\t.cfi_startproc
\tpush %rax
\t.cfi_def_cfa_offset 16
\tcall other
\tpop %rax
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
";

#[test]
#[ignore = "needs the reference tools"]
fn each_part_of_a_function_has_directives() {
    let tools = Tools::find();
    assert_eq!(compare_text(&tools, "as", PARTS, "parts"), (6, 4));
}

/// A part that gets no directives takes them from its function. An alias is no name of the function, and a prefix none of
/// the instruction.
#[test]
#[ignore = "needs the reference tools"]
fn a_function_without_directives_for_a_part_gets_none() {
    let tools = Tools::find();
    let text = "
\t.globl f
\t.type f, @function
f:
\tpush %rax
\ttest %rdi, %rdi
\tjz .Lslow
\tpop %rax
\tret
\t.size f, . - f
\t.section .text.unlikely, \"ax\", @progbits
.Lslow:
\tnotrack jmp *%rdi
\tud2
\t.text
\t.globl own
\t.type own, @function
own:
\tmov %rdi, %rbx
\tlock incl (%rax)
\tret
\t.size own, . - own
\t.globl zalias
\t.set zalias, own
\t.type zalias, @function
";
    let (annotated, report) = annotate(&tools, "as", text, text);
    assert!(!annotated.contains(".cfi_startproc"), "{annotated}");
    for refused in
        ["7: f: not annotated: into-function (je)", "13: .Lslow: not annotated: indirect-jump (jmp)"]
    {
        assert!(report.contains(refused), "{report}");
    }
    assert!(report.contains("18: own: not annotated: saved-register-not-known (mov)"), "{report}");
}
