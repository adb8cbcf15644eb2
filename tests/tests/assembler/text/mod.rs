//! The text front end: listings and sources against the objects that gas makes of the same text.

mod compilers;
mod corpora;
mod damaged;
mod errors;
mod gas_object;
mod object;
mod random;

use cfipack_assembler::text::{Reader, Unit};
use cfipack_format::Arch;
use cfipack_tests::reference::Tools;
use gas_object::Object;

/// What gas is asked for.
const LISTING: &[&str] = &["-aclmn=f.lst", "--listing-rhs-width=200", "--listing-cont-lines=100000"];

/// Assembles a text. A listing is of another run: with one, gas begins a fragment at each line, so that its `.sframe`
/// has rows of no bytes, and sometimes crashes when it makes that.
fn assemble(tools: &Tools, text: &str, command: &[&str]) -> (Object, Vec<u8>) {
    tools.write("f.s", text);
    let without: Vec<_> = command.iter().copied().filter(|option| !option.starts_with("--gsframe")).collect();
    tools.run_well(&[&without, LISTING, &["f.s", "-o", "f.o"]].concat());
    let listing = tools.read("f.lst");
    tools.run_well(&[command, &["f.s", "-o", "f.o"]].concat());
    (Object(tools.read("f.o")), listing)
}

fn read(arch: Arch, text: &[u8], source: Option<&[u8]>) -> Result<Unit, String> {
    let reader = Reader::new(arch);
    let reader = source.map_or(reader, |source| reader.with_source(source));
    reader.read(text).map_err(|errors| errors.print_first("f.s", 10))
}

/// llvm-mc 23 reads these lines for arm64_32 (`-triple=arm64_32-apple-watchos`) as for arm64: `.word` has four bytes, `.align`
/// a power of two, and `;` starts a comment. The second function starts at 8.
#[test]
fn arm64_32_has_the_syntax_of_arm64() {
    let function =
        |name| format!("{name}:\n\t.cfi_startproc\n\t.word 1 ; .word 2\n\t.word 3\n\t.cfi_endproc\n");
    let text = format!("\t.section __TEXT,__text\n{}\t.align 3\n{}", function("_f"), function("_g"));
    for arch in [Arch::Aarch64, Arch::Arm64_32] {
        let unit = read(arch, text.as_bytes(), None).unwrap();
        let starts: Vec<_> = unit.functions.iter().map(|function| function.offset).collect();
        assert_eq!(starts, [0, 8], "{arch}");
    }
}
