//! Tests properties that hold for any CFI.

use std::collections::BTreeSet;

use cfipack_cfi::{self as cfi, SectionKind};
use cfipack_decoder::sframe::{self, Section, StepError, step};
use cfipack_encoder::sframe::{Builder, Layout, Options, Parallel};
use cfipack_format::pool::{Serial, Threads};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, FunctionOffset, Key, Register, Row};
use cfipack_testkit::by_cfi::{Cfi, Registers, Stop};
use cfipack_testkit::random::{Case, Random, cases};
use cfipack_tests::ARCHES;
use cfipack_tests::cfi_bytes::CfiBytes;
use cfipack_tests::convert::{Converted, all_options, convert};

const TABLE: Address = Address(0x100_0000);

const UNSHARED: Options = Options::new()
    .with_version(Version::V3)
    .with_layout(Layout::Small)
    .with_flex(true)
    .with_share(false)
    .with_merge_functions(0);

fn each_section(what: &str, mut check: impl FnMut(&mut Random, &CfiBytes, cfi::Section<'_>)) {
    let (seed, count) = cases(what, 1000);
    for case in 0..count as u64 {
        let (_case, mut random) = Case::new(seed.wrapping_add(case));
        let arch = random.pick(&ARCHES);
        let functions = random.pick(&[1, 2, 10, 40]);
        let generated = CfiBytes::random(&mut random, arch, functions);
        let kind = if generated.debug_frame { SectionKind::DebugFrame } else { SectionKind::EhFrame };
        let mut section = cfi::Section::new(kind, &generated.bytes, Address(generated.address), arch);
        (section.text, section.data) = (Address(generated.text), Address(generated.data));
        check(&mut random, &generated, section);
    }
}

/// Every function is in the table or refused, and at no PC does the table differ from gimli.
#[test]
fn tables_have_the_rows_of_the_cfi() {
    let (mut functions, mut refused) = (0, 0);
    each_section("random CFI, verified", |_, generated, section| {
        for options in all_options() {
            let converted = convert(&[section], generated.arch, TABLE, options);
            assert!(converted.malformed.is_empty(), "{:?}", converted.malformed);
            assert_eq!(converted.functions, generated.functions.len());
            converted.table().validate().unwrap();
            let report = converted.verify(&[section]);
            assert!(report.is_true(), "{options:?}: {:?}", report.differences.first());
            assert!(report.missing <= converted.omitted.len() as u64, "{options:?}: {:?}", report.unverified);
            assert_eq!(report.pcs_unjudged, 0);
            if options == Options::default() {
                functions += converted.functions;
                refused += converted.omitted.len();
            }
        }
    });
    println!("{refused} of {functions} functions were refused");
    assert!(refused * 2 < functions, "too little is put to the test");
}

/// Compares values instead of rules, without cfipack's verifier. Registers and memory are random, and gimli's
/// evaluation gives the expected caller.
#[test]
fn rows_find_the_frames_that_the_cfi_finds() {
    let (mut compared, mut functions) = (0, 0);
    each_section("random CFI, by values", |random, generated, section| {
        for options in all_options() {
            let converted = convert(&[section], generated.arch, TABLE, options);
            let g = generated;
            functions += g.functions.len();
            compared += if g.debug_frame {
                by_values(random, g, &converted, Cfi::debug_frame(&g.bytes, g.arch).unwrap())
            } else {
                by_values(
                    random,
                    g,
                    &converted,
                    Cfi::eh_frame(&g.bytes, g.address, g.text, g.data, g.arch).unwrap(),
                )
            };
        }
    });
    println!("{compared} frames compared, of {functions} functions");
    assert!(compared > 2 * functions, "too little is put to the test");
}

fn by_values<'a, S>(
    random: &mut Random,
    generated: &CfiBytes,
    converted: &Converted,
    mut cfi: Cfi<'a, S>,
) -> usize
where
    S: gimli::UnwindSection<gimli::EndianSlice<'a, gimli::RunTimeEndian>>,
{
    let (arch, table) = (generated.arch, converted.table());
    let refused: BTreeSet<_> = converted.omitted.iter().map(|unsupported| unsupported.function.0).collect();
    let memory = |address: u64| Some(Random::new(address).next());
    let mut compared = 0;
    for function in &generated.functions {
        for _ in 0..if function.is_empty() || refused.contains(&function.start) { 0 } else { 8 } {
            let pc = function.start + random.below(function.end - function.start);
            let values: Registers = std::array::from_fn(|_| Some(random.next()));
            let row = table.lookup(Address(pc)).unwrap();
            let by_row = row.ok_or(Stop::NoRow).and_then(|row| caller_by_row(&row, arch, &values, &memory));
            let by_cfi = cfi.caller(pc, &values, &memory).and_then(|caller| {
                let register = |register: Register| caller.registers[usize::from(register.0)];
                Ok(sframe::Caller {
                    pc: Address(caller.return_address.ok_or(Stop::Lost)?),
                    signed: caller.signed,
                    cfa: Address(caller.cfa),
                    sp: register(arch.stack_pointer()).ok_or(Stop::Lost)?,
                    fp: register(arch.frame_pointer()),
                })
            });
            assert_eq!(by_row, by_cfi, "pc {pc:#x} of {function:x?}, row {row:?}");
            compared += 1;
        }
    }
    compared
}

