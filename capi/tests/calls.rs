//! Calls of the interface whose results a C program would see, without a C compiler.
#![cfg(feature = "write")]

use core::ptr::{null, null_mut};
use std::mem::{MaybeUninit, zeroed};

use cfipack_capi::*;

/// A CIE, and functions of 16 bytes at 0x2000 and 0x2010 for a section at 0x1000. The second pushes after 4 bytes.
const EH_FRAME: [u8; 68] = {
    let mut bytes = [0; 68];
    let records = [
        [20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0],
        [16, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0x0f, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [20, 0, 0, 0, 48, 0, 0, 0, 0xdc, 0x0f, 0, 0, 16, 0, 0, 0, 0, 0x44, 0x0e, 16, 0, 0, 0, 0],
    ];
    let (mut record, mut at) = (0, 0);
    while record < records.len() {
        let (len, mut byte) = (4 + records[record][0] as usize, 0);
        while byte < len {
            bytes[at] = records[record][byte];
            (at, byte) = (at + 1, byte + 1);
        }
        record += 1;
    }
    bytes
};

/// The places of the start fields in [`EH_FRAME`].
const STARTS: [u64; 2] = [32, 52];

fn ok(status: cfipack_status) {
    assert_eq!(status, cfipack_status::Ok);
}

fn text(message: &cfipack_message) -> String {
    message.text.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte as u8)).collect()
}

/// A region and a registry have all functions of an `.eh_frame`. If a function cannot be added, they have no function of it.
#[test]
fn a_region_takes_an_eh_frame() {
    // SAFETY: all pointers are valid for the calls.
    unsafe {
        let (mut region, mut registry, mut reader) = (null_mut(), null_mut(), null_mut());
        ok(cfipack_region_new(&mut region, CFIPACK_ARCH_AMD64, 0x2000, 0x100, null_mut()));
        let count = || {
            let mut count = 9;
            ok(cfipack_region_num_functions(region, &mut count));
            count
        };
        // The second function would lie outside of the region.
        let status = cfipack_region_push_eh_frame(region, EH_FRAME.as_ptr(), EH_FRAME.len(), 0x10f0);
        assert_eq!((status, count()), (cfipack_status::Refused, 0));
        ok(cfipack_region_push_eh_frame(region, EH_FRAME.as_ptr(), EH_FRAME.len(), 0x1000));
        assert_eq!(count(), 2);
        ok(cfipack_registry_new(&mut registry, CFIPACK_ARCH_AMD64, null_mut()));
        ok(cfipack_registry_reader_new(&mut reader, registry));
        ok(cfipack_registry_add(registry, region, null(), null_mut()));
        let cfa = |pc| {
            let mut row = MaybeUninit::<cfipack_row>::uninit();
            match cfipack_registry_lookup(reader, pc, row.as_mut_ptr()) {
                cfipack_status::Ok => Some(row.assume_init().cfa.offset),
                _ => None,
            }
        };
        assert_eq!([0x2000, 0x2013, 0x2014, 0x2020].map(cfa), [Some(8), Some(8), Some(16), None]);
        // The section for unwinders has an FDE for each function. A buffer that is too small stays as it is.
        let (mut fdes, mut len) = ([zeroed::<cfipack_region_fde>(); 2], 0);
        let mut bytes = [0xaa; 256];
        let mut write = |capacity| {
            let status = cfipack_region_eh_frame(
                region,
                CFIPACK_POINTERS_ABSOLUTE,
                0x4000,
                bytes.as_mut_ptr(),
                capacity,
                &mut len,
                fdes.as_mut_ptr(),
            );
            (status, len, bytes)
        };
        let (status, len, written) = write(9);
        assert_eq!((status, written), (cfipack_status::BufferSize, [0xaa; 256]));
        let (status, again, written) = write(len);
        assert_eq!((status, again), (cfipack_status::Ok, len));
        assert!(written[..len].ends_with(&[0; 4]) && written[len..].iter().all(|byte| *byte == 0xaa));
        assert_eq!(fdes.map(|fde| (fde.start, fde.size)), [(0x2000, 16), (0x2010, 16)]);
        for fde in fdes {
            let start = &written[fde.offset as usize + 8..][..8];
            assert_eq!(u64::from_le_bytes(start.try_into().unwrap()), fde.start);
        }
        cfipack_registry_free(registry);
        cfipack_registry_reader_free(reader);
        cfipack_region_free(region);
    }
}

