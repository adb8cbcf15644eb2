//! Reads any bytes as code of any architecture, beside rows that start anywhere. Analysis and judgement must neither
//! panic nor exceed the stated limits.

use cfipack_code::{Analysis, CallSite, Code, Entry, Instructions, Judge, Memory, Rows, State, Ways};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Row, Rule};

/// The memory from which jump tables are read: the code itself.
struct Own<'i>(u64, &'i [u8]);

impl Memory for Own<'_> {
    fn at(&self, address: Address) -> &[u8] {
        let offset = usize::try_from(address.0.wrapping_sub(self.0)).ok();
        offset.and_then(|offset| self.1.get(offset..)).unwrap_or_default()
    }
}

/// Follows and judges the input as code. The first bytes choose the rows.
pub fn code(input: &[u8]) {
    // The input: architecture, address, an entry, a call site, the number of rows, four bytes per row, and the code.
    let Some(([arch, place, entry, pad, count], rest)) = input.split_first_chunk() else { return };
    let arch = Arch::ALL[usize::from(*arch) % Arch::ALL.len()];
    let start = Address([0, 0x1000, u64::MAX - 0x40, u64::MAX << 31][usize::from(*place) % 4]);
    let Some((described, bytes)) = rest.split_at_checked(usize::from(*count) * 4) else { return };
    let mut rows = Rows::new();
    let mut next = 0_u32;
    for row in described.chunks_exact(4) {
        let register = cfipack_format::Register(u16::from(row[1]));
        let offset = [i64::from(row[2] as i8) * 8, i64::MAX, i64::MIN, 0][usize::from(row[3] & 3)];
        let cfa = match row[3] >> 2 & 3 {
            0 => Cfa::Register { register: arch.stack_pointer(), offset },
            1 => Cfa::Register { register, offset },
            2 => Cfa::Memory { register, offset },
            _ => Cfa::Expression,
        };
        let signed = row[3] & 0x10 != 0;
        let row = Row { start: FunctionOffset(next), cfa, signed, ..Row::at_entry(arch) };
        rows.push(row, &[(register, Rule::Cfa(offset))]);
        next += 1 + u32::from(described[0]);
    }
    let code = Code { arch, start, bytes, relocated: &[] };
    let instructions = Instructions::new(&code);
    let state = State::at_entry(arch);
    let unknown = State::unknown();
    let entries = [Entry { offset: (*entry).into(), state: &unknown }];
    let landing_pad = start.offset(i64::from(*pad));
    let sites = [CallSite { start: 0, end: bytes.len() as u32, landing_pad, stack: Some(-64) }];
    let ways = Ways { start: Some(&state), entries: &entries, call_sites: &sites, noreturn: &[] };
    let analysis = Analysis::new(code, &instructions, &Own(start.0, bytes), ways);
    let judgement = Judge::new(&analysis, &rows, arch.red_zone()).judge();
    assert!(judgement.right + judgement.undecided <= instructions.len() as u64);
    judgement.unconfirmed_calls(&analysis, false);
}
