//! Encodes random prologues. A function must get an encoding exactly if one can represent it. By independent readers,
//! the encoding agrees with the CFI.

use std::collections::BTreeMap;

use cfipack_cfi::{Section, SectionKind};
use cfipack_encoder::compact_unwind::{Encoder, Mode};
use cfipack_format::{Address, Arch};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::cfi_bytes::CfiBytes;
use cfipack_tests::encoding_by_cfi::Judge;
use cfipack_tests::prologues::Function;

#[test]
fn what_can_be_encoded_is_encoded_correctly() {
    let (seed, count) = cases("random prologues", 20_000);
    let mut counts = BTreeMap::new();
    for case in 0..count as u64 {
        let seed = seed.wrapping_add(case);
        let mut random = Random::new(seed);
        let arch = random.pick(&[Arch::Amd64, Arch::Amd64, Arch::Aarch64]);
        let made = Function::random(&mut random, arch);
        let section = Section::new(SectionKind::EhFrame, &made.eh_frame, Function::SECTION, arch);
        let function = cfipack_cfi::Functions::new(&section).next().unwrap().unwrap();
        let encoding = Encoder::new(arch).unwrap().encode(&function, Some(&made.code), Mode::Checked);
        let name = match encoding {
            Ok(encoding) => {
                assert!(made.obstacles.is_empty(), "CFIPACK_SEED={seed}: {encoding} for {made:02x?}");
                let mut judge = Judge::new(&made.eh_frame, Function::SECTION, arch);
                let judged = judge.judge(encoding, function.fde.0, &made.code);
                judged.unwrap_or_else(|error| panic!("CFIPACK_SEED={seed}: {error} for {made:02x?}"));
                format!("{arch:?} {:?}", encoding.mode(arch).unwrap())
            }
            Err(unsupported) => {
                let name = unsupported.reason.name();
                assert!(made.obstacles.contains(&name), "CFIPACK_SEED={seed}: {unsupported} for {made:02x?}");
                format!("{arch:?} DWARF: {name}")
            }
        };
        *counts.entry(name).or_insert(0) += 1;
    }
    println!("{counts:#?}");
}

/// For any CFI with any code, there is an encoding or a reason, and no panic.
#[test]
fn malformed_input_is_harmless() {
    let (seed, count) = cases("random CFI, encoded", 2000);
    let mut encoded = 0;
    for case in 0..count as u64 {
        let seed = seed.wrapping_add(case);
        let mut random = Random::new(seed);
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64, Arch::S390x]);
        let generated = CfiBytes::random(&mut random, arch, 10);
        let kind = if generated.debug_frame { SectionKind::DebugFrame } else { SectionKind::EhFrame };
        let mut section = Section::new(kind, &generated.bytes, Address(generated.address), arch);
        (section.text, section.data) = (Address(generated.text), Address(generated.data));
        let Ok(mut encoder) = Encoder::new(arch) else {
            assert_eq!(arch, Arch::S390x);
            continue;
        };
        for function in cfipack_cfi::Functions::new(&section) {
            let function = function.unwrap();
            let mut code: Vec<u8> = (0..function.size.min(100_000)).map(|_| random.next() as u8).collect();
            code.truncate(if random.chance(10) { code.len() / 2 } else { code.len() });
            for mode in [Mode::Checked, Mode::LlvmMc { foreign_personality: false }] {
                let given = [None, Some(&*code)];
                let given = given.map(|code| encoder.encode(&function, code, mode));
                encoded += given.iter().filter(|encoding| encoding.is_ok()).count();
            }
        }
    }
    println!("{encoded} encodings");
    assert!(encoded > 0 || count < 100, "nothing was encoded");
}
