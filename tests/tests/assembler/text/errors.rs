//! Listings that are not exact are errors.

use cfipack_assembler::Dialect;
use cfipack_assembler::text::{Problem, Reader, Unit};
use cfipack_format::Arch;
use cfipack_tests::reference::Tools;
use object::{Object as _, ObjectSection as _};

fn listed(tools: &Tools, text: &str, options: &[&str]) -> Result<Unit, Vec<Problem>> {
    tools.write("f.s", text);
    // gas lists what it cannot assemble, too.
    tools.run(&[&["as"], options, &["f.s", "-o", "f.o"]].concat());
    let listing = tools.read("f.lst");
    let result = Reader::new(Arch::Amd64).read(&listing);
    result.map_err(|errors| errors.list().iter().map(|error| error.problem.clone()).collect())
}

const M: &str = "-aclmn=f.lst";

/// A listing that does not have the offset of a directive is never guessed at.
#[test]
#[ignore = "needs the reference tools"]
fn listings_that_are_not_exact_are_refused() {
    let tools = Tools::find();
    let function = |body: &str| format!("\t.text\nf:\t.cfi_startproc\n{body}\t.cfi_endproc\n");
    let refuses = |body: &str, options: &[&str], problem: &Problem| {
        let found = listed(&tools, &function(body), options);
        match found {
            Err(problems) => assert!(problems.contains(problem), "{body}: {problems:?}"),
            Ok(unit) => panic!("{body}: {unit:?}"),
        }
    };
    let takes = |body: &str, options: &[&str], size: u64, directives: usize| {
        let unit = listed(&tools, &function(body), options).unwrap_or_else(|why| panic!("{body}: {why:?}"));
        let function = &unit.functions[0].directives;
        assert_eq!((function.code_len(), function.placed().len()), (size, directives), "{body}");
    };
    let adjust = "\t.cfi_adjust_cfa_offset 8\n";
    let macros = format!("\t.macro m\n\tnop\n{adjust}\t.endm\n\tm\n\tm\n");
    refuses(&macros, &["-aln=f.lst"], &Problem::HiddenMacro("m".into()));
    takes(&macros, &[M], 2, 2);
    let repeated = format!("l:\t.rept 3\n\tnop\n{adjust}\t.endr\n\tret\n");
    refuses(&repeated, &["-aln=f.lst"], &Problem::HiddenMacro(".rept".into()));
    takes(&repeated, &[M], 4, 3);
    takes("\t.rept 3\n\tnop\n\t.endr\n", &["-aln=f.lst"], 3, 0);
    refuses(&format!("\tnop; {} ; nop\n", adjust.trim()), &[M], &Problem::BetweenInstructions);
    takes(&format!("{0} ; nop; {0}\n", adjust.trim()), &[M], 1, 2);
    refuses("\t.nolist\n\tnop\n\t.list\n", &[M], &Problem::ListControl);
    refuses("\tfrobnicate\n\tnop\n", &[M], &Problem::NotAssembled);
    refuses("\tret\n\t.skip 100\n", &[M], &Problem::CutBytes);
    takes("\tret\n\t.skip 100\n", &[M, "--listing-cont-lines=100"], 101, 0);
    // So many bytes that a listing of gas's default would end there, whether or not there are more.
    refuses("\tret\n\t.skip 18\n", &[M], &Problem::CutBytes);
    takes("\t.skip 100\n\t.skip 18\n", &[M, "--listing-cont-lines=100"], 118, 0);
    refuses("\tret\n\t.nops 100\n", &[M], &Problem::CutBytes);
    takes("\tret\n\t.nops 100\n\tret\n", &[M], 102, 0);
    let long = format!("\tcall {}\n", "x".repeat(300));
    refuses(&long, &[M, "--listing-rhs-width=200"], &Problem::CutLine);
    // Conditions: with a constant, with an instruction that shows what was assembled, and with neither.
    let condition = |condition: &str, body: &str| {
        format!("\tret\n\t.if {condition}\n{body}\t.else\n\tnop\n\t.endif\n\tret\n")
    };
    for option in [M, "-aln=f.lst"] {
        takes(&condition("0", adjust), &[option], 3, 0);
        takes(&condition("3 - 1", adjust), &[option], 2, 1);
        takes(&condition("f - f", &format!("\tnop\n{adjust}")), &[option], 3, 0);
        takes(&condition("1 + f - f", &format!("\tnop\n{adjust}")), &[option], 3, 1);
        refuses(&condition("1 + f - f", adjust), &[option], &Problem::Condition);
    }
}

