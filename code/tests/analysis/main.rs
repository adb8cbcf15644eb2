//! Small functions, assembled by hand and checked with a disassembler.

mod jump_tables;

use cfipack_code::{
    Analysis, CallSite, Code, Doubt, Entry, Flow, Instructions, Judge, Memory, Rows, State, Value, Ways,
};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};

const START: u64 = 0x1000;

/// The memory of a file with one table in it.
struct Table(u64, Vec<u8>);

impl Memory for Table {
    fn at(&self, address: Address) -> &[u8] {
        address.0.checked_sub(self.0).and_then(|offset| self.1.get(offset as usize..)).unwrap_or_default()
    }
}

/// Returns the CFA before each instruction as `register+offset`, and the doubts. The CFA is `?` if it is not known, and
/// `-` if no way leads to the instruction.
fn followed(arch: Arch, bytes: &[u8], memory: &dyn Memory) -> (Vec<String>, Vec<Doubt>) {
    let code = Code { arch, start: Address(START), bytes, relocated: &[] };
    let instructions = Instructions::new(&code);
    let entry = State::at_entry(arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
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

/// Two paths compare the stack pointer before the same branch. It has a known value after the branch if both have
/// compared it with the register that has the value.
#[test]
fn a_branch_is_told_by_comparisons_on_all_paths() {
    let after = |other: u8| {
        let bytes = [
            &[0x4c, 0x8d, 0x9c, 0x24, 0, 0xf0, 0xff, 0xff][..], // 0: lea r11, [rsp-0x1000]
            &[0x48, 0x29, 0xfc],                                // 8: sub rsp, rdi
            &[0x85, 0xf6],                                      // b: test esi, esi
            &[0x74, 0x05],                                      // d: je 0x14
            &[0x4c, 0x39, 0xdc],                                // f: cmp rsp, r11
            &[0xeb, 0x03],                                      // 12: jmp 0x17
            &[0x4c, 0x39, other],                               // 14: cmp rsp, r11 or r8
            &[0x75, 0x01],                                      // 17: jne 0x1a
            &[0x90],                                            // 19: nop
            &[0x49, 0x8d, 0xa3, 0, 0x10, 0, 0],                 // 1a: lea rsp, [r11+0x1000]
            &[0xc3],                                            // 21: ret
        ];
        followed(Arch::Amd64, &bytes.concat(), &cfipack_code::NoMemory).0[8].clone()
    };
    let (r11, r8) = (0xdc, 0xc4);
    assert_eq!([after(r11), after(r8)], ["7+4104", "11+4104"]);
}

/// GCC's `-fstack-clash-protection`: after the loop, the stack pointer equals the register that it was compared with.
#[test]
fn a_loop_that_probes_the_stack_ends_at_the_address_in_a_register() {
    let bytes = [
        0x4c, 0x8d, 0x9c, 0x24, 0, 0xe0, 0xff, 0xff, // lea r11, [rsp-0x2000]
        0x48, 0x81, 0xec, 0, 0x10, 0, 0, // sub rsp, 0x1000
        0x48, 0x83, 0x0c, 0x24, 0x00, // or qword ptr [rsp], 0
        0x4c, 0x39, 0xdc, // cmp rsp, r11
        0x75, 0xef, // jne: sub
        0x48, 0x81, 0xc4, 0, 0x20, 0, 0,    // add rsp, 0x2000
        0xc3, // ret
    ];
    let (cfas, _) = followed(Arch::Amd64, &bytes, &cfipack_code::NoMemory);
    assert_eq!(cfas[5..], ["7+8200", "7+8"]);
    let bytes = words(&[
        0xd140_13ec, // sub x12, sp, #16384
        0xd140_13ff, // sub sp, sp, #16384
        0xf902_03ff, // str xzr, [sp, #1024]
        0xeb2c_63ff, // cmp sp, x12
        0x54ff_ffa1, // b.ne: sub
        0x9140_13ff, // add sp, sp, #16384
        0xd65f_03c0, // ret
    ]);
    let (cfas, _) = followed(Arch::Aarch64, &bytes, &cfipack_code::NoMemory);
    assert_eq!(cfas[5..], ["31+16384", "31+0"]);
}

/// A masked return address may be the return address, and a store of it adds no doubt.
#[test]
fn a_loop_that_stores_a_possible_value_again_is_followed_to_its_end() {
    let bytes = words(&[
        0xaa1e_03ed, // mov x13, x30
        0x8a10_03de, // and x30, x30, x16
        0xf81f_0ffe, // str x30, [sp, #-16]!
        0xf900_03ed, // str x13, [sp]
        0xb5ff_ffe0, // cbnz x0: the last str
        0x9100_43ff, // add sp, sp, #16
        0xd65f_03c0, // ret
    ]);
    assert_eq!(followed(Arch::Aarch64, &bytes, &cfipack_code::NoMemory).1, []);
}

/// A function is entered at the same place with frames of different sizes.
#[test]
fn entries_at_the_same_place_are_joined() {
    // pop rbx; ret
    let bytes = [0x5b, 0xc3];
    let code = Code { arch: Arch::Amd64, start: Address(START), bytes: &bytes, relocated: &[] };
    let instructions = Instructions::new(&code);
    let states = [-16, -16, -24].map(|place| {
        let mut state = State::at_entry(code.arch);
        state.set(code.arch, code.arch.stack_pointer(), Value::Cfa(place));
        state
    });
    let known = |states: [&State; 2]| {
        let entries = states.map(|state| Entry { offset: 0, state });
        let ways = Ways { start: None, entries: &entries, call_sites: &[], noreturn: &[] };
        let analysis = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways);
        analysis.states()[0].as_ref().map(|state| analysis.cfa(state).is_some())
    };
    assert_eq!(known([&states[0], &states[1]]), Some(true));
    assert_eq!(known([&states[0], &states[2]]), Some(false));
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
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
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

/// The words that copy and clear memory are those that gcc 16 writes with `-march=armv8.8-a`. GNU objdump names them.
#[test]
fn aarch64_copies_change_their_registers() {
    let words = [
        0xf81f_0ff3_u32, // str x19, [sp, #-16]!
        0x1901_0443,     // cpyfp [x3]!, [x1]!, x2!
        0x1941_0443,     // cpyfm [x3]!, [x1]!, x2!
        0x1981_0443,     // cpyfe [x3]!, [x1]!, x2!
        0x1d16_06b3,     // cpyp [x19]!, [x22]!, x21!
        0x19df_0487,     // setp [x7]!, x4!, xzr
        0xf841_07f3,     // ldr x19, [sp], #16
        0xd65f_03c0,     // ret
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let code = Code { arch: Arch::Aarch64, start: Address(START), bytes: &bytes, relocated: &[] };
    let instructions = Instructions::new(&code);
    let entry = State::at_entry(code.arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
    let analysis = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways);
    let states: Vec<_> = analysis.states().into_iter().map(Option::unwrap).collect();
    let changed = |index: usize| -> Vec<u16> {
        let is_changed = |number: &u16| {
            let own = Register(*number);
            states[index].get(code.arch, own) != Value::Caller(own)
        };
        (0..31).filter(is_changed).collect()
    };
    assert!(changed(1).is_empty());
    assert_eq!(changed(4), [1, 2, 3]);
    assert_eq!(changed(5), [1, 2, 3, 19, 21, 22]);
    assert_eq!(changed(7), [1, 2, 3, 4, 7, 21, 22]);
    assert_eq!(analysis.doubts().next(), None);
}

/// Functions in assembler keep a return address in a register that called ones do not change, whatever the ABI says.
#[test]
fn a_return_address_in_a_register_may_survive_a_call() {
    // mov x13, x30; ...; mov x30, x13; ret
    let judged = |second: [u8; 4]| {
        let bytes = [[0xed, 3, 0x1e, 0xaa], second, [0xfe, 3, 0x0d, 0xaa], [0xc0, 3, 0x5f, 0xd6]].concat();
        let code = Code { arch: Arch::Aarch64, start: Address(START), bytes: &bytes, relocated: &[] };
        let instructions = Instructions::new(&code);
        let entry = State::at_entry(Arch::Aarch64);
        let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
        let analysis = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways);
        let mut rows = Rows::new();
        for (start, register) in [(0, 30), (4, 13), (12, 30)] {
            let return_address = Rule::Register { register: Register(register), offset: 0 };
            let cfa = Cfa::Register { register: Register(31), offset: 0 };
            let row =
                Row { start: FunctionOffset(start), cfa, return_address, ..Row::at_entry(Arch::Aarch64) };
            rows.push(row, &[]);
        }
        let judgement = Judge::new(&analysis, &rows, code.arch.red_zone()).judge();
        let kinds: Vec<_> = judgement.findings.iter().map(|finding| finding.kind.name()).collect();
        (kinds, judgement.undecided)
    };
    // bl: undecided where it matters.
    assert_eq!(judged([0, 4, 0, 0x94]), (vec![], 2));
    // mov x13, x0: wrong, until the next row.
    assert_eq!(judged([0xed, 3, 0, 0xaa]).0, ["return-address"]);
}

/// d8 is the lower half of q8, in the lower bytes or, big endian, in the upper ones.
#[test]
fn halves_of_vectors_are_saved_with_them() {
    let words = [
        0xadbf27e8_u32, // stp q8, q9, [sp, #-32]!
        0x6f00e408,     // movi v8.2d, #0
        0xacc127e8,     // ldp q8, q9, [sp], #32
        0xd65f03c0,     // ret
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (arch, within) in [(Arch::Aarch64, 0), (Arch::Aarch64Be, 8)] {
        let code = Code { arch, start: Address(START), bytes: &bytes, relocated: &[] };
        let instructions = Instructions::new(&code);
        let entry = State::at_entry(arch);
        let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
        let analysis = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways);
        let states: Vec<_> = analysis.states().into_iter().map(Option::unwrap).collect();
        let slots: Vec<_> = states[2].slots().collect();
        let caller = |number| Value::Caller(Register(number));
        assert_eq!(slots, [(within - 32, caller(72)), (within - 16, caller(73))]);
        assert_eq!(states[2].get(arch, Register(72)), Value::Unknown);
        assert_eq!(states[3].get(arch, Register(72)), caller(72));
    }
}

/// The bytes of AArch64 instructions.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// No store by a pointer takes what a function has to restore: it is another turn of a loop over a buffer. A store by the
/// stack pointer does, if no path avoids it.
#[test]
fn a_store_by_a_pointer_takes_no_saved_register() {
    let restored = |change: u32, store: u32| {
        let bytes = words(&[
            0xa9be_7bfd, // stp x29, x30, [sp, #-32]!
            0xa901_53f3, // stp x19, x20, [sp, #16]
            change,
            0x9100_43e8, // add x8, sp, #16
            store,
            0xa941_53f3, // ldp x19, x20, [sp, #16]
            0xa8c2_7bfd, // ldp x29, x30, [sp], #32
            0xd65f_03c0, // ret
        ]);
        let code = Code { arch: Arch::Aarch64, start: Address(START), bytes: &bytes, relocated: &[] };
        let instructions = Instructions::new(&code);
        let entry = State::at_entry(Arch::Aarch64);
        let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
        let states = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways).states();
        states[7].as_ref().map(|state| state.get(Arch::Aarch64, Register(19)))
    };
    let (mov, nop, by_pointer, by_stack) = (0xaa00_03f3, 0xd503_201f, 0xf900_011f, 0xf900_0bff);
    // mov x19, x0, or x19 is still in its register.
    for change in [mov, nop] {
        // str xzr, [x8]
        assert_eq!(restored(change, by_pointer), Some(Value::Caller(Register(19))));
        // str xzr, [sp, #16]
        assert_eq!(restored(change, by_stack), Some(Value::Unknown));
    }
}

/// GCC joins calls that throw with those between them that do not, which may be at other places of the prologue.
#[test]
fn what_calls_before_a_landing_pad_disagree_about_is_undecided() {
    let bytes = words(&[
        0xa9be_7bfd, // 0: stp x29, x30, [sp, #-32]!
        0xf900_0bf3, // 4: str x19, [sp, #16]
        0xaa00_03f3, // 8: mov x19, x0
        0x9400_0100, // c: bl: it does not throw
        0xf940_0bf3, // 10: ldr x19, [sp, #16]
        0x9400_0100, // 14: bl: it throws
        0xa8c2_7bfd, // 18: ldp x29, x30, [sp], #32
        0xd65f_03c0, // 1c: ret
        0xf900_0bf3, // 20: str x19, [sp, #16]: the landing pad
        0xf940_0bf3, // 24: ldr x19, [sp, #16]
        0x9400_0100, // 28: bl
    ]);
    let code = Code { arch: Arch::Aarch64, start: Address(START), bytes: &bytes, relocated: &[] };
    let instructions = Instructions::new(&code);
    let entry = State::at_entry(Arch::Aarch64);
    let site = CallSite { start: 0xc, end: 0x18, landing_pad: Address(START + 0x20), stack: None };
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[site], noreturn: &[] };
    let analysis = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways);
    let findings = |stored: i64| {
        let x19 = [(Register(19), Rule::Cfa(stored))];
        let mut rows = Rows::new();
        for (start, size, saved) in [(0, 0, false), (4, 32, false), (8, 32, true), (0x14, 32, false)]
            .into_iter()
            .chain([(0x1c, 0, false), (0x20, 32, false), (0x24, 32, true), (0x28, 32, false)])
        {
            let mut row = Row { start: FunctionOffset(start), ..Row::at_entry(Arch::Aarch64) };
            let mut all = Vec::new();
            if size != 0 {
                row.cfa = Cfa::Register { register: Register(31), offset: size };
                row.return_address = Rule::Cfa(-24);
                all.push((Register(29), Rule::Cfa(-32)));
                all.extend(x19.iter().filter(|_| saved));
            }
            rows.push(row, &all);
        }
        Judge::new(&analysis, &rows, code.arch.red_zone())
            .judge()
            .findings
            .iter()
            .map(|finding| finding.index)
            .collect::<Vec<_>>()
    };
    assert_eq!(findings(-16), [0; 0]);
    assert_eq!(findings(-8), [2, 9]);
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

