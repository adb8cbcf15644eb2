//! Measures how much the C interface costs more than the Rust interface that it wraps. Both run by turns in one
//! process, and the fastest run of each counts. Calls go through function pointers, as calls into a library do.
//!
//!     cargo bench -p cfipack-tests --bench capi

#![allow(unsafe_code, reason = "calls of the C interface")]

use std::hint::black_box;
use std::ptr::{null, null_mut};

use cfipack_capi::*;
use cfipack_cfi as cfi;
use cfipack_cfi::Functions;
use cfipack_decoder::sframe::{Index, Section, step};
use cfipack_encoder::sframe::Options;
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Field, Merger, Object, Options as LinkOptions};
use cfipack_roundtrip::{Table, verify};
use cfipack_tests::figures;
use cfipack_tests::timing::time;
use cfipack_tests::workload::{Library, libraries};

const ROUNDS: usize = 15;
const PCS: usize = 200_000;

fn main() {
    let libraries = libraries();
    if libraries.is_empty() {
        println!("benches: not measured: the toolchain has neither librustc_driver nor libLLVM");
    }
    for library in Box::leak(libraries.into_boxed_slice()) {
        println!("\n{}", library.name);
        let bytes = convert(library);
        lookups(library, &bytes);
        link(library);
        verification(library, &bytes);
    }
}

/// Runs both by turns. Prints the first time as a ratio of the second, and per call.
fn compare<A, B>(
    library: &Library,
    what: &str,
    calls: usize,
    mut c: impl FnMut() -> A,
    mut rust: impl FnMut() -> B,
) {
    let mut times: [Vec<_>; 2] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(time(&mut c));
        times[1].push(time(&mut rust));
    }
    let [c, rust] = times.map(|times| times.into_iter().min().unwrap_or_default());
    let more = (c.as_nanos() as f64 - rust.as_nanos() as f64) / calls as f64;
    let ratio = c.as_secs_f64() / rust.as_secs_f64();
    println!("{what:<32} {ratio:5.2} of Rust's {rust:>10.2?}, {more:+7.2} ns a call");
    figures::times(library.name, what, c, "in Rust", rust, calls);
}

fn section(cfi: &cfi::Section<'_>) -> cfipack_cfi_section {
    cfipack_cfi_section {
        bytes: cfi.bytes.as_ptr(),
        len: cfi.bytes.len(),
        address: cfi.address.0,
        text: cfi.text.0,
        data: cfi.data.0,
        kind: CFIPACK_EH_FRAME,
        reserved: 0,
    }
}

fn given(section: &cfipack_cfi_section) -> cfipack_cfi_sections {
    cfipack_cfi_sections { sections: section, num_sections: 1, architecture: CFIPACK_ARCH_AMD64 }
}

/// Makes the table through both interfaces, which must give the same bytes.
fn convert(library: &'static Library) -> Vec<u8> {
    let cfi = library.cfi();
    let (new, len, write) = black_box((
        cfipack_conversion_new
            as unsafe extern "C" fn(
                *mut *mut cfipack_conversion,
                *const cfipack_cfi_sections,
                *const cfipack_sframe_options,
                u64,
                *const cfipack_pool,
                *mut cfipack_message,
            ) -> _,
        cfipack_conversion_len as unsafe extern "C" fn(*const cfipack_conversion, *mut usize) -> _,
        cfipack_conversion_write as unsafe extern "C" fn(*mut cfipack_conversion, *mut u8, usize) -> _,
    ));
    let through_c = || {
        let (mut conversion, mut size, address) = (null_mut(), 0, library.table_address().0);
        // SAFETY: pointers lead to what their types say.
        unsafe {
            let status = new(&mut conversion, &given(&section(&cfi)), null(), address, null(), null_mut());
            assert_eq!(status, cfipack_status::Ok);
            assert_eq!(len(conversion, &mut size), cfipack_status::Ok);
            let mut table = vec![0; size];
            assert_eq!(write(conversion, table.as_mut_ptr(), size), cfipack_status::Ok);
            cfipack_conversion_free(conversion);
            table
        }
    };
    let table = through_c();
    assert!(table == library.convert(Options::default(), 1));
    compare(library, "conversion", 1, through_c, || library.convert(Options::default(), 1));
    table
}

