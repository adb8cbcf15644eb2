//! What `asm` warns of: functions for which gas's own table is another one, and what gas itself warns of.

use std::fs;

use crate::program::{scratch, transcript_in};

/// `nested` is corpora/known-errors/gas-restore, `right` has nothing that gas gets wrong.
const TEXT: &str = "\
\t.text
right:\t.cfi_startproc
\t.byte 0x90
\t.cfi_def_cfa_offset 16
\t.byte 0xc3
\t.cfi_endproc
nested:\t.cfi_startproc
\t.cfi_offset 6, -24
\t.byte 0x90
\t.cfi_offset 6, -16
\t.byte 0x90
\t.cfi_restore 6
\t.byte 0xc3
\t.cfi_endproc
escape:\t.cfi_startproc
\t.byte 0x90
\t.cfi_escape 0x100
\t.byte 0xc3
\t.cfi_endproc
";

#[test]
fn warnings_of_layout_gnu() {
    let directory = scratch("asm-warnings");
    fs::write(directory.join("f.s"), TEXT).unwrap();
    let common = ["asm", "f.s", "--arch", "x86_64", "--format", "elf", "--section", "table"];
    let run = |more: &[&str]| transcript_in(&directory, &[&common[..], more].concat());
    insta::assert_snapshot!(
        [run(&["--layout", "gnu"]), run(&["--layout", "gnu", "--json"]), run(&[])].join("\n")
    );
}