/// Any bytes, on every architecture, also one without a disassembler, beside rows that start anywhere: all that can be asked
/// of an analysis has an answer.
#[test]
fn any_bytes_can_be_analysed_and_judged() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for arch in Arch::ALL {
        for len in (0..64).chain([1000, 4000]) {
            let bytes: Vec<u8> = (0..len).map(|_| next() as u8).collect();
            // Near both ends of the address space too.
            let start = Address([0, START, 0u64.wrapping_sub(len / 2)][next() as usize % 3]);
            let code = Code { arch, start, bytes: &bytes, relocated: &[] };
            let instructions = Instructions::new(&code);
            let entry = State::at_entry(arch);
            let unknown = State::unknown();
            let entries: Vec<_> = (0..next() % 3)
                .map(|_| Entry { offset: (next() % (len + 2)) as u32, state: &unknown })
                .collect();
            let site = CallSite {
                start: 0,
                end: len as u32,
                landing_pad: start.offset((next() % (len + 2)) as i64),
                stack: Some(i32::MIN),
            };
            let ways = Ways { start: Some(&entry), entries: &entries, call_sites: &[site], noreturn: &[0] };
            let analysis = Analysis::new(code, &instructions, &Table(start.0, bytes.clone()), ways);
            let starts = (0..next() % 8).map(|_| (next() % (len + 2)) as u32).collect();
            let rows = rows(arch, starts, &mut next);
            let judge = Judge::new(&analysis, &rows, code.arch.red_zone());
            let judgement = judge.judge();
            assert!(judgement.right + judgement.undecided <= instructions.len() as u64);
            judgement.unconfirmed_calls(&analysis, next() % 2 == 0);
            for index in 0..=instructions.len() {
                analysis.returns_to(index);
            }
            assert_eq!(analysis.states().len(), instructions.len());
        }
    }
}

