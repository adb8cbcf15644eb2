//! Compares the numbers that encode the order of pushed registers with llvm-mc's.

use cfipack_format::compact_unwind::{Encoding, decode_order, encode_order};

const ORDERS: &str = include_str!("../../corpora/compact-unwind/permutations.tsv");

fn number(arch: &str, name: &str) -> u8 {
    let names = match arch {
        "x86_64" => ["rbx", "r12", "r13", "r14", "r15", "rbp"],
        _ => ["ebx", "ecx", "edx", "edi", "esi", "ebp"],
    };
    1 + names.iter().position(|other| *other == name).expect(name) as u8
}

/// Every order on both architectures gets the number that llvm-mc 23 gives it.
#[test]
fn as_llvm_mc() {
    let mut orders = 0;
    for line in ORDERS.lines().skip(1) {
        let mut columns = line.split('\t');
        let mut column = || columns.next().expect(line);
        let (arch, count, registers) = (column(), column().parse().unwrap(), column());
        let encoding = Encoding(u32::from_str_radix(column(), 16).unwrap());
        let mut order = [0; 6];
        for (slot, name) in order.iter_mut().zip(registers.split(',')) {
            *slot = number(arch, name);
        }
        assert_eq!(encoding.count(), count, "{line}");
        assert_eq!(encode_order(&order[..count as usize]), Some(encoding.permutation()), "{line}");
        assert_eq!(decode_order(count, encoding.permutation()), Some(order), "{line}");
        orders += 1;
    }
    assert_eq!(orders, 2 * 1956);
}
