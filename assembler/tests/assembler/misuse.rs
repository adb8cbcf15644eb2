//! A misused directive is an error with the directive's number, and no table is made from it.

use cfipack_assembler::{Assembly, AssemblyError, Directives, Error, Misuse};
use cfipack_cfi::PointerEncoding;
use cfipack_format::{Arch, Key, Register};

const RBP: Register = Register(6);

fn errors(arch: Arch, record: impl FnOnce(&mut Directives)) -> Vec<Error> {
    let mut directives = Directives::new(arch, 16);
    record(&mut directives);
    let errors = directives.errors().to_vec();
    let mut assembly = Assembly::new(arch);
    match errors.first() {
        Some(&first) => {
            assert_eq!(assembly.push(Key(0), &directives), Err(AssemblyError::Directive(first)));
            assert!(assembly.is_empty());
        }
        None => assembly.push(Key(0), &directives).unwrap(),
    }
    errors
}

fn only(arch: Arch, record: impl FnOnce(&mut Directives)) -> (usize, u64, Misuse) {
    let errors = errors(arch, record);
    assert_eq!(errors.len(), 1, "{errors:?}");
    (errors[0].directive, errors[0].offset, errors[0].misuse)
}

/// Offsets that are relative to the CFA's offset, 8 at first, fit 64 bits or are refused.
#[test]
fn relative_offsets_do_not_wrap() {
    let value = i64::MAX - 7;
    let adjusted = only(Arch::Amd64, |directives| _ = directives.at(1).adjust_cfa_offset(value));
    assert_eq!(adjusted, (0, 1, Misuse::Overflow { cfa_offset: 8, value }));
    assert!(errors(Arch::Amd64, |directives| _ = directives.at(1).adjust_cfa_offset(value - 1)).is_empty());
    let value = i64::MIN;
    let relative = only(Arch::Amd64, |directives| _ = directives.at(1).rel_offset(RBP, value));
    assert_eq!(relative, (0, 1, Misuse::Overflow { cfa_offset: 8, value }));
}

#[test]
fn offsets_ascend_and_end_with_the_code() {
    let amd64 = Arch::Amd64;
    let backwards = only(amd64, |directives| {
        directives.at(4).def_cfa_offset(16).offset(RBP, -16).at(3).def_cfa_offset(8);
    });
    assert_eq!(backwards, (2, 3, Misuse::OffsetBackwards { previous: 4 }));
    // Errors of directives at a refused offset have this offset too.
    let at_refused = errors(amd64, |directives| {
        directives.at(8).def_cfa_offset(16).at(3).adjust_cfa_offset(i64::MAX).def_cfa_offset(8);
    });
    let at_refused: Vec<_> = at_refused.iter().map(|error| (error.directive, error.offset)).collect();
    assert_eq!(at_refused, [(1, 3), (1, 3)]);
    let beyond = only(amd64, |directives| _ = directives.at(17).def_cfa_offset(16));
    assert_eq!(beyond, (0, 17, Misuse::OffsetBeyondCode { code_len: 16 }));
    // Directives may stand at the end of the code, as in gas.
    assert!(errors(amd64, |directives| _ = directives.at(16).def_cfa_offset(16)).is_empty());
    let between = only(Arch::Aarch64, |directives| _ = directives.at(2).def_cfa_offset(16));
    assert_eq!(between, (0, 2, Misuse::OffsetUnaligned { unit: 4 }));
    // The size may be set last.
    let mut directives = Directives::new(amd64, u64::MAX);
    directives.at(9).def_cfa_offset(16);
    let error = directives.clone().with_code_len(8).check().unwrap_err();
    assert_eq!(error.misuse, Misuse::OffsetBeyondCode { code_len: 8 });
    assert_eq!(directives.with_code_len(9).check(), Ok(()));
}

#[test]
fn states_are_restored_as_often_as_remembered() {
    let misused = only(Arch::Amd64, |directives| {
        directives.at(1).remember_state().at(2).restore_state().at(3).restore_state();
    });
    assert_eq!(misused, (2, 3, Misuse::RestoreWithoutRemember));
}

#[test]
fn registers_and_directives_are_the_architecture_s() {
    for (arch, register) in [(Arch::Amd64, 200), (Arch::Amd64, 57), (Arch::Aarch64, 40), (Arch::S390x, 84)] {
        let register = Register(register);
        let unknown = (0, 1, Misuse::Register { register, arch });
        assert_eq!(
            only(arch, |directives| _ = directives.at(arch_unit(arch)).undefined(register)).2,
            unknown.2
        );
    }
    let misused = only(Arch::Amd64, |directives| _ = directives.def_cfa_offset(16).negate_ra_state());
    assert_eq!(misused, (1, 0, Misuse::Architecture { arch: Arch::Amd64 }));
    let misused = only(Arch::Amd64, |directives| _ = directives.set_ra_state(0, 0));
    assert_eq!(misused, (0, 0, Misuse::Architecture { arch: Arch::Amd64 }));
    let misused = only(Arch::Aarch64, |directives| _ = directives.at(4).set_ra_state(1, -6));
    assert_eq!(misused, (0, 4, Misuse::Factor { value: -6, factor: 4 }));
    let misused = only(Arch::S390x, |directives| _ = directives.b_key_frame());
    assert_eq!(misused, (0, 0, Misuse::Architecture { arch: Arch::S390x }));
    let misused = only(Arch::Aarch64, |directives| _ = directives.window_save().return_column(Register(45)));
    assert_eq!(misused.0, 1);
}

fn arch_unit(arch: Arch) -> u64 {
    if arch == Arch::Aarch64 { 4 } else { 1 }
}

#[test]
fn offsets_are_what_cfi_can_count() {
    let factor = -8;
    for misused in [
        only(Arch::Amd64, |directives| _ = directives.offset(RBP, -15)),
        only(Arch::Amd64, |directives| _ = directives.val_offset(RBP, 15)),
        only(Arch::Amd64, |directives| _ = directives.rel_offset(RBP, 1)),
        only(Arch::Amd64, |directives| _ = directives.def_cfa_offset(-15)),
        only(Arch::Amd64, |directives| _ = directives.adjust_cfa_offset(-15)),
    ] {
        assert!(matches!(misused.2, Misuse::Factor { factor: found, .. } if found == factor), "{misused:?}");
    }
    assert!(errors(Arch::Amd64, |directives| _ = directives.def_cfa_offset(15)).is_empty());
}

#[test]
fn pointers_are_of_encodings_that_assemblers_write() {
    for encoding in [0x01, 0x09, 0x20, 0x30, 0x50, 0x0f] {
        let encoding = PointerEncoding(encoding);
        let misused = only(Arch::Amd64, |directives| _ = directives.personality(encoding, Key(1)));
        assert_eq!(misused, (0, 0, Misuse::Encoding { encoding }));
    }
}

/// All errors are found, each with the number of its directive.
#[test]
fn all_errors_are_reported() {
    let errors = errors(Arch::Amd64, |directives| {
        directives.restore_state().def_cfa_offset(-1).at(20).def_cfa_offset(16).at(1).restore_state();
    });
    let numbers: Vec<_> = errors.iter().map(|error| error.directive).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    assert_eq!(errors[0].to_string(), "directive 0 at offset 0x0: there is no remembered state to restore");
}

#[test]
fn an_assembly_is_of_one_architecture() {
    let mut assembly = Assembly::new(Arch::Amd64);
    let refused = assembly.push(Key(0), &Directives::new(Arch::S390x, 4));
    assert!(matches!(refused, Err(AssemblyError::Architecture { .. })));
}
