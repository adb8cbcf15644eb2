//! Calls the C interface in any order with hostile arguments. Each call must return a status and report no defect, and
//! handles stay usable or can be freed.
//!
//! The input's first part is a program, two bytes per call. The second part is the data of calls. A pointer is null,
//! misaligned, or leads to as many bytes as the length says, as C requires. Some lengths are impossible.

#![no_main]

use std::ptr::{null, null_mut};

use cfipack_capi::*;
use libfuzzer_sys::fuzz_target;

/// The source of a program's arguments.
struct Choice<'a> {
    program: std::slice::Iter<'a, u8>,
    data: &'a [u8],
}

impl<'a> Choice<'a> {
    fn byte(&mut self) -> u8 {
        self.program.next().copied().unwrap_or(0)
    }

    /// Returns a pointer and a length: some of the data, mostly all of it.
    fn bytes(&mut self) -> (*const u8, usize) {
        let (start, len) = (self.data.as_ptr(), self.data.len());
        match self.byte() {
            0 => (null(), 0),
            1 => (null(), 7),
            2 => (start, usize::MAX),
            3 => (start, 0),
            choice @ 4..64 => (start, len * usize::from(choice) / 64),
            _ => (start, len),
        }
    }

    fn arch(&mut self) -> u32 {
        match self.byte() {
            choice @ 0..16 => u32::from(choice % 8),
            _ => CFIPACK_ARCH_AMD64,
        }
    }

    fn address(&mut self) -> u64 {
        [0, 0x1000, 0x2000, u64::MAX, 1 << 47, 0x1010, 0xffff_ffff, 0x3000][usize::from(self.byte() % 8)]
    }

    fn len(&mut self, most: usize) -> usize {
        match self.byte() {
            0 => 0,
            1 => usize::MAX,
            choice @ 2..64 => usize::from(choice).min(most),
            _ => most,
        }
    }
}

/// A pointer to a value, null, or misaligned.
macro_rules! out {
    ($choice:expr, $value:expr) => {
        match $choice.byte() {
            0 => null_mut(),
            1 => (&raw mut $value).cast::<u8>().wrapping_add(1).cast(),
            _ => &raw mut $value,
        }
    };
}

#[derive(Default)]
struct Handles {
    merger: Option<*mut cfipack_merger>,
    section: Option<*mut cfipack_section>,
    builder: Option<*mut cfipack_unwind_builder>,
    unwind: Option<*mut cfipack_unwind_section>,
    region: Option<*mut cfipack_region>,
    conversion: Option<*mut cfipack_conversion>,
    report: Option<*mut cfipack_report>,
}

fn kept<T>(slot: &mut Option<*mut T>, new: *mut T, free: unsafe extern "C" fn(*mut T)) {
    if let Some(old) = slot.take() {
        unsafe { free(old) };
    }
    *slot = (!new.is_null()).then_some(new);
}

fn handle<T>(slot: Option<*mut T>) -> *mut T {
    slot.unwrap_or(null_mut())
}

fuzz_target!(|input: &[u8]| {
    let Some((&program, rest)) = input.split_first() else { return };
    let (program, data) = rest.split_at(rest.len().min(usize::from(program)));
    let mut choice = Choice { program: program.iter(), data };
    let mut handles = Handles::default();
    while !choice.program.as_slice().is_empty() {
        let number = choice.byte();
        // SAFETY: pointers are null, misaligned, or lead to what their types say; handles are live or null.
        let status = unsafe {
            match number % 4 {
                0 => read(&mut choice),
                1 => link(&mut choice, &mut handles),
                2 => unwind(&mut choice, &mut handles),
                _ => generate(&mut choice, &mut handles),
            }
        };
        assert_ne!(status, cfipack_status::Internal);
    }
    kept(&mut handles.merger, null_mut(), cfipack_merger_free);
    kept(&mut handles.section, null_mut(), cfipack_section_free);
    kept(&mut handles.builder, null_mut(), cfipack_unwind_builder_free);
    kept(&mut handles.unwind, null_mut(), cfipack_unwind_section_free);
    kept(&mut handles.region, null_mut(), cfipack_region_free);
    kept(&mut handles.conversion, null_mut(), cfipack_conversion_free);
    kept(&mut handles.report, null_mut(), cfipack_report_free);
});

