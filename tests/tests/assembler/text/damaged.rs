//! Damaged text: errors, never a panic, and in time.

use cfipack_assembler::Dialect;
use cfipack_assembler::text::Reader;
use cfipack_encoder::sframe::Options;
use cfipack_format::Arch;
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::assembled::corpus;

/// A listing with all that one can have.
const LISTING: &str = "\
   1              \t\t.macro m
   2              \t\tnop
   3              \t\t.cfi_adjust_cfa_offset 8
   4              \t\t.endm
   5              \t\t.section .text.f,\"axG\",@progbits,f,comdat
   6              \tf:\t.cfi_startproc
   7              \t\tm
   7 0000 90       \t>  nop
   7              \t>  .cfi_adjust_cfa_offset 8
   8              \t\t.if 1 + 1
   9 0001 48B80102 \t\tmovabs $1, %rax; .cfi_personality 0x9b, p
   9      03040506 
   9      0708
\x0cGAS LISTING f.s \t\t\tpage 2

  10              \t\t.else
  12              \t\t.endif /* a
  13 000b 90       \t\t comment */ nop
  14              \t\t.pushsection .x; .byte 1; .popsection
  15 000c C3       \t\tret # .cfi_escape 0x2e, uleb128(3), 'a'
  16              \t\t.cfi_endproc
";

#[test]
fn damaged_text_is_refused_or_read() {
    let unit = Reader::new(Arch::Amd64).read(LISTING.as_bytes()).unwrap();
    assert_eq!((unit.functions[0].directives.code_len(), unit.functions[0].name.as_deref()), (13, Some("f")));
    let (seed, count) = cases("damaged text", 4000);
    let mut random = Random::new(seed);
    let mut texts: Vec<_> = corpus().into_iter().map(|case| (case.arch, case.text)).collect();
    texts.extend(std::iter::repeat_n((Arch::Amd64, LISTING.to_owned()), 300));
    let (mut read, mut refused) = (0, 0);
    for _ in 0..count {
        let (arch, text) = &texts[random.below(texts.len() as u64) as usize];
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => drop(bytes.remove(at)),
                2 => {
                    let end = (at + random.below(40) as usize).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    let to = random.below(bytes.len() as u64) as usize;
                    bytes.splice(to..to, copy);
                }
                _ => bytes[at] = b"\n\t ;:\"'#/*(-.@,0>?%"[random.below(18) as usize],
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        match Reader::new(*arch).with_source(text.as_bytes()).read(&bytes) {
            Ok(unit) => {
                read += 1;
                let assembly = unit.assembly(Dialect::Gas).unwrap();
                drop((assembly.eh_frame(), assembly.sframe(Options::default())));
            }
            Err(errors) => {
                refused += 1;
                assert!(!errors.list().is_empty() && errors.print("f.s").contains("error: "));
            }
        }
    }
    println!("{read} read, {refused} refused");
    assert!(read > count / 20 && refused > count / 20);
}

/// Texts that would take minutes if some step looked at all of them for each line or statement.
#[test]
fn work_grows_with_the_text() {
    read_texts(1 << 18);
}

#[test]
#[ignore = "takes minutes"]
fn work_grows_with_a_large_text_slow() {
    read_texts(1 << 20);
}

/// Reads each of the texts, which have about this length.
fn read_texts(len: usize) {
    let repeated = |part: &str| part.repeat(len / part.len());
    let sections: String =
        (0..len / 35).map(|n| format!(".section s{n},\"aG\",@progbits,g{n}\n.section t,\"a?\"\n")).collect();
    let texts = [
        repeated("x;"),
        " ".repeat(len / 2) + &repeated("x;"),
        repeated("/**/"),
        repeated("((("),
        repeated(".skip ((((1\n"),
        repeated("a:"),
        repeated(".set a,-~-+"),
        repeated(".if x\n"),
        repeated("   1              \t\t.if x\n"),
        repeated("   1              \t\tm\n\n"),
        repeated("   1 0000 90      \tnop;.cfi_endproc;nop;.cfi_bad;;"),
        repeated(".cfi_startproc\n"),
        format!("f:.cfi_startproc\n{}.cfi_endproc\n", repeated(".cfi_restore 3,3,3,3\n")),
        repeated("\x0cGAS LISTING \n"),
        sections,
    ];
    for text in texts {
        if let Err(errors) = Reader::new(Arch::Amd64).read(text.as_bytes()) {
            assert!(errors.print_first("f.s", 100).len() < 1 << 18);
        }
    }
}
