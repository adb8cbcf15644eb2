//! Changed tables: a table that is accepted is as true as before, and nothing panics.

use super::*;

/// An entry starts one byte after the start of its function. Unwinding may still be right, because the entry before is
/// in DWARF mode, but the start of the function is wrong.
#[test]
fn a_start_within_a_function() {
    let mut made = make(Layout::Small);
    made.set_encoding(0, Encoding::dwarf(Arch::Amd64, 0).0);
    assert_eq!(made.violations(), []);
    let at = made.encoding_at(1) - 4;
    made.change(at, |function| function + 1);
    assert_eq!(made.names(), ["within-function"]);
    assert!(made.violations()[0].is_warning() && made.report().is_complete());
    let words =
        "function 0x1021: the entry starts within a function at 0x1020, which has no entry of its own";
    assert!(made.violations()[0].to_string().ends_with(words), "{}", made.violations()[0]);
    // The function has an entry at its start, and another entry within it, for code of several ranges.
    let mut made = make(Layout::Small);
    let at = made.encoding_at(4) - 4;
    made.change(at, |function| function + 0x14);
    made.set_encoding(4, Encoding::frame(0, [0; 5]).0);
    assert!(!made.names().contains(&"within-function"), "{:?}", made.names());
}

/// One bit is changed anywhere. A table that is accepted without a violation has all functions at their places. The
/// null entry may move over the bytes that no FDE covers.
#[test]
fn no_single_bit_moves_a_start_unseen() {
    for layout in [Layout::Small, Layout::LdPrime, Layout::Ld64] {
        let good = make(layout);
        let starts = |made: &Made| -> Vec<_> {
            let table = made.table();
            let starts = table.entries().iter().map(|entry| entry.start);
            starts.filter(|start| !(0x1070..0x1080).contains(&start.0)).collect()
        };
        let (mut made, mut accepted) = (make(layout), 0);
        for bit in 0..8 * made.table.len() {
            made.table[bit / 8] ^= 1 << (bit % 8);
            let is_read = Section::parse(&made.table).is_ok();
            if is_read && made.report().is_complete() && made.violations().is_empty() {
                accepted += 1;
                assert_eq!(starts(&made), starts(&good), "{layout:?}: bit {bit}");
            }
            made.table[bit / 8] ^= 1 << (bit % 8);
        }
        // Accepted bits are in the sentinel, in unused bytes, and in offsets from which a search reaches the right FDE.
        // They are less than a quarter.
        assert!(accepted > 0 && accepted < 2 * made.table.len(), "{layout:?}: {accepted}");
    }
}

/// Every byte is changed in several ways, and the table is truncated to every length. Nothing panics, and sums add up.
#[test]
fn damaged() {
    let damages: [fn(u8) -> u8; 4] = [|b| b ^ 0xff, |b| b ^ 1, |b| b ^ 0x80, |_| 0xff];
    for layout in [Layout::Small, Layout::LdPrime] {
        let good = make(layout);
        let mut made = make(layout);
        for damage in damages {
            for at in 0..made.table.len() {
                made.table[at] = damage(made.table[at]);
                if Section::parse(&made.table).is_ok() {
                    made.report();
                    made.violations();
                    diff(&good.table(), &made.table(), &Options::default());
                    stats(Arch::Amd64, &Section::parse(&made.table).unwrap());
                }
                made.table[at] = good.table[at];
            }
        }
        for end in (0..made.table.len()).rev() {
            made.table.truncate(end);
            if Section::parse(&made.table).is_ok() {
                made.report();
                made.violations();
            }
        }
    }
}
