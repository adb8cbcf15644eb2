//! Makes random entries for an `__unwind_info`.

use std::num::NonZeroU32;

use cfipack_encoder::unwind_info::Entry;
use cfipack_format::compact_unwind::{Encoding, Flags};
use cfipack_format::{Arch, ImageOffset, LsdaKey};
use cfipack_testkit::random::Random;

/// The code of random entries ends below this address.
pub const END: u32 = 0xf000_0000;

/// Returns up to `most` entries in the order of addresses, of any mix. Some are followed by gaps, a few of them of more
/// than 24 bits.
pub fn random(random: &mut Random, arch: Arch, most: u64) -> Vec<Entry> {
    let encodings = random.pick(&[1, 2, 8, 60, 130, 260, 2000]);
    let (dwarf, none, lsda, alike) = (
        random.pick(&[0, 0, 3, 40, 97]),
        random.pick(&[0, 5, 40]),
        random.pick(&[0, 20, 80]),
        random.pick(&[0, 50, 90]),
    );
    let personalities = random.below(4) as u32;
    let far = if random.chance(20) { 1 } else { 0 };
    let mut at = 0x1000;
    let mut fde = 0x18;
    let mut entries = Vec::<Entry>::new();
    for _ in 0..1 + random.below(most) {
        let length = 4 * (1 + random.below(30) as u32);
        let mut entry = match entries.last() {
            Some(&last) if random.chance(alike) => Entry { function: ImageOffset(at).into(), length, ..last },
            _ => Entry::new(ImageOffset(at), length, encoding(random, arch, encodings)),
        };
        if random.chance(none) {
            entry = Entry::new(ImageOffset(at), length, Encoding::NONE);
        } else if random.chance(dwarf) {
            fde += 4 * (4 + random.below(5) as u32);
            entry = Entry::new(ImageOffset(at), length, Encoding::dwarf(arch, fde));
        }
        if entry.encoding != Encoding::NONE {
            entry.personality = NonZeroU32::new(random.below(u64::from(personalities) + 1) as u32);
            entry.lsda = None;
            if random.chance(lsda) {
                entry.lsda = LsdaKey::at(ImageOffset(END + at / 16));
            }
        }
        entries.push(entry);
        at += length;
        if random.chance(10) {
            at += 4 * random.below(8) as u32;
        }
        if random.chance(far) && at < END - 0x200_0000 {
            at += 0xff_fff0 + random.below(32) as u32;
        }
    }
    entries
}

/// Returns an encoding. Half of the encodings are rare.
fn encoding(random: &mut Random, arch: Arch, encodings: u64) -> Encoding {
    let mut number = random.below(encodings);
    if random.chance(50) {
        number = random.below(number + 1);
    }
    let indirect = matches!(arch, Arch::Amd64 | Arch::I386) && number % 5 == 4;
    let inside = if number % 9 == 8 { Flags::NOT_FUNCTION_START.bits() } else { 0 };
    Encoding(if indirect { 0x0300_0000 } else { 0x0200_0000 } | inside | (number as u32) << 12)
}
