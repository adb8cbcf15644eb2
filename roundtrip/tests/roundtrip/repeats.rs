//! The judge skips a function that equals a judged function byte for byte. It must still find a difference in a single
//! function, and the number of threads must not change a report.
//!
//! The reports are compared with a simple judge that looks at every PC by itself. gimli finds the row of the CFI, and
//! the decoder's search finds the function of the table.

use cfipack_decoder::sframe::{Function, Section};
use cfipack_encoder::sframe::{Builder, Options as TableOptions, Parallel};
use cfipack_format::pool::Serial as NoPool;
use cfipack_format::pool::{Pool, Task, Threads};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Key, Register, Row, Rule};
use cfipack_roundtrip::{Options, Report, Table, verify_on, verify_with_reasons_on};
use cfipack_testkit::random::Random;
use gimli::{BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, RegisterRule, UnwindContext};
use gimli::{UnwindSection, UnwindTableRow};

use crate::made::{CFI_ADDRESS, Cfi, TABLE_ADDRESS};

/// The sizes and instructions of functions: functions that differ only in their size, a function with one row,
/// functions with a frame pointer, and a function with rows whose starts take two bytes.
const KINDS: [(u64, &[u8]); 7] = [
    (12, &[0x41, 0x0e, 16, 0x44, 0x0e, 8]),
    (16, &[0x41, 0x0e, 16, 0x44, 0x0e, 8]),
    (5, &[]),
    (20, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x4b, 0x0c, 7, 8]),
    (24, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x4b, 0x0c, 7, 8]),
    (9, &[0x42, 0x0e, 0x80, 0x02, 0x41, 0x0a, 0x0e, 16, 0x41, 0x0b]),
    (300, &[0x41, 0x0e, 24, 0x03, 0x10, 0x01, 0x0e, 8]),
];

/// Makes `count` functions, of each kind in turn.
fn cfi(count: u64) -> Cfi {
    let (mut cfi, cie) = Cfi::amd64();
    let mut start = 0x1000;
    for (size, instructions) in KINDS.iter().cycle().take(count as usize) {
        cfi.fde(cie, start, *size, instructions);
        // Some functions have a gap after them.
        start += size + start % 3;
    }
    cfi
}

fn table(cfi: &Cfi, share: bool) -> Vec<u8> {
    let mut builder = Builder::new(Arch::Amd64, TableOptions::default().with_share(share)).unwrap();
    builder.push_all(Parallel::new(&cfi.section(), &NoPool), |_| ());
    let built = builder.finish();
    let mut table = vec![0; built.len()];
    built.write(&mut table, TABLE_ADDRESS, Key::address).unwrap();
    table
}

/// The findings of a judge: the numbers of functions that are equal, different or missing, and the PCs.
#[derive(Default, PartialEq, Debug)]
struct Found {
    functions: [u64; 3],
    different: Vec<u64>,
    missing: u64,
    equal: u64,
}

impl Found {
    fn from_report(report: &Report) -> Self {
        let inside = report.differences.iter().filter(|difference| difference.function.is_some());
        assert_eq!((report.more_differences, report.pcs_unjudged), (0, 0));
        Self {
            functions: [report.equal, report.different, report.missing],
            different: inside.flat_map(|difference| difference.start.0..difference.end.0).collect(),
            missing: report.pcs_missing,
            equal: report.pcs_equal,
        }
    }
}

/// Translates a row of gimli.
fn row_of_cfi(row: &UnwindTableRow<usize>) -> Row {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { panic!("{row:?}") };
    let rule = |register| match row.register(register) {
        None => Rule::SameValue,
        Some(RegisterRule::Offset(offset)) => Rule::Cfa(offset),
        rule => panic!("{rule:?}"),
    };
    Row {
        start: FunctionOffset(0),
        cfa: Cfa::Register { register: Register(register.0), offset: *offset },
        return_address: rule(gimli::X86_64::RA),
        frame_pointer: rule(gimli::X86_64::RBP),
        signed: false,
    }
}