/// Rows with extreme offsets at these offsets.
fn rows(arch: Arch, mut starts: Vec<u32>, next: &mut impl FnMut() -> u64) -> Rows {
    starts.sort_unstable();
    starts.dedup();
    let mut rows = Rows::new();
    for start in starts {
        let offset = [0, 8, 16, i64::MAX, i64::MIN, i64::from(i32::MIN)][next() as usize % 6];
        let register = Register((next() % 40) as u16);
        let cfa = match next() % 4 {
            0 => Cfa::Memory { register, offset },
            1 => Cfa::Expression,
            2 => Cfa::Register { register: arch.stack_pointer(), offset },
            _ => Cfa::Register { register, offset },
        };
        let rule =
            [Rule::Cfa(offset), Rule::Memory { register, offset }, Rule::SameValue, Rule::ValCfa(offset)];
        let mut rule = || rule[next() as usize % 4];
        let row = Row {
            start: FunctionOffset(start),
            cfa,
            return_address: rule(),
            frame_pointer: rule(),
            ..Row::at_entry(arch)
        };
        rows.push(row, &[(register, rule())]);
    }
    rows
}

/// `enter` pushes the frame pointer, and pointers of other frames if its second operand is not 0 (Intel's manual, "ENTER").
#[test]
fn enter_makes_a_frame() {
    for (depth, after_enter) in [(0, "7+32"), (1, "7+40"), (2, "7+48")] {
        // enter 16, depth; call rdi; leave; ret
        let bytes = [0xc8, 16, 0, depth, 0xff, 0xd7, 0xc9, 0xc3];
        let (cfas, doubts) = followed(Arch::Amd64, &bytes, &cfipack_code::NoMemory);
        assert_eq!(
            (&cfas[..], &doubts[..]),
            (&["7+8", after_enter, after_enter, "7+8"].map(String::from)[..], &[][..])
        );
        let code = Code { arch: Arch::Amd64, start: Address(START), bytes: &bytes, relocated: &[] };
        let (instructions, entry) = (Instructions::new(&code), State::at_entry(Arch::Amd64));
        let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
        let analysis = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways);
        let states = analysis.states();
        assert_eq!(states[1].as_ref().unwrap().slot(-16), Value::Caller(Register(6)));
        assert_eq!(states[3].as_ref().unwrap().get(Arch::Amd64, Register(6)), Value::Caller(Register(6)));
    }
}