fn caller_by_row(
    row: &Row,
    arch: Arch,
    values: &Registers,
    memory: &dyn Fn(u64) -> Option<u64>,
) -> Result<sframe::Caller, Stop> {
    let value = |register: Register| values[usize::from(register.0)];
    let others: Vec<_> = (0..).map(Register).zip(values.iter().flatten().copied()).collect();
    let registers = sframe::Registers {
        sp: value(arch.stack_pointer()).ok_or(Stop::Lost)?,
        fp: value(arch.frame_pointer()),
        lr: value(arch.return_address()),
        others: &others,
    };
    step(arch, row, &registers, |address| memory(address.0)).map_err(|error| match error {
        StepError::Outermost => Stop::Outermost,
        StepError::Rule => Stop::NoRow,
        _ => Stop::Lost,
    })
}

/// Layouts and versions may differ in bytes and in omitted functions, but never in a row.
#[test]
fn layouts_and_versions_have_equal_rows() {
    each_section("random CFI, layouts compared", |random, generated, section| {
        let all: Vec<_> =
            all_options().map(|options| convert(&[section], generated.arch, TABLE, options)).collect();
        for function in generated.functions.iter().filter(|function| !function.is_empty()) {
            let holds =
                |converted: &&Converted| !converted.omitted.iter().any(|u| u.function.0 == function.start);
            for _ in 0..8 {
                let pc = Address(function.start + random.below(function.end - function.start));
                let answers: Vec<_> =
                    all.iter().filter(holds).map(|converted| answer(converted, pc)).collect();
                assert!(answers.windows(2).all(|pair| alike(pair[0], pair[1])), "pc {pc}: {answers:?}");
            }
        }
        let size = |layout: Layout, version: Version| {
            let place = all_options().position(|o| o.layout == layout && o.version == version).unwrap();
            (all[place].bytes.len(), all[place].omitted.len())
        };
        for version in [Version::V3, Version::V2] {
            let (small, gnu) = (size(Layout::Small, version), size(Layout::Gnu, version));
            assert!(small.0 <= gnu.0 || small.1 < gnu.1, "small is larger: {small:?} {gnu:?}");
        }
    });
}

fn answer(converted: &Converted, pc: Address) -> Option<Row> {
    let row = converted.table().lookup(pc).unwrap()?;
    // Where a row starts depends on the layout.
    Some(Row { start: FunctionOffset(0), ..row })
}

fn alike(a: Option<Row>, b: Option<Row>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.unwinds_as(&b),
        (a, b) => a == b,
    }
}