/// Returns the row of a function of a table at an offset, or an error if the row cannot be read.
fn row_of_table(function: &Function<'_>, offset: u64) -> Result<Option<Row>, ()> {
    let mut found = Ok(None);
    for fre in function.fres() {
        // The start of an unreadable row is unknown. So the end of the row before it is unknown too.
        let fre = fre.map_err(|_| ())?;
        if u64::from(fre.start.0) > offset {
            return found;
        }
        found = fre.row(function).map(Some).map_err(|_| ());
    }
    found
}

/// Looks at every PC of every function.
fn every_pc(cfi: &Cfi, table: &Section<'_>) -> Found {
    let section = cfi.section();
    let frames = EhFrame::from(EndianSlice::new(section.bytes, LittleEndian));
    let bases = BaseAddresses::default().set_eh_frame(CFI_ADDRESS.0);
    let (mut entries, mut context) = (frames.entries(&bases), UnwindContext::new());
    let mut found = Found::default();
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
        let mut counts = [0; 3];
        for pc in fde.initial_address()..fde.end_address() {
            let by_cfi = fde.unwind_info_for_address(&frames, &bases, &mut context, pc).unwrap();
            let by_table = match table.find(Address(pc)).unwrap() {
                Some(function) => row_of_table(&function, pc - function.start().0),
                None => Ok(None),
            };
            match by_table {
                Ok(None) => counts[2] += 1,
                Ok(Some(row)) if row.unwinds_as(&row_of_cfi(by_cfi)) => counts[0] += 1,
                _ => {
                    counts[1] += 1;
                    found.different.push(pc);
                }
            }
        }
        let verdict = if counts[1] != 0 { 1 } else { 2 * usize::from(counts[2] != 0) };
        found.functions[verdict] += 1;
        found.equal += counts[0];
        found.missing += counts[2];
    }
    found
}

fn judge(cfi: &Cfi, table: &Section<'_>, pool: &dyn Pool) -> Report {
    let options = Options::new().with_limit(usize::MAX);
    verify_on(pool, &[cfi.section()], &Table::new(&[*table]), &options)
}

/// Changes each bit of the index and of the FREs, one after the other. One table has functions that share their rows,
/// and the other table has functions with rows of their own.
#[test]
fn each_bit_of_a_table() {
    let cfi = cfi(30);
    let (mut judged, mut different) = (0, 0);
    for share in [false, true] {
        let mut bytes = table(&cfi, share);
        let original = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
        assert!(judge(&cfi, &original, &Threads(1)).is_complete());
        let first = original.fde_offset(0).0;
        for at in first..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                let planted = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
                let report = judge(&cfi, &planted, &Threads(1));
                let has_stubs = planted.functions().flatten().any(|function| function.is_pc_mask());
                if !Table::new(&[planted]).faults().is_empty() {
                    assert!(!report.is_true(), "bit {bit} of byte {at:#x}");
                } else if !has_stubs && signal_frames(&planted) == 0 {
                    let found = every_pc(&cfi, &planted);
                    let by_report = Found::from_report(&report);
                    assert_eq!(by_report, found, "bit {bit} of byte {at:#x}, shared: {share}");
                    judged += 1;
                    different += u32::from(!found.different.is_empty());
                } else {
                    assert!(!report.is_true(), "bit {bit} of byte {at:#x}");
                }
                bytes[at] ^= 1 << bit;
            }
        }
    }
    println!("{judged} tables, {different} with differences");
    assert!(judged > 3000 && different > 2000, "{judged} tables, {different} with differences");
}

fn signal_frames(table: &Section<'_>) -> usize {
    table.functions().flatten().filter(|function| function.is_signal_frame()).count()
}

/// Among many equal functions, a single function gets other instructions. Only this function differs.
#[test]
fn one_of_many() {
    let original = cfi(70);
    for share in [false, true] {
        let bytes = table(&original, share);
        let table = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
        for odd in 0..70 {
            let (mut cfi, cie) = Cfi::amd64();
            let mut start = 0x1000;
            for (number, (size, instructions)) in KINDS.iter().cycle().take(70).enumerate() {
                // The other functions have another `def_cfa_offset` after one byte, or none.
                let other: &[u8] = &[0x41, 0x0e, 32];
                cfi.fde(cie, start, *size, if number == odd { other } else { instructions });
                start += size + start % 3;
            }
            let report = judge(&cfi, &table, &Threads(1));
            assert_eq!(Found::from_report(&report), every_pc(&cfi, &table), "function {odd}");
            assert_eq!((report.equal, report.different), (69, 1), "function {odd}");
        }
    }
}

