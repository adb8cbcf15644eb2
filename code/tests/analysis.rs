//! Small functions, assembled by hand and checked with a disassembler.

use cfipack_code::{Analysis, Code, Doubt, Instructions, Memory, State, Value, Ways};
use cfipack_format::{Address, Arch, Register};

const START: u64 = 0x1000;

/// The memory of a file with one table in it.
struct Table(u64, Vec<u8>);

impl Memory for Table {
    fn at(&self, address: Address) -> &[u8] {
        address.0.checked_sub(self.0).and_then(|offset| self.1.get(offset as usize..)).unwrap_or_default()
    }
}

/// The CFA before each instruction as `register+offset`, `?` where it is not known and `-` where no way leads; and the doubts.
fn followed(arch: Arch, bytes: &[u8], memory: &dyn Memory) -> (Vec<String>, Vec<Doubt>) {
    let code = Code { arch, start: Address(START), bytes, relocated: &[] };
    let instructions = Instructions::new(&code);
    let entry = State::at_entry(arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[] };
    let analysis = Analysis::new(code, &instructions, memory, ways);
    let words = |state: &Option<State>| match state.as_ref().map(|state| analysis.cfa(state)) {
        Some(Some((register, offset))) => format!("{register}{offset:+}"),
        Some(None) => "?".to_string(),
        None => "-".to_string(),
    };
    (analysis.states().iter().map(words).collect(), analysis.doubts().map(|doubt| doubt.0).collect())
}

#[test]
fn a_frame_pointer_keeps_the_cfa_while_the_stack_pointer_is_aligned() {
    let bytes = [
        0x55, // push rbp
        0x48, 0x89, 0xe5, // mov rbp, rsp
        0x53, // push rbx
        0x48, 0x83, 0xe4, 0xe0, // and rsp, -32
        0x48, 0x8d, 0x65, 0xf8, // lea rsp, [rbp-8]
        0x5b, // pop rbx
        0x5d, // pop rbp
        0xc3, // ret
    ];
    let (cfas, doubts) = followed(Arch::Amd64, &bytes, &cfipack_code::NoMemory);
    assert_eq!(cfas, ["7+8", "7+16", "7+16", "7+24", "6+16", "7+24", "7+16", "7+8"]);
    assert_eq!(doubts, []);
}

/// A call between two blocks with different frames does not return.
#[test]
fn a_call_that_conflicts_with_what_follows_does_not_return() {
    let bytes = [
        0x85, 0xff, // test edi, edi
        0x74, 0x09, // je +9: the second ret
        0x50, // push rax
        0xe8, 0, 0x10, 0, 0, // call
        0x0f, 0x1f, 0x00, // nop
        0x90, // nop: the target is one on
        0xc3, // ret
    ];
    let mut bytes = bytes.to_vec();
    bytes[3] = 0x0a;
    let (cfas, doubts) = followed(Arch::Amd64, &bytes, &cfipack_code::NoMemory);
    assert_eq!(cfas, ["7+8", "7+8", "7+8", "7+16", "-", "-", "7+8"]);
    assert_eq!(doubts, []);
}

/// `switch` as compilers write it: a compared index, a table of offsets from itself.
#[test]
fn jump_tables_are_read_up_to_the_compared_limit() {
    let bytes = [
        0x50, // 0: push rax
        0x83, 0xff, 0x01, // 1: cmp edi, 1
        0x77, 0x14, // 4: ja 0x1a
        0x48, 0x8d, 0x15, 0xf3, 0x0f, 0, 0, // 6: lea rdx, [rip+0xff3]: 0x2000
        0x48, 0x63, 0x04, 0xba, // d: movsxd rax, [rdx+4*rdi]
        0x48, 0x01, 0xd0, // 11: add rax, rdx
        0xff, 0xe0, // 14: jmp rax
        0x58, // 16: pop rax
        0xc3, // 17: ret
        0x58, // 18: pop rax
        0xc3, // 19: ret
        0x58, // 1a: pop rax
        0xc3, // 1b: ret
    ];
    let entries = [0x16_i64, 0x18, 0x15].map(|target| (0x1000 + target - 0x2000) as i32);
    let table = Table(0x2000, entries.iter().flat_map(|entry| entry.to_le_bytes()).collect());
    let (cfas, doubts) = followed(Arch::Amd64, &bytes, &table);
    assert_eq!(cfas[7..], ["7+16", "7+8", "7+16", "7+8", "7+16", "7+8"]);
    assert_eq!(doubts, []);
    let (_, doubts) = followed(Arch::Amd64, &bytes, &cfipack_code::NoMemory);
    assert_eq!(doubts, [Doubt::IndirectJump, Doubt::NotReached]);
}

#[test]
fn aarch64_saves_and_signs() {
    let words = [
        0xd503233f_u32, // paciasp
        0xa9be7bfd,     // stp x29, x30, [sp, #-32]!
        0x910003fd,     // mov x29, sp
        0xf9000bf3,     // str x19, [sp, #16]
        0x94000400,     // bl
        0xf9400bf3,     // ldr x19, [sp, #16]
        0xa8c27bfd,     // ldp x29, x30, [sp], #32
        0xd50323bf,     // autiasp
        0xd65f03c0,     // ret
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let code = Code { arch: Arch::Aarch64, start: Address(START), bytes: &bytes, relocated: &[] };
    let instructions = Instructions::new(&code);
    let entry = State::at_entry(code.arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[] };
    let analysis = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways);
    let states: Vec<_> = analysis.states().into_iter().map(Option::unwrap).collect();
    let slots: Vec<_> = states[5].slots().collect();
    let caller = |number| Value::Caller(Register(number));
    assert_eq!(slots, [(-32, caller(29)), (-24, Value::Signed), (-16, caller(19))]);
    assert_eq!(states[5].get(code.arch, Register(30)), Value::Unknown, "the call has changed it");
    assert_eq!(states[8].get(code.arch, Register(30)), caller(30));
    assert_eq!(states[8].get(code.arch, Register(19)), caller(19));
    assert_eq!(analysis.doubts().next(), None);
}

/// Every two bytes jump: no limit but those of the analysis ends it.
#[test]
fn hostile_code_ends() {
    // Each jne leads to the next instruction but one, each third pushes.
    let bytes: Vec<u8> = [0x75, 0x01, 0x53, 0x75, 0xfb].into_iter().cycle().take(100_000).collect();
    let (cfas, doubts) = followed(Arch::Amd64, &bytes, &cfipack_code::NoMemory);
    assert_eq!(cfas.len(), 60_000);
    assert!(doubts.contains(&Doubt::Conflict), "{doubts:?}");
}
