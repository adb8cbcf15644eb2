//! Functions without code.

use cfipack_encoder::sframe::{Conflict, Layout};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Object, Prefer};

use crate::{Function, all, meaning, merge, options, plain, table};

/// A function without code starts where another function starts. They share no PC.
#[test]
fn functions_without_code() {
    let none = Function { num_fres: 1, fres: vec![0, 3, 8], ..plain(0) };
    let bytes = table(Version::V3, &[plain(16), none, plain(16)]);
    let object = Object::new().with_sframe(&bytes);
    let options = options(Version::V3, Layout::Gnu, Prefer::TableOnly);
    let (section, notes, _) = merge(options, object, all(Version::V3));
    assert_eq!(notes, []);
    let mut bytes = vec![0; section.len()];
    let at = |starts: [u64; 3]| move |key: Key| Address(starts[key.0 as usize]);
    for starts in [[0x10, 0x10, 0x20], [0x20, 0x20, 0x10], [0x10, 0x18, 0x20]] {
        let written = section.write(&mut bytes, Address(0x1000), at(starts)).unwrap();
        assert_eq!(written.conflicts, []);
    }
    let written = section.write(&mut bytes, Address(0x1000), at([0x10, 0x18, 0x1f])).unwrap();
    assert!(matches!(written.conflicts[..], [Conflict { function: Key(0), other: Key(2), .. }]));
}

/// A function without code may start anywhere. It shares no PC with its neighbours, and `ld` keeps it.
#[test]
fn functions_without_code_lie_anywhere() {
    let empty = Function { size: 0, num_fres: 1, fres: vec![0, 3, 8], ..plain(0) };
    let bytes = table(Version::V3, &[plain(16), empty, plain(16)]);
    let options = options(Version::V3, Layout::Gnu, Prefer::TableOnly);
    let (section, notes, _) = merge(options, Object::new().with_sframe(&bytes), all(Version::V3));
    assert!(notes.is_empty(), "{notes:?}");
    let starts = |starts: [u64; 3]| {
        let mut out = vec![0; section.len()];
        let written =
            section.write(&mut out, Address(0x10_0000), |key| Address(starts[key.0 as usize])).unwrap();
        (written.conflicts.len(), out)
    };
    let sorted = |bytes: &[u8]| -> Vec<_> {
        meaning(bytes).into_iter().map(|(start, size, _)| (start, size)).collect()
    };
    // Equal starts keep the order of the input.
    let (conflicts, out) = starts([0x1010, 0x1010, 0x1000]);
    assert_eq!(conflicts, 0);
    assert_eq!(sorted(&out), [(0x1000, 16), (0x1010, 16), (0x1010, 0)]);
    assert_eq!(starts([0x1000, 0x1008, 0x1010]).0, 0);
    assert_eq!(starts([0x1000, 0x1000, 0x100f]).0, 1);
}
