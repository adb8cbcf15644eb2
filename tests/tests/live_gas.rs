//! Random directive programs through gas: what it writes against what cfipack writes.

use cfipack_tests::directives::{File, Mode, TARGETS};
use cfipack_tests::random::{Random, cases};
use cfipack_tests::reference::Tools;

#[test]
fn scratch() {
    let Some(tools) = Tools::find("live") else { return };
    let (seed, count) = cases("scratch", 10);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for mode in [Mode::Clean, Mode::Wild] {
            for n in 0..count {
                let file = File::random(&mut random, target, mode, 200);
                tools.write("f.s", file.text());
                let out = tools.run(&[target.assembler, "--gsframe", "f.s", "-o", "f.o"]);
                let err = String::from_utf8_lossy(&out.stderr);
                println!("{:?} {mode:?} {} {} warnings", target.arch, out.status, err.lines().count());
                if !out.status.success() {
                    std::fs::write(format!("/tmp/tests-fail-{n}.s"), file.text()).unwrap();
                }
                let mut lines: Vec<_> = err.lines().collect();
                lines.sort();
                lines.dedup();
                for l in lines {
                    println!("   {l}");
                }
            }
        }
    }
}