fn lookups(library: &'static Library, bytes: &[u8]) {
    let address = library.table_address();
    let table = Section::parse(bytes, address).expect("our own table");
    let mut c_table = cfipack_sframe { opaque: [0; 16] };
    // SAFETY: pointers lead to what their types say.
    let status =
        unsafe { cfipack_sframe_parse(&mut c_table, bytes.as_ptr(), bytes.len(), address.0, null_mut()) };
    assert_eq!(status, cfipack_status::Ok);
    let pcs = library.pcs(PCS);
    let lookup = black_box(
        cfipack_sframe_lookup as unsafe extern "C" fn(*const cfipack_sframe, u64, *mut cfipack_row) -> _,
    );
    let mut row = cfipack_row::default();
    // SAFETY: as above.
    let mut through_c =
        || pcs.iter().filter(|pc| unsafe { lookup(&c_table, pc.0, &mut row) } == cfipack_status::Ok).count();
    let in_rust =
        || pcs.iter().filter(|&&pc| black_box(table.lookup_frame(pc)).is_ok_and(|row| row.is_some())).count();
    assert_eq!(through_c(), in_rust());
    compare(library, "lookup in place", PCS, through_c, in_rust);

    let mut memory = vec![0; Index::len_for(&table)];
    let mut c_memory = memory.clone();
    let mut c_index = cfipack_sframe_index { opaque: [0; 32] };
    // SAFETY: as above.
    let status =
        unsafe { cfipack_sframe_index_build(&mut c_index, &c_table, c_memory.as_mut_ptr(), c_memory.len()) };
    assert_eq!(status, cfipack_status::Ok);
    let index = Index::build(&table, &mut memory).expect("a sorted table");
    let lookup = black_box(
        cfipack_sframe_index_lookup
            as unsafe extern "C" fn(*const cfipack_sframe_index, u64, *mut cfipack_row) -> _,
    );
    // SAFETY: as above.
    let through_c =
        || pcs.iter().filter(|pc| unsafe { lookup(&c_index, pc.0, &mut row) } == cfipack_status::Ok).count();
    let in_rust =
        || pcs.iter().filter(|&&pc| black_box(index.lookup_frame(pc)).is_ok_and(|row| row.is_some())).count();
    compare(library, "lookup with index", PCS, through_c, in_rust);
    steps(library, &table, &pcs);
}

/// Steps from the rows of the PCs, on a stack of zeros.
fn steps(library: &Library, table: &Section<'_>, pcs: &[Address]) {
    let rows: Vec<_> = pcs.iter().filter_map(|&pc| table.lookup_frame(pc).ok().flatten()).collect();
    let c_rows: Vec<_> = pcs
        .iter()
        .filter_map(|&pc| {
            let mut row = cfipack_row::default();
            let frame = table.lookup_frame(pc).ok().flatten()?;
            row.start = frame.row.start.0;
            (row.cfa, row.return_address) = (frame.row.cfa.into(), frame.row.return_address.into());
            row.frame_pointer = frame.row.frame_pointer.into();
            Some(row)
        })
        .collect();
    let stack = vec![0_u8; 1 << 16];
    const SP: u64 = 0x7000_0000;
    let memory = cfipack_memory { bytes: stack.as_ptr(), len: stack.len(), address: SP };
    let registers = cfipack_registers {
        sp: SP,
        fp: SP + 0x4000,
        lr: 0,
        has_fp: 1,
        has_lr: 0,
        reserved: [0; 6],
        others: null(),
        num_others: 0,
    };
    let through = black_box(
        cfipack_step
            as unsafe extern "C" fn(
                u32,
                *const cfipack_row,
                *const cfipack_registers,
                *const cfipack_memory,
                usize,
                *mut cfipack_caller,
            ) -> _,
    );
    let mut caller = cfipack_caller::default();
    let mut through_c = || {
        let stepped = |row: &&cfipack_row| {
            // SAFETY: pointers lead to what their types say.
            let status = unsafe { through(CFIPACK_ARCH_AMD64, *row, &registers, &memory, 1, &mut caller) };
            status == cfipack_status::Ok
        };
        c_rows.iter().filter(stepped).count()
    };
    let in_rust = || {
        let registers =
            cfipack_decoder::sframe::Registers { sp: SP, fp: Some(SP + 0x4000), lr: None, others: &[] };
        let read = |address: Address| {
            let offset = usize::try_from(address.0.checked_sub(SP)?).ok()?;
            Some(u64::from_le_bytes(*stack.get(offset..)?.first_chunk()?))
        };
        rows.iter().filter(|frame| black_box(step(Arch::Amd64, &frame.row, &registers, read)).is_ok()).count()
    };
    assert_eq!(through_c(), in_rust());
    compare(library, "step", rows.len(), through_c, in_rust);
}