/// Parses the data as one of the inputs, and queries the result.
unsafe fn read(choice: &mut Choice<'_>) -> cfipack_status {
    let (bytes, len) = choice.bytes();
    let mut message = cfipack_message { text: [1; CFIPACK_MESSAGE_SIZE] };
    let mut text = [0; 512];
    let (mut count, mut number) = (0_usize, 0_usize);
    unsafe {
        if choice.byte().is_multiple_of(2) {
            let mut table = cfipack_sframe { opaque: [u64::from(choice.byte()); 16] };
            let parsed = cfipack_sframe_parse(
                out!(choice, table),
                bytes,
                len,
                choice.address(),
                out!(choice, message),
            );
            let pc = choice.address();
            let mut row = cfipack_row::default();
            let mut rows = [cfipack_row::default(); 16];
            let mut function = cfipack_sframe_function::default();
            let mut info = cfipack_sframe_info::default();
            cfipack_sframe_get_info(&table, out!(choice, info));
            let _ = cfipack_sframe_validate(&table, null_mut());
            let _ = cfipack_sframe_find(&table, pc, out!(choice, number));
            let _ = cfipack_sframe_get_function(&table, number, out!(choice, function));
            let _ = cfipack_sframe_get_rows(
                &table,
                number,
                rows.as_mut_ptr(),
                choice.len(16),
                out!(choice, count),
            );
            let _ = cfipack_sframe_dump(
                &table,
                c"x".as_ptr(),
                text.as_mut_ptr(),
                choice.len(512),
                out!(choice, count),
            );
            if cfipack_sframe_lookup(&table, function.start, out!(choice, row)) == cfipack_status::Ok {
                step(choice, &row);
            }
            let mut memory = [0_u32; 256];
            let mut index = cfipack_sframe_index { opaque: [0; 32] };
            let _ = cfipack_sframe_index_build(&mut index, &table, memory.as_mut_ptr(), choice.len(256));
            let _ = cfipack_sframe_index_lookup(&index, pc, &mut row);
            return parsed;
        }
        let mut table = cfipack_unwind_info { opaque: [u64::from(choice.byte()); 16] };
        let parsed = cfipack_unwind_info_parse(out!(choice, table), bytes, len, out!(choice, message));
        let mut entry = cfipack_unwind_info_entry::default();
        let mut entries = [entry; 8];
        let mut row = cfipack_row::default();
        let _ = cfipack_unwind_info_lookup(&table, choice.address() as u32, out!(choice, entry));
        let _ = cfipack_unwind_info_get_entries(
            &table,
            0,
            entries.as_mut_ptr(),
            choice.len(8),
            out!(choice, count),
        );
        let _ = cfipack_unwind_info_dump(&table, text.as_mut_ptr(), choice.len(512), out!(choice, count));
        let _ = cfipack_compact_unwind_row(choice.arch(), entry.encoding, bytes, len, &mut row);
        parsed
    }
}

/// Steps by a row with the data as the stack.
unsafe fn step(choice: &mut Choice<'_>, row: &cfipack_row) {
    let (bytes, len) = choice.bytes();
    let memory = cfipack_memory { bytes, len: len.min(choice.data.len()), address: choice.address() };
    let registers = cfipack_registers {
        sp: memory.address,
        fp: choice.address(),
        lr: choice.address(),
        has_fp: choice.byte() % 3,
        has_lr: choice.byte() % 3,
        reserved: [0; 6],
        others: null(),
        num_others: 0,
    };
    let mut caller = cfipack_caller::default();
    let _ = unsafe { cfipack_step(choice.arch(), row, &registers, &memory, 1, out!(choice, caller)) };
}

