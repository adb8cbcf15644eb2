//! CIEs that runtimes read and gimli refuses: the judge gives them to gimli in another form.

use cfipack_cfi::SectionKind::EhFrame;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::cfi::{Evaluator, Functions};

use crate::judged::report;
use crate::made::{Cfi, Made, SP1};

#[test]
fn key_b_and_tagging() {
    for (augmentation, info) in
        [(&b"zRB"[..], 0x20), (b"zRBG", 0x20), (b"zRG", 0), (b"BzR", 0x20), (b"zBRS", 0xa0)]
    {
        for arch in [Arch::Aarch64, Arch::Aarch64Be] {
            let mut cfi = Cfi::new(arch, EhFrame);
            let cie = cfi.cie(augmentation, &[1, 0], &[0x0c, 31, 0]);
            // advance 4, negate_ra_state, advance 4, def_cfa_offset 16, offset x29 -16, offset x30 -8
            cfi.fde(cie, 0x1000, 16, &[0x44, 0x2d, 0x44, 0x0e, 16, 0x9d, 2, 0x9e, 1]);
            let rows: [(u8, u8, &[u8]); 3] = [(0, 0x03, &[0]), (4, 0x83, &[0]), (8, 0x87, &[16, 0xf8, 0xf0])];
            let mut function = Made::new(0x1000, 16, &rows);
            function.info = info;
            let found = report(&cfi, &[function.clone()]);
            assert!(found.is_complete(), "{augmentation:?}: {found:#?}");
            // The other key is a difference, because the address is signed.
            function.info ^= 0x20;
            let found = report(&cfi, &[function.clone()]);
            assert_eq!((found.pcs_equal, found.pcs_different), (4, 12));
            // So is a row that is not signed.
            function.info ^= 0x20;
            function.rows[1].1 = 0x03;
            assert_eq!(report(&cfi, &[function]).pcs_different, 4);
        }
    }
}

/// Letters that are hidden from gimli do not change the place that a pointer is relative to.
#[test]
fn personality_beside_key_b() {
    for augmentation in [&b"zPR"[..], b"zPRB", b"zPRG", b"zPRBG", b"BzPR"] {
        for (encoding, value) in [(0x9b, vec![0x10, 0, 0, 0]), (0x80, vec![0x10, 0, 0, 0, 0, 0, 0, 0])] {
            let mut cfi = Cfi::new(Arch::Aarch64, EhFrame);
            let data = [&[2 + value.len() as u8, encoding][..], &value, &[0]].concat();
            let cie = cfi.cie(augmentation, &data, &[0x0c, 31, 0]);
            cfi.fde(cie, 0x1000, 16, &[]);
            let functions = Functions::find(&[cfi.section()]);
            let handler = Evaluator::new(&functions).handler(&functions.as_slice()[0]).unwrap();
            // The pointer is after length, id, version, the letters, three bytes, the data's length and the encoding.
            let place = cfi.section().address.0 + 8 + 1 + augmentation.len() as u64 + 1 + 3 + 2;
            let expected = if encoding == 0x9b { place + 0x10 } else { 0x10 };
            assert_eq!(handler.personality, Some(Address(expected)), "{augmentation:?} {encoding:#x}");
        }
    }
}

#[test]
fn old_eh_augmentation() {
    let mut cfi = Cfi::new(Arch::Amd64, EhFrame);
    let cie = cfi.cie(b"eh", &[], &[0x0c, 7, 8, 0x90, 1]);
    cfi.fde_with(cie, 0x1000, 2, &[], &[0x41, 0x0e, 16]);
    assert!(report(&cfi, &[Made::new(0x1000, 2, &[(0, SP1, &[8]), (1, SP1, &[16])])]).is_complete());
}

/// gimli refuses these CIEs; libgcc reads version 4, and V8 writes the LSDA encoding 0xff.
#[test]
fn cies_that_only_runtimes_read() {
    let rows: [(u8, u8, &[u8]); 2] = [(0, SP1, &[8]), (1, SP1, &[16])];
    for (version, augmentation, data, fde_data) in [
        (4, &b""[..], &[][..], &[][..]),
        (4, b"zR", &[1, 0], &[0]),
        (4, b"zRS", &[1, 0], &[0]),
        (1, b"zLR", &[2, 0xff, 0], &[0]),
        (3, b"zRL", &[2, 0, 0xff], &[0]),
        (4, b"zLR", &[2, 0xff, 0], &[0]),
        (1, b"zPLR", &[11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0], &[0]),
    ] {
        let mut cfi = Cfi::new(Arch::Amd64, EhFrame);
        let cie = cfi.cie_of_version(version, augmentation, data);
        cfi.fde_with(cie, 0x1000, 2, fde_data, &[0x41, 0x0e, 16]);
        let mut function = Made::new(0x1000, 2, &rows);
        function.info |= if augmentation.contains(&b'S') { 0x80 } else { 0 };
        let found = report(&cfi, &[function.clone()]);
        assert!(found.is_complete(), "{version} {augmentation:?}: {found:#?}");
        function.rows[1].2 = vec![24];
        assert_eq!(report(&cfi, &[function]).pcs_different, 1);
    }
}

/// A personality pointer stays where it is when gimli sees its CIE in another form.
#[test]
fn personality_of_cies_that_only_runtimes_read() {
    for (version, augmentation, is_lsda_first) in
        [(4, &b"zPR"[..], false), (1, b"zPLR", false), (1, b"zLPR", true), (4, b"zLPR", true)]
    {
        let mut cfi = Cfi::new(Arch::Amd64, EhFrame);
        let mut data = vec![0x9b, 0x10, 0, 0, 0];
        if augmentation.contains(&b'L') {
            data.insert(if is_lsda_first { 0 } else { 5 }, 0xff);
        }
        data.push(0);
        data.insert(0, data.len() as u8);
        let cie = cfi.cie_of_version(version, augmentation, &data);
        cfi.fde(cie, 0x1000, 16, &[]);
        let functions = Functions::find(&[cfi.section()]);
        let handler = Evaluator::new(&functions).handler(&functions.as_slice()[0]).unwrap();
        // After length, id, version, the letters, the two sizes of version 4, three bytes, the data's length, an LSDA
        // encoding and the personality's encoding.
        let sizes = if version == 4 { 2 } else { 0 };
        let start = cfi.section().address.0;
        let place =
            start + 8 + 1 + augmentation.len() as u64 + 1 + sizes + 3 + 1 + u64::from(is_lsda_first) + 1;
        assert_eq!(handler.personality, Some(Address(place + 0x10)), "{version} {augmentation:?}");
    }
}
