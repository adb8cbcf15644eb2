//! Tests `annotate`, which adds CFI directives to assembly functions that have none. gas assembles the result and gimli
//! evaluates it. For compiled C, the expected rows are those of the compiler's own directives.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use cfipack_tests::reference::Tools;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, LittleEndian, Register, RegisterRule, UnwindExpression,
    UnwindSection as _,
};
use object::{Object as _, ObjectSection as _, RelocationTarget};
use serde_json::Value;

use crate::program::{command, corpus, run, run_in, scratch, transcript};

#[test]
fn directives_stand_before_lines_and_between_statements() {
    insta::assert_snapshot!(transcript(&["annotate", "annotate.s", "--object", "annotate.o"]));
}

#[test]
fn reports_and_statuses() {
    let out = scratch("annotate").join("out.s");
    let out = out.to_str().unwrap();
    let arguments = ["annotate", "annotate.s", "--object", "annotate.o", "-o", out, "--json"];
    let report: Value = serde_json::from_slice(&run(&arguments).stdout).unwrap();
    assert_eq!((&report["annotated"], &report["omitted"]), (&3.into(), &3.into()));
    assert_eq!(report["functions"][2]["symbol"], "unknown_jump");
    assert_eq!(run(&[&arguments[..], &["--strict"]].concat()).status.code(), Some(1));
    // The annotated text and the JSON report would both go to standard output.
    assert_eq!(run(&["annotate", "annotate.s", "--object", "annotate.o", "--json"]).status.code(), Some(2));
    // The object's line table names annotate.s, so the annotated text is not the object's.
    let again = run(&["annotate", out, "--object", "annotate.o"]);
    let message = String::from_utf8(again.stderr).unwrap();
    assert!(
        message.contains("annotate.o: its line table has no code of out.s, but of annotate.s"),
        "{message}"
    );
    let without = run(&["annotate", "annotate.s", "--object", "synthesize.o"]);
    assert!(String::from_utf8(without.stderr).unwrap().contains("no .debug_line: assemble with -g"));
}

/// If you change a text after its object was made, it gets no directives: they could be at wrong places.
#[test]
fn another_text_gets_no_directives() {
    let directory = scratch("annotate-changed");
    let text = fs::read_to_string(corpus().join("annotate.s")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let moved = [&["# one"; 7][..], &lines[..]].concat().join("\n") + "\n";
    fs::write(directory.join("annotate.s"), &moved).unwrap();
    let object = corpus().join("annotate.o");
    let output = run_in(&directory, &["annotate", "annotate.s", "--object", object.to_str().unwrap()]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), moved);
}

/// C code whose prologues cover saved registers, buffers, variable arrays, arguments on the stack, tail calls and loops.
const SOURCE: &str = r"
extern int g(int, char *); extern void h(void);
int buffer(int a, int b) { char buf[40]; int r = g(a, buf); return r + g(b, buf + 3); }
int loop(int n, int *p) { int s = 0; for (int i = 0; i < n; i++) { s += g(p[i], 0) * p[i]; if (s > 100) return g(s, 0); } return s; }
int variable(int n) { char p[n]; g(n, p); return p[0]; }
int leaf(int a) { return a * 3; }
long many(long a, long b, long c, long d, long e, long f, long i, long j) { h(); long r = a*b; h(); r+= c*d; h(); r += e*f; h(); return r + i + j; }
int tail(int x) { h(); return g(x, 0); }
int large(int x) { char buf[70000]; return g(x, buf) + buf[x]; }
double floats(double a, double b) { h(); double c = a * b; h(); return a + c; }
int early(int x, int *p) { if (!x) return 0; int s = g(x, 0); for (int i = 0; i < x; i++) p[i] = g(s, 0); return s; }
";

/// A compiler with the assembler that takes its output.
struct Target {
    compiler: &'static [&'static str],
    assembler: &'static str,
}

#[test]
#[ignore = "needs the reference tools"]
fn rows_are_those_of_compilers() {
    let tools = Tools::find();
    let targets = [
        Target { compiler: &["gcc"], assembler: "as" },
        Target { compiler: &["clang-23", "-fno-addrsig"], assembler: "as" },
        Target {
            compiler: &["clang-23", "-fno-addrsig", "--target=aarch64-linux-gnu"],
            assembler: "aarch64-linux-gnu-as",
        },
    ];
    tools.write("own.c", SOURCE);
    let (mut functions, mut calls) = (0, 0);
    for target in &targets {
        for level in ["-O0", "-O1", "-O2", "-Os"] {
            for option in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
                let (more, called) = compare(&tools, target, &[level, option]);
                (functions, calls) = (functions + more, calls + called);
            }
        }
    }
    assert!(functions > 200 && calls > 300, "{functions} functions, {calls} calls");
}