#[test]
#[ignore = "needs the reference tools"]
fn the_source_fills_what_a_listing_cuts() {
    let tools = Tools::find();
    let name = "n".repeat(250);
    let text = format!(
        "\t.section .text.{name},\"axG\",@progbits,{name},comdat\n{name}:\t.cfi_startproc\n\tret\n\t.cfi_endproc\n"
    );
    tools.write("f.s", &text);
    tools.run_well(&["as", M, "--listing-rhs-width=200", "f.s", "-o", "f.o"]);
    let listing = tools.read("f.lst");
    let reader = Reader::new(Arch::Amd64);
    let problems = reader.read(&listing).unwrap_err();
    let cut = problems.list().iter().filter(|error| error.problem == Problem::CutLine).count();
    assert_eq!(cut, 2, "{problems}");
    let unit = reader.with_source(text.as_bytes()).read(&listing).unwrap();
    assert_eq!(unit.functions[0].name.as_deref(), Some(&*name));
    assert_eq!(unit.sections[unit.functions[0].section].group.as_deref(), Some(&*name));
    let other = text.replace("nn", "mm");
    let problems = reader.with_source(other.as_bytes()).read(&listing).unwrap_err();
    assert!(problems.list().iter().any(|error| error.problem == Problem::OtherSource), "{problems}");
}

/// AArch64's instructions have one size: several of a row have offsets of their own, and so has the CFI between them.
#[test]
#[ignore = "needs the reference tools"]
fn rows_of_several_instructions_of_one_size() {
    let tools = Tools::find();
    let text = "\t.text\nf:\t.cfi_startproc\n\tnop\n\
        \tstp x29, x30, [sp, #-16]!; .cfi_def_cfa_offset 16; .cfi_offset 29, -16; .cfi_offset 30, -8; nop; \
        .cfi_remember_state; ldp x29, x30, [sp], #16; .cfi_def_cfa_offset 0\n\
        \tret; .cfi_restore_state; nop\n\t.cfi_endproc\n";
    tools.write("f.s", text);
    tools.run_well(&["aarch64-linux-gnu-as", M, "--listing-rhs-width=200", "f.s", "-o", "f.o"]);
    let listing = tools.read("f.lst");
    let unit = Reader::new(Arch::Aarch64).read(&listing).unwrap();
    let ours = unit.assembly(Dialect::Gas).unwrap().eh_frame().unwrap();
    let bytes = tools.read("f.o");
    let object = object::File::parse(&*bytes).unwrap();
    assert_eq!(ours.as_bytes(), object.section_by_name(".eh_frame").unwrap().data().unwrap());
    // Of another architecture's rows nothing tells.
    let of_x86 = Reader::new(Arch::Amd64).read(&listing).unwrap_err();
    assert!(of_x86.list().iter().any(|error| error.problem == Problem::BetweenInstructions), "{of_x86}");
    // A statement that is no instruction has the bytes of the row, too.
    let mixed = text.replace("nop; .cfi_remember_state", ".word 0; .cfi_remember_state");
    tools.write("f.s", mixed);
    tools.run_well(&["aarch64-linux-gnu-as", M, "--listing-rhs-width=200", "f.s", "-o", "f.o"]);
    assert!(Reader::new(Arch::Aarch64).read(&tools.read("f.lst")).is_err());
}

/// gas warns of what it cuts of an operand.
#[test]
#[ignore = "needs the reference tools"]
fn warnings_are_those_of_gas() {
    let tools = Tools::find();
    let text =
        "f:\t.cfi_startproc\n\tnop\n\t.cfi_escape 0x100, 255, -128, 0x10, 0x1ff\n\tnop\n\t.cfi_endproc\n";
    let unit = listed(&tools, text, &[M]).unwrap();
    let ours: Vec<_> = unit.warnings.iter().map(|warning| warning.problem.to_string()).collect();
    let theirs = tools.run(&["as", "f.s", "-o", "f.o"]).stderr;
    let theirs = String::from_utf8_lossy(&theirs);
    let theirs: Vec<_> = theirs.lines().filter_map(|line| Some(line.split_once("Warning: ")?.1)).collect();
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 2);
}