unsafe fn link(choice: &mut Choice<'_>, handles: &mut Handles) -> cfipack_status {
    let mut merger = null_mut();
    let mut section = null_mut();
    let mut len = 0;
    let addresses: Vec<u64> = (0..64).map(|number| 0x1000 + 0x40 * number).collect();
    let pool = cfipack_pool {
        size: 32,
        reserved: 0,
        threads: usize::from(choice.byte() % 4),
        run: None,
        pool: null_mut(),
    };
    unsafe {
        match choice.byte() % 6 {
            0 => {
                let options = cfipack_sframe_options {
                    size: [0, 4, 24, 4096, 4097][usize::from(choice.byte() % 5)].min(24),
                    version: u32::from(choice.byte() % 5),
                    layout: u32::from(choice.byte() % 3),
                    prefer: u32::from(choice.byte() % 4),
                    no_flex: choice.byte() % 3,
                    no_sharing: 0,
                    reserved: 0,
                };
                let status = cfipack_merger_new(&mut merger, choice.arch(), &options, null_mut());
                kept(&mut handles.merger, merger, cfipack_merger_free);
                status
            }
            1 | 2 => {
                let starts: Vec<cfipack_start> = (0..64)
                    .map(|number| cfipack_start {
                        offset: 4 * number + 28,
                        key: number,
                        extent: if number % 7 == 0 { number as u32 } else { CFIPACK_WHOLE_FUNCTION },
                        reserved: 0,
                    })
                    .collect();
                let (sframe, eh_frame) = (choice.bytes(), choice.bytes());
                let object = cfipack_object {
                    size: size_of::<cfipack_object>() as u32,
                    reserved: 0,
                    sframe: sframe.0,
                    sframe_len: sframe.1,
                    eh_frame: eh_frame.0,
                    eh_frame_len: eh_frame.1,
                    sframe_starts: starts.as_ptr(),
                    num_sframe_starts: choice.len(64),
                    eh_frame_starts: starts.as_ptr(),
                    num_eh_frame_starts: choice.len(64),
                };
                let status = cfipack_merger_push(handle(handles.merger), &object, null_mut());
                let mut note = std::mem::zeroed();
                let _ = cfipack_merger_get_note(handle(handles.merger), 0, &mut note);
                status
            }
            3 => {
                let merger = handles.merger.take();
                let status =
                    cfipack_merger_finish(handle(merger), u32::from(choice.byte() % 3), &pool, &mut section);
                kept(&mut handles.section, section, cfipack_section_free);
                status
            }
            4 => {
                cfipack_section_len(handle(handles.section), &mut len);
                let mut table = vec![0; len];
                let len = choice.len(len);
                let (section, count) = (handle(handles.section), choice.len(64));
                let address = choice.address();
                let _ = cfipack_section_write_relocatable(section, table.as_mut_ptr(), len);
                cfipack_section_write(
                    section,
                    table.as_mut_ptr(),
                    len,
                    address,
                    addresses.as_ptr(),
                    count,
                    &pool,
                )
            }
            _ => {
                let row = cfipack_row {
                    start: choice.byte().into(),
                    cfa: cfipack_rule {
                        kind: u32::from(choice.byte() % 8),
                        reg: choice.byte().into(),
                        offset: 8,
                    },
                    return_address: cfipack_rule { kind: u32::from(choice.byte() % 8), reg: 0, offset: -8 },
                    ..cfipack_row::default()
                };
                let code =
                    cfipack_stub_code { rows: &row, num_rows: 1, size: choice.byte().into(), reserved: 0 };
                let stubs = cfipack_stubs {
                    key: 63,
                    num_entries: choice.byte().into(),
                    header: code,
                    entry: code,
                    trailer: cfipack_stub_code { rows: null(), num_rows: 0, size: 0, reserved: 0 },
                };
                let (kind, size) = (u32::from(choice.byte() % 15), choice.byte().into());
                let _ = cfipack_merger_push_known_stubs(
                    handle(handles.merger),
                    62,
                    kind,
                    choice.byte().into(),
                    size,
                );
                cfipack_merger_push_stubs(handle(handles.merger), &stubs)
            }
        }
    }
}

unsafe fn unwind(choice: &mut Choice<'_>, handles: &mut Handles) -> cfipack_status {
    let (mut builder, mut section, mut len) = (null_mut(), null_mut(), 0);
    let places: Vec<cfipack_place> =
        (0..64).map(|number| cfipack_place { address: 16 * number, key: number }).collect();
    let offsets: Vec<u32> = (0..64).map(|number| 0x400 + 16 * number).collect();
    unsafe {
        match choice.byte() % 4 {
            0 => {
                let status = cfipack_unwind_builder_new(&mut builder, choice.arch(), null(), null_mut());
                kept(&mut handles.builder, builder, cfipack_unwind_builder_free);
                status
            }
            1 => {
                let (compact_unwind, eh_frame) = (choice.bytes(), choice.bytes());
                let object = cfipack_unwind_object {
                    size: size_of::<cfipack_unwind_object>() as u32,
                    object: choice.byte().into(),
                    compact_unwind: compact_unwind.0,
                    compact_unwind_len: compact_unwind.1,
                    eh_frame: eh_frame.0,
                    eh_frame_len: eh_frame.1,
                    eh_frame_address: choice.address(),
                    references: null(),
                    num_references: choice.len(0),
                    functions: places.as_ptr(),
                    num_functions: choice.len(64),
                    lsdas: places.as_ptr(),
                    num_lsdas: choice.len(64),
                };
                cfipack_unwind_builder_push(handle(handles.builder), &object)
            }
            2 => {
                let builder = handles.builder.take();
                let status = cfipack_unwind_builder_finish(handle(builder), &mut section);
                kept(&mut handles.unwind, section, cfipack_unwind_section_free);
                status
            }
            _ => {
                let unwind = handle(handles.unwind);
                let _ = cfipack_unwind_section_plan(unwind, offsets.as_ptr(), choice.len(64), 64, &mut len);
                cfipack_unwind_section_max_len(unwind, &mut len);
                let mut table = vec![0; len];
                let places = cfipack_unwind_places {
                    size: size_of::<cfipack_unwind_places>() as u32,
                    end: 0,
                    functions: offsets.as_ptr(),
                    num_functions: choice.len(64),
                    lsdas: offsets.as_ptr(),
                    num_lsdas: choice.len(64),
                    fdes: offsets.as_ptr(),
                    num_fdes: choice.len(64),
                    slots: offsets.as_ptr(),
                    num_slots: choice.len(64),
                };
                let mut written = 0;
                cfipack_unwind_section_write(unwind, &places, table.as_mut_ptr(), len, &mut written)
            }
        }
    }
}