/// Instructions written as bytes. gas's line table does not mention them. They start and end functions, or are next to
/// padding.
const BYTES: &str = "
\t.text
\t.type first, @function
first:
\t.cfi_startproc
\tret
\t.cfi_endproc
\t.size first, . - first
\t.p2align 4
\t.type second, @function
second:
\t.cfi_startproc
\t.byte 243,15,30,250
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\t.byte 0x0f,0x1f,0,0x90; .byte 0x48,0x83,0xec,0x10
\t.cfi_def_cfa_offset 32
\tcall other
\t.value 0x8348,0x10c4
\t.cfi_def_cfa_offset 16
\tpop %rbx
\t.cfi_def_cfa_offset 8
\t.byte 0xf3,0xc3
\t.cfi_endproc
\t.size second, . - second
\t.p2align 4
\t.type third, @function
third:
\t.cfi_startproc
\t.long 0xfa1e0ff3
\tsub $8, %rsp
\t.cfi_def_cfa_offset 16
\tcall other
\tadd $8, %rsp
\t.cfi_def_cfa_offset 8
\tjnz first
\t.byte 0x0f,0x1f,0x00
\t.byte 0xf3,0xc3
\t.cfi_endproc
\t.size third, . - third
";

#[test]
#[ignore = "needs the reference tools"]
fn instructions_written_as_bytes_have_places() {
    let tools = Tools::find();
    assert_eq!(compare_text(&tools, "as", BYTES, "bytes"), (3, 2));
}

/// A loop whose alignment padding comes right after the last push, so the processor executes the padding.
const PADDING: &str = "
\t.text
\t.type loop, @function
loop:
\t.cfi_startproc
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\t.p2align 4,,10
\t.p2align 3
.L1:
\tcall other
\tdec %ebx
\tjnz .L1
\tpop %rbx
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size loop, . - loop
";

#[test]
#[ignore = "needs the reference tools"]
fn directives_stand_before_padding_that_is_run() {
    let tools = Tools::find();
    assert_eq!(compare_text(&tools, "as", PADDING, "padding"), (1, 1));
}

/// Compiles the source, and compares the compiler's rows with ours as [`compare_text`] does.
fn compare(tools: &Tools, target: &Target, options: &[&str]) -> (usize, usize) {
    let output = ["-S", "-w", "-fasynchronous-unwind-tables", "-o", "own.s", "own.c"];
    tools.run_well(&[target.compiler, options, &output[..]].concat());
    let own = String::from_utf8(tools.read("own.s")).unwrap();
    // A directive of clang 23 that gas does not have.
    let own: Vec<_> = own.lines().filter(|line| !line.trim_start().starts_with(".prefalign")).collect();
    let name = format!("{:?} {options:?}", target.compiler);
    compare_text(tools, target.assembler, &(own.join("\n") + "\n"), &name)
}

/// Removes a text's directives, annotates it, and compares the rows. Returns the number of functions and of calls compared.
pub fn compare_text(tools: &Tools, assembler: &str, own: &str, name: &str) -> (usize, usize) {
    tools.write("own.s", own);
    let is_cfi = |line: &&str| line.trim_start().starts_with(".cfi_");
    let bare: Vec<_> = own.lines().filter(|line| !is_cfi(line)).collect();
    let bare = bare.join("\n") + "\n";
    tools.write("bare.s", &bare);
    tools.run_well(&[assembler, "-g", "-o", "bare.o", "bare.s"]);
    let path = |name: &str| tools.path(name).to_str().unwrap().to_owned();
    let arguments =
        ["annotate", &path("bare.s"), "--object", &path("bare.o"), "--output", &path("annotated.s")];
    let status = command(&arguments).arg("--strict").output().unwrap();
    assert!(status.status.success(), "{name}: {}", String::from_utf8_lossy(&status.stderr));
    let annotated = String::from_utf8(tools.read("annotated.s")).unwrap();
    let rest: Vec<_> = annotated.lines().filter(|line| !is_cfi(line)).collect();
    assert_eq!(rest.join("\n") + "\n", bare);
    for file in ["own", "annotated"] {
        let (object, source) = (format!("{file}.o"), format!("{file}.s"));
        tools.run_well(&[assembler, "-o", &object, &source]);
    }
    let lint =
        Command::new(env!("CARGO_BIN_EXE_cfi2sframe")).args(["lint", &path("annotated.o")]).output().unwrap();
    assert!(lint.status.success(), "{name}: {}", String::from_utf8_lossy(&lint.stdout));
    let (own, annotated) = (rows(&tools.read("own.o")), rows(&tools.read("annotated.o")));
    assert_eq!(own.code, annotated.code);
    let mut called = 0;
    for (pc, expected) in &own.rows {
        let Some(row) = annotated.rows.get(pc) else { panic!("{name}: no row at {pc:#x}") };
        let place = format!("{name} +{pc:#x}: {row:?} instead of {expected:?}");
        let is_return = own.returns.contains(pc);
        called += usize::from(is_return);
        assert!(row.is_like(expected, &own.code[..*pc as usize], is_return), "{place}");
    }
    (own.starts, called)
}