/// Links the library's functions as if one object had them, with keys.
fn link(library: &'static Library) {
    let cfi = library.cfi();
    let functions: Vec<_> = Functions::new(&cfi).flatten().collect();
    let starts: Vec<_> = functions
        .iter()
        .zip(0..)
        .map(|(function, key)| cfipack_start {
            offset: function.start_field.0 as u64,
            key,
            extent: CFIPACK_WHOLE_FUNCTION,
            reserved: 0,
        })
        .collect();
    let addresses: Vec<_> = functions.iter().map(|function| function.key.0).collect();
    let address = library.table_address();
    let mut object: cfipack_object =
        // SAFETY: integers and pointers.
        unsafe { std::mem::zeroed() };
    object.size = size_of::<cfipack_object>() as u32;
    (object.eh_frame, object.eh_frame_len) = (cfi.bytes.as_ptr(), cfi.bytes.len());
    (object.eh_frame_starts, object.num_eh_frame_starts) = (starts.as_ptr(), starts.len());
    let (push, write) = black_box((
        cfipack_merger_push
            as unsafe extern "C" fn(
                *mut cfipack_merger,
                *const cfipack_object,
                *mut cfipack_contribution,
            ) -> _,
        cfipack_section_write
            as unsafe extern "C" fn(
                *mut cfipack_section,
                *mut u8,
                usize,
                u64,
                *const u64,
                usize,
                *const cfipack_pool,
            ) -> _,
    ));
    let through_c = || {
        let (mut merger, mut section, mut len) = (null_mut(), null_mut(), 0);
        // SAFETY: pointers lead to what their types say.
        unsafe {
            assert_eq!(
                cfipack_merger_new(&mut merger, CFIPACK_ARCH_AMD64, null(), null_mut()),
                cfipack_status::Ok
            );
            assert_eq!(push(merger, &object, null_mut()), cfipack_status::Ok);
            assert_eq!(cfipack_merger_finish(merger, 0, null(), &mut section), cfipack_status::Ok);
            cfipack_section_len(section, &mut len);
            let mut table = vec![0; len];
            let status = write(
                section,
                table.as_mut_ptr(),
                len,
                address.0,
                addresses.as_ptr(),
                addresses.len(),
                null(),
            );
            assert_eq!(status, cfipack_status::Ok);
            cfipack_section_free(section);
            table
        }
    };
    let in_rust = || {
        let mut merger = Merger::new(Arch::Amd64, LinkOptions::new()).unwrap();
        let mut next = 0;
        let live = |field| {
            let Field::EhFrame(at) = field else { return None };
            while starts.get(next).is_some_and(|start| start.offset < at.0 as u64) {
                next += 1;
            }
            let start = starts.get(next).filter(|start| start.offset == at.0 as u64)?;
            Some(Key(start.key).into())
        };
        merger.push_object(&Object::new().with_eh_frame(cfi.bytes), live, |_| {});
        let section = merger.finish();
        let mut table = vec![0; section.len()];
        section.write(&mut table, address, |key| Address(addresses[key.0 as usize])).unwrap();
        table
    };
    assert!(through_c() == in_rust());
    compare(library, "merging one object with keys", 1, through_c, in_rust);
}

fn verification(library: &'static Library, bytes: &[u8]) {
    let (cfi, address) = (library.cfi(), library.table_address());
    let through = black_box(
        cfipack_verify_sframe
            as unsafe extern "C" fn(
                *mut *mut cfipack_report,
                *const cfipack_cfi_sections,
                *const u8,
                usize,
                u64,
                *const cfipack_pool,
                *mut cfipack_message,
            ) -> _,
    );
    let through_c = || {
        let mut report = null_mut();
        let mut counts = cfipack_report_counts::default();
        // SAFETY: pointers lead to what their types say.
        unsafe {
            let (table, len) = (bytes.as_ptr(), bytes.len());
            let sections = section(&cfi);
            let status = through(&mut report, &given(&sections), table, len, address.0, null(), null_mut());
            assert_eq!(status, cfipack_status::Ok);
            cfipack_report_get_counts(report, &mut counts);
            cfipack_report_free(report);
        }
        counts.pcs_equal
    };
    let in_rust = || {
        let tables = [Section::parse(bytes, address).expect("our own table")];
        verify(&[cfi], &Table::new(&tables), &Default::default()).pcs_equal
    };
    assert_eq!(through_c(), in_rust());
    compare(library, "verification", 1, through_c, in_rust);
}