/// Regions, conversions and verification.
unsafe fn generate(choice: &mut Choice<'_>, handles: &mut Handles) -> cfipack_status {
    let (mut region, mut conversion, mut report, mut len) = (null_mut(), null_mut(), null_mut(), 0);
    let mut buffer = [0_u8; 2048];
    let (bytes, bytes_len) = choice.bytes();
    unsafe {
        match choice.byte() % 6 {
            0 => {
                let status = cfipack_region_new(
                    &mut region,
                    choice.arch(),
                    choice.address(),
                    choice.address(),
                    null_mut(),
                );
                kept(&mut handles.region, region, cfipack_region_free);
                status
            }
            1 => {
                let directives: Vec<_> = (0..choice.byte() % 8)
                    .map(|number| cfipack_directive {
                        offset: u64::from(number) * 2,
                        kind: u32::from(choice.byte() % 24),
                        reg: choice.byte().into(),
                        value: i64::from(choice.byte() as i8) * 8,
                        bytes,
                        num_bytes: bytes_len,
                    })
                    .collect();
                let (offset, size) = (u64::from(choice.byte()), u64::from(choice.byte()));
                let region = handle(handles.region);
                cfipack_region_push(region, null(), offset, size, directives.as_ptr(), directives.len())
            }
            2 => cfipack_region_push_eh_frame(handle(handles.region), bytes, bytes_len, choice.address()),
            3 => {
                let (region, capacity, address) =
                    (handle(handles.region), choice.len(2048), choice.address());
                let out = buffer.as_mut_ptr();
                let _ = cfipack_region_eh_frame(
                    region,
                    u32::from(choice.byte() % 3),
                    address,
                    out,
                    capacity,
                    &mut len,
                    null_mut(),
                );
                let _ = cfipack_region_gdb_elf(region, out, capacity, &mut len);
                let mut out = cfipack_buffer { bytes: out, capacity, len: 0 };
                let _ = cfipack_region_jitdump(region, 0, bytes, bytes_len, null(), &mut out, null_mut());
                cfipack_region_sframe(region, null(), address, &mut out, null_mut(), null_mut())
            }
            4 => {
                let section = section(choice, bytes, bytes_len);
                let (architecture, num_sections) = (choice.arch(), choice.len(1));
                let cfi = cfipack_cfi_sections { sections: &section, num_sections, architecture };
                let status = cfipack_conversion_new(
                    &mut conversion,
                    &cfi,
                    null(),
                    choice.address(),
                    null(),
                    null_mut(),
                );
                kept(&mut handles.conversion, conversion, cfipack_conversion_free);
                cfipack_conversion_len(handle(handles.conversion), &mut len);
                let mut table = vec![0; len];
                let _ = cfipack_conversion_write(handle(handles.conversion), table.as_mut_ptr(), len);
                status
            }
            _ => {
                let section = section(choice, bytes, bytes_len);
                let (architecture, num_sections) = (choice.arch(), choice.len(1));
                let cfi = cfipack_cfi_sections { sections: &section, num_sections, architecture };
                let (table, table_len) = choice.bytes();
                let status = cfipack_verify_sframe(
                    &mut report,
                    &cfi,
                    table,
                    table_len,
                    choice.address(),
                    null(),
                    null_mut(),
                );
                kept(&mut handles.report, report, cfipack_report_free);
                let _ =
                    cfipack_report_text(handle(handles.report), buffer.as_mut_ptr().cast(), 2048, &mut len);
                status
            }
        }
    }
}

fn section(choice: &mut Choice<'_>, bytes: *const u8, len: usize) -> cfipack_cfi_section {
    let (address, kind) = (choice.address(), u32::from(choice.byte() % 3));
    cfipack_cfi_section { bytes, len, address, text: 0, data: 0, kind, reserved: 0 }
}