/// A row, as gimli evaluates it.
#[derive(Debug)]
struct Row {
    cfa: Cfa,
    /// The rules of the saved registers.
    stored: BTreeMap<u16, Stored>,
}

/// A CFA. An expression has its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Cfa {
    Register(Register, i64),
    Expression(Vec<u8>),
}

/// A place of a saved register. The offset is in bytes from the CFA, and an expression has its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stored {
    Offset(i64),
    Register(Register),
    Expression(Vec<u8>),
}

impl Row {
    /// Returns whether this row unwinds as `other` does; `before` is the code before the PC. After a call both must be
    /// the same. Elsewhere the CFA must be the same, and no register at two places: between its store or load and the
    /// next directive, a register is both unchanged and in its slot.
    fn is_like(&self, other: &Self, before: &[u8], is_return: bool) -> bool {
        // On AArch64 this row may count the CFA from the frame pointer, and the other row from the stack pointer. Both
        // are right if the code has `add x29, sp, #distance` with the distance of the two offsets.
        let mut words = before.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        let is_same = match (&self.cfa, &other.cfa) {
            (Cfa::Register(Register(29), own), Cfa::Register(Register(31), other)) => {
                let add = 0x9100_03fd | ((other - own) as u32) << 10;
                words.any(|word| word == add)
            }
            (own, other) => own == other,
        };
        let is_apart = |(register, offset)| other.stored.get(register).is_some_and(|other| other != offset);
        is_same && !self.stored.iter().any(is_apart) && (!is_return || self.stored == other.stored)
    }
}

/// The functions of an object: code and rows.
struct Rows {
    code: Vec<u8>,
    starts: usize,
    rows: BTreeMap<u64, Row>,
    /// The return addresses of calls of functions in other objects.
    returns: Vec<u64>,
}

fn rows(bytes: &[u8]) -> Rows {
    let file = object::File::parse(bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let calls = text
        .relocations()
        .filter(|(_, relocation)| matches!(relocation.target(), RelocationTarget::Symbol(_)));
    let is_x86 = file.architecture() == object::Architecture::X86_64;
    let code = text.data().unwrap().to_vec();
    let is_call = |at: u64| {
        let at = at as usize;
        if is_x86 { at > 0 && code[at - 1] == 0xe8 } else { code[at + 3] & 0xfc == 0x94 }
    };
    let returns = calls.filter(|call| is_call(call.0)).map(|call| call.0 + 4).collect();
    let section = file.section_by_name(".eh_frame").unwrap();
    let mut data = section.data().unwrap().to_vec();
    // Functions start in `.text`, whose address is zero.
    for (offset, relocation) in section.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
        let symbol = object::ObjectSymbol::address(&file.symbol_by_index(symbol).unwrap());
        let value = (symbol as i64 + relocation.addend() - offset as i64 - SECTION) as i32;
        data[offset as usize..offset as usize + 4].copy_from_slice(&value.to_le_bytes());
    }
    let eh_frame = EhFrame::new(&data, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(SECTION as u64);
    let mut context = gimli::UnwindContext::new();
    let (mut rows, mut starts) = (BTreeMap::new(), 0);
    let mut entries = eh_frame.entries(&bases);
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset)).unwrap();
        starts += 1;
        let mut table = fde.rows(&eh_frame, &bases, &mut context).unwrap();
        while let Some(row) = table.next_row().unwrap() {
            let bytes =
                |expression: &UnwindExpression<usize>| expression.get(&eh_frame).unwrap().0.slice().to_vec();
            let cfa = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => Cfa::Register(*register, *offset),
                CfaRule::Expression(expression) => Cfa::Expression(bytes(expression)),
            };
            let stored = |(register, rule): &(Register, RegisterRule<usize>)| match rule {
                RegisterRule::Offset(offset) => Some((register.0, Stored::Offset(*offset))),
                RegisterRule::Register(other) => Some((register.0, Stored::Register(*other))),
                RegisterRule::Expression(expression) => {
                    Some((register.0, Stored::Expression(bytes(expression))))
                }
                _ => None,
            };
            let stored: BTreeMap<u16, Stored> = row.registers().filter_map(stored).collect();
            // We do not know where instructions start, so we keep a row for every byte.
            for pc in row.start_address()..row.end_address() {
                rows.insert(pc, Row { cfa: cfa.clone(), stored: stored.clone() });
            }
        }
    }
    Rows { code, starts, rows, returns }
}

/// The address that we give `.eh_frame`, far from the code.
const SECTION: i64 = 0x10_0000;
