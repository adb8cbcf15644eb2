//! Random programs, as listings and as sources.

use cfipack_format::Arch;
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::directives::{File, Mode, TARGETS, Target};
use cfipack_tests::reference::Tools;

use super::{assemble, read};

const FUNCTIONS_PER_FILE: usize = 200;

/// The same program in another dress: comments, several statements on a line, other data directives, subsections.
fn dressed(random: &mut Random, target: Target, text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.trim();
        match line.strip_prefix(".skip ").and_then(|count| count.parse::<u64>().ok()) {
            Some(count) => out.push_str(&data(random, count)),
            None => {
                // Data of another section between directives, which makes no difference.
                if line.starts_with(".cfi_") && random.chance(3) {
                    out.push_str(
                        "\t.pushsection .rodata; .byte 1, 2\n\t.string \"a;b#c\\\"\"; .popsection\n",
                    );
                }
                out.push_str(&format!("\t{line}"));
            }
        }
        match random.below(12) {
            0 => out.push_str(" /* a comment; .cfi_endproc */\n"),
            1 => out.push_str(" /* over\n two lines */\n"),
            2 if line.starts_with(".cfi_") && line != ".cfi_endproc" => out.push_str(" ; "),
            3 => out.push_str(match target.arch {
                Arch::Aarch64 => " // .cfi_endproc\n",
                _ => " # .cfi_endproc\n",
            }),
            _ => out.push('\n'),
        }
    }
    out
}

/// So many bytes, by one of the directives that make them.
fn data(random: &mut Random, count: u64) -> String {
    match random.below(6) {
        0 if count < 40 => format!("\t.byte 0{}", ", 0".repeat(count.max(1) as usize - 1)),
        1 if count.is_multiple_of(4) && count < 60 => {
            format!("\t.4byte 1{}", ", 'x'".repeat(count.max(4) as usize / 4 - 1))
        }
        2 => format!("\t.zero {count:#x}"),
        3 if count.is_multiple_of(2) => format!("\t.fill {}, 2, 0", count / 2),
        4 if count < 30 => format!("\t.ascii \"{}\"", "\\n".repeat(count as usize)),
        5 => format!("\t.space ({count} + 8) / 2 * 2 - 8 + {}", count % 2),
        _ => format!("\t.skip {count}"),
    }
}

#[test]
#[ignore = "needs the reference tools"]
fn random_programs_are_what_gas_writes() {
    let what = "listings and sources of random programs against gas";
    let tools = Tools::find();
    let (seed, count) = cases(what, 3);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for number in 0..count {
            let file = File::random(&mut random, target, Mode::Clean, FUNCTIONS_PER_FILE);
            let plain = file.text();
            let dressed = dressed(&mut random, target, &plain);
            for text in [plain, dressed] {
                let (object, listing) = assemble(&tools, &text, &[target.assembler, "--gsframe"]);
                let of_listing = Some(text.as_bytes());
                for (text, source) in [(text.as_bytes(), None), (&listing, of_listing)] {
                    let result = read(target.arch, text, source).and_then(|unit| object.compare(&unit));
                    if let Err(why) = result {
                        let name = std::env::temp_dir().join("cfipack-text-failure.s");
                        std::fs::write(&name, text).unwrap();
                        panic!("{:?}, file {number}, {}: {why}", target.arch, name.display());
                    }
                }
            }
        }
    }
}