/// With instructions that move to an address, two functions with the same bytes do not have the same rows.
#[test]
fn addresses_in_instructions() {
    let (mut cfi, cie) = Cfi::amd64();
    // set_loc 0x1001 with a pointer of eight bytes, def_cfa_offset 16.
    let set_loc = [0x01, 0x01, 0x10, 0, 0, 0, 0, 0, 0, 0x0e, 16];
    let advance = [0x41, 0x0e, 16];
    cfi.fde(cie, 0x1000, 4, &set_loc);
    let (mut same, same_cie) = Cfi::amd64();
    same.fde(same_cie, 0x1000, 4, &advance);
    for start in (0x1004..0x1040).step_by(4) {
        cfi.fde(cie, start, 4, &set_loc);
        same.fde(same_cie, start, 4, &advance);
    }
    let bytes = table(&same, true);
    let report = judge(&cfi, &Section::parse(&bytes, TABLE_ADDRESS).unwrap(), &Threads(1));
    // gimli refuses to move back.
    assert_eq!((report.equal, report.unjudged), (1, 15), "{report:#?}");
}

/// Runs the tasks in reverse order.
struct Backwards;

impl Pool for Backwards {
    fn threads(&self) -> usize {
        5
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        tasks.into_iter().rev().for_each(|task| task());
    }
}

/// The CFI has functions after each other, inside each other, with the same start, and without code. The table has most
/// of them, with some bytes changed.
#[test]
fn threads_change_no_report() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut both = [Cfi::amd64(), Cfi::amd64()];
        let mut start = 0x1000;
        for _ in 0..3000 {
            let (size, instructions) = KINDS[random.below(KINDS.len() as u64) as usize];
            let (kind, in_table) = (random.below(40), random.below(20) != 0);
            for (number, (cfi, cie)) in both.iter_mut().enumerate() {
                match kind {
                    0 => cfi.fde(*cie, start, size + 8, instructions),
                    1 => cfi.fde(*cie, start, 0, instructions),
                    2 if number == 0 => cfi.fde(*cie, start, size, &[0x41, 0x0e, 40]),
                    // An instruction that gimli does not know.
                    3 if number == 0 => cfi.fde(*cie, start, size, &[0x41, 0x3f]),
                    4 => {
                        cfi.fde(*cie, start, size, instructions);
                        cfi.fde(*cie, start, size, &[]);
                    }
                    _ if number == 0 || in_table => cfi.fde(*cie, start, size, instructions),
                    _ => {}
                }
            }
            start += size + random.below(3);
        }
        let [(cfi, _), (in_table, _)] = both;
        let mut bytes = table(&in_table, seed % 2 == 0);
        let first = Section::parse(&bytes, TABLE_ADDRESS).unwrap().fde_offset(0).0;
        for _ in 0..seed {
            let at = first as u64 + random.below((bytes.len() - first) as u64);
            bytes[at as usize] ^= 1 << random.below(8);
        }
        let planted = Section::parse(&bytes, TABLE_ADDRESS).unwrap();
        for limit in [3, 100, usize::MAX] {
            let report = |pool: &dyn Pool| {
                let (tables, options) = ([planted], Options::new().with_limit(limit).with_padding(2));
                let mut asked = Vec::new();
                let report = verify_with_reasons_on(
                    pool,
                    &[cfi.section()],
                    &Table::new(&tables),
                    &options,
                    |missing| {
                        asked.push((missing.start, missing.fde));
                        None
                    },
                );
                assert!(asked.is_sorted() && asked.len() as u64 == report.missing);
                assert!(
                    report.functions > 2500 && report.missing > 50 && report.unjudged > 30,
                    "{report:#?}"
                );
                format!("{report:#?}")
            };
            let single = report(&Threads(1));
            for threads in [0, 2, 3, 8, 1000] {
                assert!(report(&Threads(threads)) == single, "{threads} threads");
            }
            assert!(report(&Backwards) == single);
        }
    }
}
