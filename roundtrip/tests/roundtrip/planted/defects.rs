//! Defects of an interpreter. Each defect is a change of instructions: a sound interpreter reads the changed CFI as the
//! defective interpreter reads the original.

/// The instructions of an FDE.
pub type List = Vec<Vec<u8>>;

/// A rule that the interpreter gets wrong.
pub struct Defect {
    pub name: &'static str,
    pub apply: fn(&mut List),
}

/// Every rule of the interpreter that a row depends on.
#[rustfmt::skip]
pub const DEFECTS: [Defect; 31] = [
    Defect { name: "def_cfa ignored", apply: |list| drop_opcode(list, |op| op == 0x0c) },
    Defect { name: "def_cfa keeps the offset", apply: |list| rewrite(list, 0x0c, |it| vec![0x0d, it[1]]) },
    Defect { name: "def_cfa_sf loses its sign", apply: |list| rewrite(list, 0x12, |it| negated(it, 2)) },
    Defect { name: "def_cfa_register ignored", apply: |list| drop_opcode(list, |op| op == 0x0d) },
    Defect { name: "def_cfa_register clears the offset", apply: |list| rewrite(list, 0x0d, |it| vec![0x0c, it[1], 0]) },
    Defect { name: "def_cfa_offset ignored", apply: |list| drop_opcode(list, |op| op == 0x0e) },
    Defect { name: "def_cfa_offset_sf loses its sign", apply: |list| rewrite(list, 0x13, |it| negated(it, 1)) },
    Defect { name: "def_cfa_expression ignored", apply: |list| drop_opcode(list, |op| op == 0x0f) },
    Defect { name: "offset ignored", apply: |list| drop_opcode(list, is_offset) },
    Defect { name: "offset as val_offset", apply: |list| offsets(list, 0x14) },
    Defect { name: "offset_extended_sf loses its sign", apply: |list| rewrite(list, 0x11, |it| negated(it, 2)) },
    Defect { name: "val_offset as offset", apply: |list| rewrite(list, 0x14, |it| with_opcode(it, 0x05)) },
    Defect { name: "val_offset_sf as offset", apply: |list| rewrite(list, 0x15, |it| with_opcode(it, 0x11)) },
    Defect { name: "register ignored", apply: |list| drop_opcode(list, |op| op == 0x09) },
    Defect { name: "register the wrong way round", apply: |list| rewrite(list, 0x09, |it| vec![0x09, it[2], it[1]]) },
    Defect { name: "expression as val_expression", apply: |list| rewrite(list, 0x10, |it| with_opcode(it, 0x16)) },
    Defect { name: "val_expression as expression", apply: |list| rewrite(list, 0x16, |it| with_opcode(it, 0x10)) },
    Defect { name: "undefined as same_value", apply: |list| rewrite(list, 0x07, |it| with_opcode(it, 0x08)) },
    Defect { name: "same_value as undefined", apply: |list| rewrite(list, 0x08, |it| with_opcode(it, 0x07)) },
    Defect { name: "restore ignored", apply: |list| drop_opcode(list, is_restore) },
    Defect { name: "restore to same_value", apply: |list| restores(list, |register| vec![0x08, register]) },
    Defect { name: "restore of the next register", apply: |list| restores(list, |register| vec![0xc0 | ((register + 1) & 0x3f)]) },
    Defect { name: "states neither remembered nor restored", apply: |list| drop_opcode(list, |op| op == 0x0a || op == 0x0b) },
    Defect { name: "one remembered state for all", apply: one_state },
    Defect { name: "advance ignored", apply: |list| drop_opcode(list, |op| op & 0xc0 == 0x40) },
    Defect { name: "advance counts twice", apply: |list| twice(list, |op| op & 0xc0 == 0x40) },
    Defect { name: "advance_loc1 ignored", apply: |list| drop_opcode(list, |op| op == 0x02) },
    Defect { name: "advance_loc2 in the wrong byte order", apply: |list| rewrite(list, 0x03, |it| vec![0x03, it[2], it[1]]) },
    Defect { name: "negate_ra_state ignored", apply: |list| drop_opcode(list, |op| op == 0x2d) },
    Defect { name: "negate_ra_state sets", apply: negate_sets },
    Defect { name: "args_size moves the CFA", apply: |list| rewrite(list, 0x2e, |it| with_opcode(it, 0x0e)) },
];

fn is_offset(opcode: u8) -> bool {
    opcode & 0xc0 == 0x80 || opcode == 0x05
}

fn is_restore(opcode: u8) -> bool {
    opcode >= 0xc0 || opcode == 0x06
}

fn drop_opcode(list: &mut List, opcode: impl Fn(u8) -> bool) {
    list.retain(|instruction| !opcode(instruction[0]));
}

fn rewrite(list: &mut List, opcode: u8, with: impl Fn(&[u8]) -> Vec<u8>) {
    for instruction in list.iter_mut().filter(|instruction| instruction[0] == opcode) {
        *instruction = with(instruction);
    }
}

fn with_opcode(instruction: &[u8], opcode: u8) -> Vec<u8> {
    [&[opcode], &instruction[1..]].concat()
}

/// Negates the signed number at a place. A number of several bytes stays.
fn negated(instruction: &[u8], at: usize) -> Vec<u8> {
    let mut negated = instruction.to_vec();
    if let [.., number] = &mut negated[at..]
        && instruction.len() == at + 1
    {
        *number = number.wrapping_neg() & 0x7f;
    }
    negated
}

fn offsets(list: &mut List, opcode: u8) {
    for instruction in list.iter_mut() {
        match instruction[0] {
            short @ 0x80..=0xbf => *instruction = [&[opcode, short & 0x3f], &instruction[1..]].concat(),
            0x05 => instruction[0] = opcode,
            _ => {}
        }
    }
}

fn restores(list: &mut List, with: impl Fn(u8) -> Vec<u8>) {
    for instruction in list.iter_mut().filter(|instruction| instruction[0] >= 0xc0) {
        *instruction = with(instruction[0] & 0x3f);
    }
}

/// Each state that is remembered takes the place of the last one, and restoring leaves it there.
fn one_state(list: &mut List) {
    let (mut found, mut remembered) = (List::new(), false);
    for instruction in list.drain(..) {
        match instruction[0] {
            0x0a if remembered => {
                // The state before it is lost, so it is restored at a place where this changes nothing.
                let last = found.iter().rposition(|it| it[0] == 0x0a).expect("it was remembered");
                found.remove(last);
                found.push(instruction);
            }
            0x0b => {
                found.extend([instruction, vec![0x0a]]);
                remembered = true;
            }
            0x0a => {
                found.push(instruction);
                remembered = true;
            }
            _ => found.push(instruction),
        }
    }
    *list = found;
}

fn negate_sets(list: &mut List) {
    let mut is_first = true;
    list.retain(|instruction| instruction[0] != 0x2d || std::mem::take(&mut is_first));
}

fn twice(list: &mut List, opcode: impl Fn(u8) -> bool) {
    let copies = list.drain(..).flat_map(|instruction| {
        let count = if opcode(instruction[0]) { 2 } else { 1 };
        std::iter::repeat_n(instruction, count)
    });
    *list = copies.collect();
}