/// A program ends at `hlt`. In a kernel, execution goes on after it.
#[test]
fn hlt_may_be_the_last_instruction() {
    // push rbx; call +0x100; hlt
    let (_, doubts) = followed(Arch::Amd64, &[0x53, 0xe8, 0, 1, 0, 0, 0xf4], &cfipack_code::NoMemory);
    assert_eq!(doubts, []);
    // push rbx; hlt; pop rbx; ret
    let (cfas, doubts) = followed(Arch::Amd64, &[0x53, 0xf4, 0x5b, 0xc3], &cfipack_code::NoMemory);
    assert_eq!((cfas.last().unwrap().as_str(), &doubts[..]), ("7+8", &[][..]));
}

/// Code reads its own address by a call of the next instruction. A function may end with a call of the function that
/// follows, too.
#[test]
fn a_call_of_the_next_instruction() {
    let flow = |next: &[u8]| {
        let bytes = [&[0xe8, 0, 0, 0, 0][..], next].concat();
        let code = Code { arch: Arch::Amd64, start: Address(START), bytes: &bytes, relocated: &[] };
        Instructions::new(&code).at(0).flow
    };
    // pop rax; mov rax, [rsp]; add rsp, 8
    for next in [&[0x58][..], &[0x48, 0x8b, 0x04, 0x24], &[0x48, 0x83, 0xc4, 8]] {
        assert_eq!(flow(next), Flow::Next, "{next:x?}");
    }
    // push rbp; sub rsp, 8; mov rbp, rsp; nothing
    for next in [&[0x55][..], &[0x48, 0x83, 0xec, 8], &[0x48, 0x89, 0xe5], &[]] {
        assert_eq!(flow(next), Flow::Call(Some(Address(START + 5))), "{next:x?}");
    }
}