/// Functions may be pushed one by one, in shards absorbed in order, or all at once on any number of threads. Bytes and
/// reasons are the same.
#[test]
fn every_way_of_pushing_gives_the_same_table() {
    each_section("random CFI, pushed in several ways", |random, generated, section| {
        let functions: Vec<_> =
            cfipack_cfi::Functions::new(&section).map(|function| function.unwrap()).collect();
        for options in all_options().chain([UNSHARED, UNSHARED.with_version(Version::V2)]) {
            let whole = convert(&[section], generated.arch, TABLE, options);
            let bytes = |builder: Builder<'_>| {
                let section = builder.finish();
                let mut bytes = vec![0; section.len()];
                section.write(&mut bytes, TABLE, Key::address).unwrap();
                bytes
            };

            let mut builder = Builder::new(generated.arch, options).unwrap();
            let refused: Vec<_> =
                functions.iter().filter_map(|function| builder.push(function).err()).collect();
            assert_eq!(refused, whole.omitted, "{options:?}");
            assert!(bytes(builder) == whole.bytes, "{options:?}: one by one gives other bytes");

            let mut builder = Builder::new(generated.arch, options).unwrap();
            let mut rest = &functions[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(1 + random.below(rest.len() as u64) as usize);
                let mut shard = Builder::new(generated.arch, options).unwrap();
                for function in now {
                    let _ = shard.push(function);
                }
                builder.absorb(shard, &Serial).unwrap();
                rest = later;
            }
            assert!(bytes(builder) == whole.bytes, "{options:?}: shards give other bytes");

            let mut builder = Builder::new(generated.arch, options).unwrap();
            builder.push_all(Parallel::new(&section, &Threads(random.pick(&[2, 3, 8]))), |_| ());
            assert!(bytes(builder) == whole.bytes, "{options:?}: threads give other bytes");
        }
    });
}

/// Without sharing, each row's bytes belong to one function. Every PC has the same answer as with sharing.
#[test]
fn unshared_functions_have_equal_rows() {
    each_section("random CFI, nothing shared", |random, generated, section| {
        let (version, merge_functions) = (random.pick(&[Version::V2, Version::V3]), random.pick(&[0, 0, 8]));
        let shared = Options::new().with_version(version).with_merge_functions(merge_functions);
        let unshared = shared.with_share(false);
        let [shared, unshared] =
            [shared, unshared].map(|options| convert(&[section], generated.arch, TABLE, options));
        assert_eq!(shared.omitted, unshared.omitted);
        let table = unshared.table();
        let blocks = table.functions().map(|function| function.unwrap().fre_bytes().unwrap());
        let mut ranges: Vec<_> = blocks.map(<[u8]>::as_ptr_range).collect();
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        for function in generated.functions.iter().filter(|function| !function.is_empty()) {
            for _ in 0..8 {
                let pc = Address(function.start + random.below(function.end - function.start));
                let (a, b) = (answer(&shared, pc), answer(&unshared, pc));
                assert!(alike(a, b), "pc {pc}: {a:?}, not shared {b:?}");
            }
        }
    });
}

/// Merged functions have equal rows at every PC.
#[test]
fn merged_functions_have_equal_rows() {
    each_section("random CFI, functions merged", |random, generated, section| {
        let merge_functions = random.pick(&[2, 8, 1000]);
        let plain = convert(&[section], generated.arch, TABLE, Options::default());
        let merged =
            convert(&[section], generated.arch, TABLE, Options::new().with_merge_functions(merge_functions));
        let plain_table = Section::parse(&plain.bytes, TABLE).unwrap();
        assert!(merged.table().num_functions() <= plain_table.num_functions());
        for function in generated.functions.iter().filter(|function| !function.is_empty()) {
            for _ in 0..8 {
                let pc = Address(function.start + random.below(function.end - function.start));
                let (a, b) = (answer(&plain, pc), answer(&merged, pc));
                assert!(alike(a, b), "pc {pc}: {a:?}, merged {b:?}");
            }
        }
    });
}
