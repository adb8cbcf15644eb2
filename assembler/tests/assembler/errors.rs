//! Errors of assembler text that cannot be read exactly: all of them, each with its place.

use cfipack_assembler::text::Reader;
use cfipack_format::Arch;

fn errors(arch: Arch, text: &str) -> String {
    match Reader::new(arch).read(text.as_bytes()) {
        Ok(unit) => panic!("no errors: {unit:?}"),
        Err(errors) => errors.print("f.s"),
    }
}

#[test]
fn all_errors_have_line_column_and_caret() {
    let text = "\
\t.text
\t.cfi_def_cfa_offset 16
f:\t.cfi_startproc
\tpushq %rbp
\t.byte 1; .cfi_offset %rpb, -16; .cfi_offset 6, -16
\t.cfi_restore_state
\t.cfi_adjust_cfa_offset 8 + x
\t.cfi_frob 1
\t.cfi_val_encoded_addr 1, 2, 3
\t.macro m
\t.cfi_endproc 1
\t.popsection
g:\t.cfi_startproc
";
    let expected = "\
f.s:2:9: error: CFI instruction used without previous .cfi_startproc
    2 |         .cfi_def_cfa_offset 16
      |         ^~~~~~~~~~~~~~~~~~~
f.s:4:9: error: the size of the instruction `pushq` is the assembler's to find: give its listing (as -aclmn=FILE --listing-rhs-width=200)
    4 |         pushq %rbp
      |         ^~~~~
f.s:5:30: error: bad register expression
    5 |         .byte 1; .cfi_offset %rpb, -16; .cfi_offset 6, -16
      |                              ^~~~
f.s:6:9: error: CFI state restore without previous remember
    6 |         .cfi_restore_state
      |         ^~~~~~~~~~~~~~~~~~
f.s:7:32: error: bad expression: a number, or symbols with known numbers, is expected
    7 |         .cfi_adjust_cfa_offset 8 + x
      |                                ^~~~~
f.s:8:9: error: unknown CFI directive .cfi_frob
    8 |         .cfi_frob 1
      |         ^~~~~~~~~
f.s:9:9: error: .cfi_val_encoded_addr is not supported
    9 |         .cfi_val_encoded_addr 1, 2, 3
      |         ^~~~~~~~~~~~~~~~~~~~~
f.s:10:9: error: the size of `.macro` is the assembler's to find: give its listing (as -aclmn=FILE --listing-rhs-width=200)
   10 |         .macro m
      |         ^~~~~~
f.s:11:22: error: junk after the last operand
   11 |         .cfi_endproc 1
      |                      ^
f.s:12:9: error: no section to go back to
   12 |         .popsection
      |         ^~~~~~~~~~~
f.s:13:4: error: previous CFI entry not closed (missing .cfi_endproc)
   13 | g:      .cfi_startproc
      |         ^~~~~~~~~~~~~~
f.s:13:4: error: open CFI at the end of file; missing .cfi_endproc directive
   13 | g:      .cfi_startproc
      |         ^~~~~~~~~~~~~~
";
    let expected = expected.replace("f.s:13:4:", "f.s:13:9:");
    assert_eq!(errors(Arch::Amd64, text), expected);
}
