//! Code and tables of landing pads that are read without following the code.

use cfipack_code::{CallSite, Code, Instructions, landing_pads, mentions};
use cfipack_format::{Address, Arch};

/// GNU `as` and `ld` 2.40 made the bytes.
#[test]
fn addresses_that_code_mentions() {
    let code = [0x50, 0x48, 0x8d, 0x15, 0xf8, 0x0f, 0, 0, 0x4c, 0x8d, 0x25, 0xf1, 0xff, 0xff, 0xff, 0xc3];
    let found: Vec<_> = mentions(Arch::Amd64, Address(0x1000), &code).collect();
    assert_eq!(found, [Address(0x2000), Address(0x1000)]);
    let code = [
        0xd000_0083, // adrp x3, 0x412000
        0xaa02_03e1, // mov x1, x2
        0x910d_1463, // add x3, x3, #0x345
        0xf0ff_ffe4, // adrp x4, 0x3ff000
        0x9119_e085, // add x5, x4, #0x678
    ];
    let code: Vec<u8> = code.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    let found: Vec<_> = mentions(Arch::Aarch64, Address(0x40_0010), &code).collect();
    assert_eq!(found, [Address(0x41_2345), Address(0x3f_f678)]);
}

/// GCC writes it in this form: both bases are omitted, and numbers are ULEB128.
#[test]
fn call_sites_with_landing_pads() {
    let lsda = [0xff, 0xff, 0x01, 12, 2, 5, 0x1e, 0, 0x10, 4, 0, 0, 0x14, 4, 0x22, 1];
    let sites = landing_pads::read(&lsda, Address(0x2000), Address(0x1000), 0x30, Arch::Amd64);
    let site = |start, end, pad| CallSite { start, end, landing_pad: Address(pad), stack: None };
    assert_eq!(sites, [site(2, 7, 0x101e), site(0x14, 0x18, 0x1022)]);
    // An LSDA that is cut off, and an LSDA with a call site after the end of the function.
    assert_eq!(landing_pads::read(&lsda[..10], Address(0x2000), Address(0x1000), 0x30, Arch::Amd64), []);
    assert_eq!(landing_pads::read(&lsda, Address(0x2000), Address(0x1000), 0x17, Arch::Amd64), []);
}

/// Neither the disassembler nor our reading of operands panics on any word. The test tries two million words of all kinds.
#[test]
fn every_kind_of_word_is_decoded() {
    const WORDS: usize = 2_000;
    let mut word = 0u32;
    for _ in 0..1_000 {
        // The step is odd, so the sequence reaches every word in the end.
        let words = std::iter::repeat_with(|| {
            word = word.wrapping_add(0x9e37_79b1);
            word.to_le_bytes()
        });
        let bytes = words.take(WORDS).collect::<Vec<_>>().concat();
        let code = Code { arch: Arch::Aarch64, start: Address(0x1000), bytes: &bytes, relocated: &[] };
        assert_eq!(Instructions::new(&code).len(), WORDS);
    }
}
