//! Call frame information in the memory of a process: its length is not known, and it may be damaged.
#![cfg(feature = "write")]

use core::ptr::{null, null_mut};

use cfipack_capi::*;

/// Returns a CIE, functions of 16 bytes at 0x2000, 0x2010 and 0x2020 for a section at 0x1000, a zero, and an
/// LSDA as compilers write it.
fn rest_of_segment() -> Vec<u8> {
    let mut bytes =
        vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];
    for number in 0..3_u32 {
        let at = bytes.len() as u32;
        bytes.extend([16_u32.to_le_bytes(), (at + 4).to_le_bytes()].concat());
        let distance = 0x2000 + 16 * number - (0x1000 + at + 8);
        bytes.extend([distance.to_le_bytes(), 16_u32.to_le_bytes(), [0; 4]].concat());
    }
    bytes.extend([0; 4]);
    bytes.extend([0xff, 0xff, 0x01, 0x0c, 0x04, 0x00, 0x00, 0x00, 0x2b, 0x05, 0x00, 0x00, 0x90, 0x00, 0x00]);
    bytes
}

/// The number of bytes up to the end of the zero.
const LEN: usize = 24 + 3 * 20 + 4;

fn text(message: &cfipack_message) -> String {
    message.text.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte as u8)).collect()
}

fn eh_frame_len(bytes: &[u8]) -> (cfipack_status, usize, String) {
    let (mut len, mut message) = (usize::MAX, cfipack_message { text: [1; CFIPACK_MESSAGE_SIZE] });
    // SAFETY: all pointers are valid for the call.
    let status = unsafe {
        cfipack_eh_frame_len(bytes.as_ptr(), bytes.len(), CFIPACK_ARCH_AMD64, &mut len, &mut message)
    };
    (status, len, text(&message))
}

/// Returns the status, the message, the starts of functions in the table, and the reasons for omitted functions.
fn convert(bytes: &[u8], threads: usize) -> (cfipack_status, String, Vec<u64>, Vec<String>) {
    let section = cfipack_cfi_section {
        bytes: bytes.as_ptr(),
        len: bytes.len(),
        address: 0x1000,
        text: 0,
        data: 0,
        kind: CFIPACK_EH_FRAME,
        reserved: 0,
    };
    let cfi = cfipack_cfi_sections { sections: &section, num_sections: 1, architecture: CFIPACK_ARCH_AMD64 };
    let size = size_of::<cfipack_pool>() as u32;
    let pool = cfipack_pool { size, reserved: 0, threads, run: None, pool: null_mut() };
    let (mut conversion, mut message) = (null_mut(), cfipack_message { text: [1; CFIPACK_MESSAGE_SIZE] });
    // SAFETY: all pointers are valid for the call.
    unsafe {
        let status = cfipack_conversion_new(&mut conversion, &cfi, null(), 0x3000, &pool, &mut message);
        let mut len = 0;
        assert_eq!(cfipack_conversion_len(conversion, &mut len), cfipack_status::Ok);
        let mut table = vec![0; len];
        assert_eq!(cfipack_conversion_write(conversion, table.as_mut_ptr(), len), cfipack_status::Ok);
        let mut omitted = Vec::new();
        let mut reason = cfipack_message { text: [0; CFIPACK_MESSAGE_SIZE] };
        while cfipack_conversion_get_omitted(conversion, omitted.len(), null_mut(), &mut reason)
            == cfipack_status::Ok
        {
            omitted.push(text(&reason));
        }
        cfipack_conversion_free(conversion);
        let mut reader = std::mem::MaybeUninit::<cfipack_sframe>::uninit();
        let parsed = cfipack_sframe_parse(reader.as_mut_ptr(), table.as_ptr(), len, 0x3000, null_mut());
        assert_eq!(parsed, cfipack_status::Ok);
        let mut row = std::mem::MaybeUninit::<cfipack_row>::uninit();
        let has_row =
            |pc: &u64| cfipack_sframe_lookup(reader.as_ptr(), *pc, row.as_mut_ptr()) == cfipack_status::Ok;
        let starts = [0x2000, 0x2010, 0x2020].into_iter().filter(has_row).collect();
        (status, text(&message), starts, omitted)
    }
}

#[test]
fn a_section_ends_at_its_zero() {
    let bytes = rest_of_segment();
    assert_eq!(eh_frame_len(&bytes), (cfipack_status::Ok, LEN, String::new()));
    let all = vec![0x2000, 0x2010, 0x2020];
    assert_eq!(convert(&bytes[..LEN], 1), (cfipack_status::Ok, String::new(), all.clone(), vec![]));
    // The bytes after the zero are an error, but all functions are in the table.
    for threads in [1, 3] {
        let (status, message, starts, omitted) = convert(&bytes, threads);
        assert_eq!((status, starts), (cfipack_status::Malformed, all.clone()));
        assert_eq!(message, "offset 0x58: record length 0xc01ffff reaches beyond the section");
        assert_eq!(omitted, [message]);
    }
}

#[test]
fn damage_costs_what_follows_it() {
    for number in 0..3 {
        let (mut bytes, at) = (rest_of_segment(), 24 + 20 * number);
        bytes[at + 3] = 0x7f;
        let message = format!("offset {at:#x}: record length 0x7f000010 reaches beyond the section");
        assert_eq!(eh_frame_len(&bytes), (cfipack_status::Malformed, at, message.clone()));
        let before: Vec<u64> = (0..number as u64).map(|number| 0x2000 + 16 * number).collect();
        let found = convert(&bytes, 1);
        assert_eq!(found, (cfipack_status::Malformed, message.clone(), before.clone(), vec![message]));
        assert_eq!(convert(&bytes[..at], 1), (cfipack_status::Ok, String::new(), before, vec![]));
    }
}