/// A shard's notes have the numbers that its objects would have without shards.
#[test]
fn notes_of_shards_name_their_objects() {
    let starts = STARTS.map(|offset| cfipack_start {
        offset,
        key: offset,
        extent: CFIPACK_WHOLE_FUNCTION,
        reserved: 0,
    });
    let object = |len| {
        let size = size_of::<cfipack_object>() as u32;
        // SAFETY: null pointers and lengths of 0 are valid.
        let empty = unsafe { zeroed::<cfipack_object>() };
        let eh_frame = EH_FRAME.as_ptr();
        let eh_frame_starts = starts.as_ptr();
        cfipack_object { size, eh_frame, eh_frame_len: len, eh_frame_starts, num_eh_frame_starts: 2, ..empty }
    };
    // The last record of the second object is cut.
    let objects = [object(EH_FRAME.len()), object(EH_FRAME.len() - 8)];
    let notes = |merger: *mut cfipack_merger| {
        let (mut count, mut found) = (0, Vec::new());
        // SAFETY: all pointers are valid for the calls.
        unsafe {
            ok(cfipack_merger_num_notes(merger, &mut count));
            let mut note = MaybeUninit::<cfipack_note>::uninit();
            while cfipack_merger_get_note(merger, found.len(), note.as_mut_ptr()) == cfipack_status::Ok {
                let note = note.assume_init();
                found.push((note.object, note.kind, note.key, text(&note.message)));
            }
        }
        assert_eq!(found.len(), count);
        found
    };
    // SAFETY: all pointers are valid for the calls.
    unsafe {
        let (mut whole, mut sharded) = (null_mut(), null_mut());
        ok(cfipack_merger_new(&mut whole, CFIPACK_ARCH_AMD64, null(), null_mut()));
        ok(cfipack_merger_new(&mut sharded, CFIPACK_ARCH_AMD64, null(), null_mut()));
        let order = [1, 0, 1, 1];
        for number in order {
            ok(cfipack_merger_push(whole, &objects[number], null_mut()));
        }
        for part in order.chunks(2) {
            let mut shard = null_mut();
            ok(cfipack_merger_shard(sharded, &mut shard));
            for number in part {
                ok(cfipack_merger_push(shard, &objects[*number], null_mut()));
            }
            ok(cfipack_merger_absorb(sharded, shard));
        }
        let found = notes(sharded);
        assert_eq!(found, notes(whole));
        assert_eq!(
            found.iter().map(|note| (note.0, note.1)).collect::<Vec<_>>(),
            [0, 2, 3].map(|n| (n, CFIPACK_NOTE_UNREAD))
        );
        cfipack_merger_free(whole);
        cfipack_merger_free(sharded);
    }
}

/// A module may be empty, and a walk by frame pointers goes on in any module.
#[test]
fn modules_without_tables_are_code() {
    // SAFETY: null pointers and lengths of 0 are valid.
    let mut modules = unsafe { [zeroed::<cfipack_module>(); 2] };
    (modules[0].start, modules[0].end) = (0x1000, 0x1000);
    (modules[1].start, modules[1].end) = (0x1000, 0x2000);
    // The record of the frame at 0x1010 has the return address 0x1020, and the next record ends the walk.
    let stack = [0x8010_u64, 0x1020, 0, 0];
    let walked = |piece: &[u64], address| {
        let mut space = MaybeUninit::<cfipack_modules>::uninit();
        // SAFETY: all pointers are valid for the calls.
        unsafe {
            ok(cfipack_modules_init(space.as_mut_ptr(), CFIPACK_ARCH_AMD64, modules.as_ptr(), 2));
            let registers = cfipack_registers { sp: 0x8000, fp: 0x8000, has_fp: 1, ..zeroed() };
            // A piece without bytes has no word, whatever its length.
            let bytes = piece.as_ptr().cast();
            let pieces = [
                cfipack_memory { address: 0x8000, bytes: null(), len: 32 },
                cfipack_memory { address, bytes, len: size_of_val(piece) },
            ];
            let thread = cfipack_thread {
                size: size_of::<cfipack_thread>() as u32,
                pc: 0x1010,
                registers: &registers,
                memory: pieces.as_ptr(),
                num_memory: 2,
                ..zeroed()
            };
            let (mut frames, mut count, mut end) = ([zeroed::<cfipack_frame>(); 4], 0, 99);
            let (out, capacity) = (frames.as_mut_ptr(), frames.len());
            ok(cfipack_walk(space.as_ptr(), &thread, out, capacity, &mut count, &mut end));
            (frames[..count].iter().map(|frame| frame.pc).collect::<Vec<_>>(), end)
        }
    };
    assert_eq!(walked(&stack, 0x8000), (vec![0x1010, 0x1020], CFIPACK_END_GUESSED_NULL));
    // The piece ends before the second record, or before the return address.
    assert_eq!(walked(&stack[..2], 0x8000), (vec![0x1010, 0x1020], CFIPACK_END_NO_ROW));
    assert_eq!(walked(&stack[..1], 0x8000), (vec![0x1010], CFIPACK_END_NO_ROW));
    assert_eq!(walked(&stack[1..], 0x8008), (vec![0x1010], CFIPACK_END_NO_ROW));
}

