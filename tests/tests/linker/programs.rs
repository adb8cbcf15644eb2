//! Makes random programs of assembler text. Objects, some of them in archives, call each other and a shared library.

use std::fmt::Write;

use cfipack_format::Arch;
use cfipack_testkit::random::Random;
use cfipack_tests::directives::{File, Mode, Target};

/// The number of functions in the shared library: `e0` and so on.
pub const EXTERNAL: u64 = 8;

/// A program.
#[derive(Debug)]
pub struct Program {
    pub target: Target,
    pub objects: Vec<Source>,
    /// The number of archives.
    pub archives: u64,
}

/// An object.
#[derive(Debug)]
pub struct Source {
    /// The object's path without `.o`. Several objects have the same file name.
    pub path: String,
    /// The archive that it is a member of.
    pub archive: Option<u64>,
    pub text: String,
    pub has_table: bool,
}

impl Program {
    /// Makes a program of 2 to 30 objects. Object `n` has a function `g{n}`.
    pub fn random(random: &mut Random, target: Target) -> Self {
        let most = random.pick(&[3, 6, 12, 30]);
        let count = random.between(2, most) as u64;
        let archives = random.below(3);
        let hostile = random.chance(40);
        let objects = (0..count).map(|number| {
            let archive = (number != 0 && archives != 0 && random.chance(40)).then(|| random.below(archives));
            let directory =
                archive.map_or_else(|| format!("d{}", number % 3), |archive| format!("a{archive}"));
            let member = if random.chance(70) { number } else { number % 5 + 100 + number / 15 * 10 };
            let path = format!("{directory}/m{member}");
            let text = source(random, target, number, count, hostile);
            Source { path, archive, text, has_table: !random.chance(10) }
        });
        let mut objects: Vec<Source> = objects.collect();
        // Paths differ, but files in different directories may have equal names.
        let mut seen = std::collections::HashSet::new();
        for (number, object) in objects.iter_mut().enumerate() {
            if !seen.insert(object.path.clone()) {
                object.path += &format!("x{number}");
            }
        }
        Self { target, objects, archives }
    }
}

/// Returns the text of the shared library.
pub fn external(arch: Arch) -> String {
    let code = if arch == Arch::Amd64 { "ret" } else { "nop" };
    (0..EXTERNAL).fold(String::from("\t.text\n"), |text, number| {
        text + &format!(
            "\t.globl e{number}\n\t.type e{number},@function\ne{number}:\n\t.cfi_startproc\n\t{code}\n\t.cfi_endproc\n"
        )
    })
}

fn source(random: &mut Random, target: Target, number: u64, count: u64, hostile: bool) -> String {
    let mode = if random.chance(70) { Mode::Clean } else { Mode::Wild };
    let functions = random.pick(&[0, 1, 3, 8, 20]);
    let functions = random.below(functions + 1) as usize;
    let file = File::random(random, target, mode, functions);
    let mut text = String::from("\t.hidden __gxx_personality_v0\n\t.text\n");
    for _ in 0..random.below(4) {
        empty_section(random, &mut text);
    }
    let mut roots =
        format!("\t.section .data.root{number},\"aw\",@progbits\n\t.globl root{number}\nroot{number}:\n");
    for (function, body) in file.functions.iter().enumerate() {
        // Position-independent code cannot have absolute 32-bit addresses.
        let body = body.replace(".cfi_personality 0x3,", ".cfi_personality 0x1b,");
        let (first, rest) = body.split_once('\n').expect("a section directive");
        if random.chance(if hostile { 60 } else { 20 }) {
            section(random, &mut text, function, hostile);
        } else {
            writeln!(text, "{first}").unwrap();
        }
        writeln!(text, "\t.weak f{function}").unwrap();
        text += rest;
        if random.chance(30) {
            writeln!(roots, "\t.quad f{function}").unwrap();
        }
    }
    let lsda = "\t.section .gcc_except_table,\"a\"\nlsda:\n\t.byte 0\n";
    let name = random.pick(&[".text", ".text", ".text.g", ".text.unlikely", "mycode"]);
    writeln!(text, "{lsda}\t.section {name},\"ax\",@progbits").unwrap();
    global(random, target.arch, number, count, &mut text);
    if random.chance(30) {
        roots += &format!("\t.quad g{number}\n");
    }
    text + &roots
}

/// Writes an empty section. It has a place in the order too.
fn empty_section(random: &mut Random, text: &mut String) {
    let (name, flags) = random.pick(&[
        (".text.unlikely", "ax"),
        (".text.hot", "ax"),
        (".note.some", "a"),
        (".rodata", "a"),
        (".data", "aw"),
        (".init.text", "ax"),
        ("early", "ax"),
        (".fini", "ax"),
    ]);
    let content = if random.chance(40) && !name.starts_with(".note") { "\t.skip 16\n" } else { "" };
    write!(text, "\t.section {name},\"{flags}\",@progbits\n{content}").unwrap();
}

/// Writes the section directive of a function.
fn section(random: &mut Random, text: &mut String, function: usize, hostile: bool) {
    let name =
        random.pick(&[".text", ".text.hot", ".text.startup", ".init.text", "mycode", ".text.unlikely"]);
    let group = random.below(6);
    let directive = match random.below(if hostile { 6 } else { 4 }) {
        0 => format!("{name},\"ax\",@progbits"),
        1 => format!("{name}.s{function},\"ax\",@progbits"),
        // A group whose signature other objects use too.
        2 => format!("{name}.c{group},\"axG\",@progbits,c{group},comdat"),
        3 => format!("{name}.d{group},\"axG\",@progbits,c{group},comdat"),
        // Several sections with equal names.
        4 => format!("{name},\"ax\",@progbits,unique,{function}"),
        _ => format!("{name},\"axG\",@progbits,c{group},comdat"),
    };
    writeln!(text, "\t.section {directive}").unwrap();
}

/// Writes a function that calls others, in the program and in the library, and takes the address of one.
fn global(random: &mut Random, arch: Arch, number: u64, count: u64, text: &mut String) {
    let visibility = if random.chance(40) { format!("\t.hidden g{number}\n") } else { String::new() };
    write!(
        text,
        "\t.globl g{number}\n{visibility}\t.type g{number},@function\ng{number}:\n\t.cfi_startproc\n"
    )
    .unwrap();
    for _ in 0..random.below(6) {
        let callee = if random.chance(50) {
            format!("e{}", random.below(EXTERNAL))
        } else {
            format!("g{}", random.below(count))
        };
        let code = match (arch, random.below(4)) {
            (Arch::Amd64, 0) => format!("\tcall *{callee}@GOTPCREL(%rip)\n"),
            (Arch::Amd64, 1) => format!("\tmov {callee}@GOTPCREL(%rip),%rax\n"),
            (Arch::Amd64, _) => format!("\tcall {callee}@PLT\n"),
            (Arch::S390x, 0) => format!("\tlgrl %r1,{callee}@GOTENT\n"),
            (Arch::S390x, _) => format!("\tbrasl %r14,{callee}@PLT\n"),
            (_, 0) => format!("\tadrp x0,:got:{callee}\n\tldr x0,[x0,:got_lo12:{callee}]\n"),
            (_, _) => format!("\tbl {callee}\n"),
        };
        *text += &code;
        if random.chance(40) {
            writeln!(text, "\t.cfi_adjust_cfa_offset 16").unwrap();
        }
    }
    *text += "\tnop\n\t.cfi_endproc\n";
}
