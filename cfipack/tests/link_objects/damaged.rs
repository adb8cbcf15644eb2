//! Links a damaged object beside a good object. The damage costs only rows of its own object.

use std::fs;
use std::path::PathBuf;

use cfipack::format::Arch;
use cfipack_testkit::random::{Random, cases};

use super::{Map, corpus, judge, mach_o, run, scratch};

/// Links random damage of an object after a good object, and calls `check` with the table and the map.
fn damage(kind: &str, good: &str, object: &str, check: impl Fn(&PathBuf, &Map)) {
    let (seed, count) = cases(&format!("damaged {kind} objects through the example link_objects"), 150);
    let mut random = Random::new(seed);
    let (output, damaged) = (scratch(&format!("{kind}.table")), scratch(&format!("{kind}.damaged.o")));
    let whole = fs::read(corpus(object)).unwrap();
    let mut refused = 0;
    for number in 0..count {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            let any = random.next() as u8;
            bytes[at] = random.pick(&[0, 0xff, 0x80, bytes[at] ^ 1, any]);
        }
        fs::write(&damaged, bytes).unwrap();
        let linked = run("link_objects", &[&output, &corpus(good), &damaged]);
        let errors = String::from_utf8_lossy(&linked.stderr);
        match linked.status.code() {
            Some(0) => check(&output, &Map::parse(&String::from_utf8(linked.stdout).unwrap())),
            // The crate `object` cannot read the headers.
            Some(1) if errors.contains(&*damaged.to_string_lossy()) => refused += 1,
            code => panic!("{number}: {code:?}: {errors}"),
        }
    }
    println!("{refused} of {count} cannot be read");
    assert!(refused * 4 < count);
}

#[test]
fn a_damaged_elf_object_costs_its_own_rows() {
    let good = "sframe/x86_64/x_adjust.gas247.o";
    damage("elf", good, "container/linkable.o", |table, map| {
        let report = judge(table, Arch::Amd64, &[corpus(good)], map);
        assert_eq!([report.functions, report.equal], [1, 1], "{:?}", report.differences);
    });
}

#[test]
fn a_damaged_mach_o_object_costs_its_own_rows() {
    let good = "apple/second_name.o";
    damage("mach-o", good, "apple/four_personalities.o", |table, map| {
        mach_o::check_rows(table, &[corpus(good)], map);
    });
}