/// The length is 0 after a call that is refused.
#[test]
fn no_length_is_left_from_before() {
    let mut len = 77;
    // SAFETY: all pointers are valid for the call.
    let status = unsafe { cfipack_eh_frame_len(EH_FRAME.as_ptr(), EH_FRAME.len(), 0, &mut len, null_mut()) };
    assert_eq!((status, len), (cfipack_status::InvalidArgument, 0));
}

/// A registry that is being freed, and the number of its undos so far.
struct Undone(*mut cfipack_registry, u32);

/// Adds a region whose removal is counted.
unsafe fn add_counted(undone: *mut Undone, base: u64) {
    let mut region = null_mut();
    let undo = cfipack_undo { undo: Some(undo_one), context: undone.cast() };
    // SAFETY: all pointers are valid for the calls.
    unsafe {
        ok(cfipack_region_new(&mut region, CFIPACK_ARCH_AMD64, base, 64, null_mut()));
        ok(cfipack_registry_add((*undone).0, region, &undo, null_mut()));
        cfipack_region_free(region);
    }
}

/// The second undo adds a region.
unsafe extern "C" fn undo_one(undone: *mut core::ffi::c_void) {
    let undone = undone.cast::<Undone>();
    // SAFETY: the test gives a counter that is in use by this call alone.
    unsafe {
        (*undone).1 += 1;
        if (*undone).1 == 2 {
            add_counted(undone, 0x3000);
        }
    }
}

#[test]
fn a_region_that_an_undo_adds_is_removed_too() {
    let mut undone = Undone(null_mut(), 0);
    // SAFETY: all pointers are valid for the calls.
    unsafe {
        ok(cfipack_registry_new(&mut undone.0, CFIPACK_ARCH_AMD64, null_mut()));
        let undone = &raw mut undone;
        add_counted(undone, 0x1000);
        add_counted(undone, 0x2000);
        cfipack_registry_free((*undone).0);
        assert_eq!((*undone).1, 3);
    }
}

/// Without room for tables, a walk goes on by frame pointers in the code of the process's files.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn code_of_the_process_is_known_beside_generated_code() {
    // A direct call (e8 and four bytes) in this function, and where it returns to.
    let start = code_of_the_process_is_known_beside_generated_code as *const u8;
    // SAFETY: null pointers and lengths of 0 are valid, all others are valid for the calls, and this program's code has
    // more bytes than are read.
    unsafe {
        let call = (1..1000).find(|at| start.add(*at).read() == 0xe8).unwrap();
        let pc = start.expose_provenance() as u64;
        let stack = [0, pc + call as u64 + 5, 0, 0];
        let options = cfipack_process_options {
            size: size_of::<cfipack_process_options>() as u32,
            memory: 1,
            ..zeroed()
        };
        let (mut modules, mut registry, mut reader) = (null_mut(), null_mut(), null_mut());
        ok(cfipack_modules_of_process(&mut modules, &options, null_mut()));
        ok(cfipack_registry_new(&mut registry, CFIPACK_ARCH_AMD64, null_mut()));
        ok(cfipack_registry_reader_new(&mut reader, registry));
        let registers = cfipack_registers { sp: 0x8000, fp: 0x8000, has_fp: 1, ..zeroed() };
        let memory = cfipack_memory { address: 0x8000, bytes: stack.as_ptr().cast(), len: 32 };
        let thread = cfipack_thread {
            size: size_of::<cfipack_thread>() as u32,
            pc,
            registers: &registers,
            memory: &memory,
            num_memory: 1,
            ..zeroed()
        };
        for generated in [null_mut(), reader] {
            let (mut frames, mut count, mut end) = ([cfipack_frame::default(); 4], 0, 99);
            let out = frames.as_mut_ptr();
            ok(cfipack_process_modules_walk(modules, generated, &thread, out, 4, &mut count, &mut end));
            let found: Vec<_> = frames[..count].iter().map(|frame| frame.pc).collect();
            assert_eq!((found, end), (vec![pc, stack[1]], CFIPACK_END_GUESSED_NULL));
        }
        cfipack_registry_free(registry);
        cfipack_registry_reader_free(reader);
        cfipack_process_modules_free(modules);
    }
}
