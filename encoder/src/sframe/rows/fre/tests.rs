use cfipack_format::sframe::{Abi, FdeType, Version};
use cfipack_format::{Arch, Cfa, FunctionOffset, Row, Rule};

use super::Fre;

/// Offsets at the borders between sizes of words. On s390x, a word is an eighth of the offset less 160.
const OFFSETS: [i64; 18] = [
    0, 8, 16, 120, 127, 128, 160, 168, 1176, 1184, 0x7ff8, 0x7fff, 0x8000, 0x8008, 0x40_0098, 0x40_00a0, -8,
    -136,
];

fn row(arch: Arch, offset: i64, return_address: Rule, frame_pointer: Rule) -> Row {
    let cfa = Cfa::Register { register: arch.stack_pointer(), offset };
    Row { start: FunctionOffset(0), cfa, return_address, frame_pointer, signed: false }
}

/// An FRE that follows from the FRE of another row is equal to the FRE of the row itself.
#[test]
fn another_cfa_offset() {
    let rules = [Rule::SameValue, Rule::Undefined, Rule::Cfa(-8), Rule::Cfa(-200), Rule::Cfa(-70_000)];
    let mut found = 0;
    for arch in Arch::ALL.into_iter().filter(|arch| Abi::for_arch(*arch).is_some()) {
        for (return_address, frame_pointer) in rules.iter().flat_map(|ra| rules.map(|fp| (*ra, fp))) {
            let fre = |offset| {
                Fre::new(
                    arch,
                    Version::V3,
                    &row(arch, offset, return_address, frame_pointer),
                    FdeType::Default,
                )
                .ok()
            };
            for (from, to) in OFFSETS.iter().flat_map(|from| OFFSETS.map(|to| (*from, to))) {
                let Some(before) = fre(from).and_then(|fre| fre.as_short()) else { continue };
                let Some(after) = before.with_cfa_offset(arch, to) else { continue };
                assert_eq!(
                    fre(to),
                    Some(Fre::Short(after)),
                    "{arch:?} {return_address:?} {frame_pointer:?} {from} {to}"
                );
                found += 1;
            }
        }
    }
    assert!(found > 1000, "{found}");
}

/// The bytes of a row, by the format's description: the info byte means SP and two words of two bytes.
#[test]
fn words_of_both_byte_orders() {
    for (arch, expected) in
        [(Arch::Aarch64, [0x25, 0x08, 0x01, 0xf8, 0xff]), (Arch::Aarch64Be, [0x25, 0x01, 0x08, 0xff, 0xf8])]
    {
        let fre =
            Fre::new(arch, Version::V3, &row(arch, 0x108, Rule::Cfa(-8), Rule::SameValue), FdeType::Default)
                .unwrap();
        let short = fre.as_short().unwrap();
        assert_eq!((short.len(), &short.bytes()[..5]), (5, &expected[..]), "{arch:?}");
    }
}
