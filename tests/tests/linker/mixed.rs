//! Makes one table from objects of different assemblers: version 3 of gas 2.47, version 2 of gas 2.44 and llvm-mc,
//! objects without a table, and objects in which cfipack has embedded one.

use std::collections::{BTreeMap, BTreeSet};

use cfipack_cfi::{Functions, SectionKind};
use cfipack_decoder::sframe as decoder;
use cfipack_encoder::sframe::{Layout, Options as TableOptions};
use cfipack_format::pool::Threads;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Key, Row};
use cfipack_linker::sframe::{Field, Live, Merger, Note, Options, Prefer};
use cfipack_roundtrip::{Table, verify};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::convert::all_options;
use cfipack_tests::directives::{File, Mode, TARGETS, Target};
use cfipack_tests::elf_object::ElfObject;
use cfipack_tests::embedded_objects::embed;
use cfipack_tests::reference::Tools;

use crate::linked::{Linked, section};
use crate::live_relink::linker;

/// The assembler of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Assembler {
    Gas247,
    Gas244,
    LlvmMc,
    NoTable,
    /// The assembler writes no table, and cfipack embeds one.
    Embedded(Version),
}

const ASSEMBLERS: [Assembler; 6] = [
    Assembler::Gas247,
    Assembler::Gas244,
    Assembler::LlvmMc,
    Assembler::NoTable,
    Assembler::Embedded(Version::V3),
    Assembler::Embedded(Version::V2),
];

/// The assemblers take turns. A source that one refuses goes to gas 2.47.
fn objects(tools: &Tools, older: &Tools, random: &mut Random, target: Target) -> Vec<ElfObject> {
    let assemble = |number: usize| {
        let functions = 1 + random.below(30) as usize;
        let text = File::random(random, target, Mode::Clean, functions).text();
        let text = text.replace(".cfi_personality 0x3,", ".cfi_personality 0x1b,");
        let text = format!("\t.hidden __gxx_personality_v0\n{text}");
        let (source, object) = (format!("{number}.s"), format!("{number}.o"));
        tools.write(&source, &text);
        let triple = match target.arch {
            Arch::Amd64 => "x86_64-linux-gnu",
            Arch::Aarch64 => "aarch64-linux-gnu",
            _ => "s390x-linux-gnu",
        };
        let is_done = match ASSEMBLERS[number % ASSEMBLERS.len()] {
            Assembler::Gas247 => false,
            Assembler::Gas244 if target.arch == Arch::S390x => false,
            Assembler::Gas244 => {
                older.write(&source, &text);
                let output = older.run(&[target.assembler, "--gsframe", &source, "-o", &object]);
                output.status.success() && {
                    tools.write(&object, older.read(&object));
                    true
                }
            }
            Assembler::LlvmMc => {
                let command =
                    ["llvm-mc-23", "-triple", triple, "-filetype=obj", "--gsframe", &source, "-o", &object];
                tools.run(&command).status.success()
            }
            Assembler::NoTable | Assembler::Embedded(_) => {
                tools.run(&[target.assembler, "--gsframe=no", &source, "-o", &object]).status.success()
            }
        };
        if !is_done {
            tools.run_well(&[target.assembler, "--gsframe", &source, "-o", &object]);
        }
        if let Assembler::Embedded(version) = ASSEMBLERS[number % ASSEMBLERS.len()] {
            // s390x only has version 3.
            let version = if target.arch == Arch::S390x { Version::V3 } else { version };
            let plain = tools.read(&object);
            if let Ok(Some(new)) = embed(&plain, TableOptions::new().with_version(version)) {
                tools.write(&object, new.to_vec(&plain));
            }
        }
        ElfObject::parse(&tools.read(&object))
    };
    (0..12).map(assemble).collect()
}

/// Returns address and size of each function in an object's CFI.
fn functions(linked: &Linked<'_>, arch: Arch) -> BTreeMap<u64, u64> {
    let mut functions = BTreeMap::new();
    for (number, object) in linked.objects.iter().enumerate() {
        let input = object.input();
        let bytes = input.eh_frame.expect("all have CFI");
        let section = cfipack_cfi::Section::new(SectionKind::EhFrame, bytes, Address(0), arch);
        let key_of = |field| linked.live(number, Field::EhFrame(field)).map(|live| live.key);
        for function in Functions::keyed(&section, key_of) {
            let function = function.unwrap();
            if function.size != 0 {
                functions.insert(linked.address(function.key).0, function.size);
            }
        }
    }
    functions
}

/// Returns the starts of signal frames that have a table of version 2.
fn signal_frames(linked: &Linked<'_>, arch: Arch) -> BTreeSet<u64> {
    let mut starts = BTreeSet::new();
    for (number, object) in linked.objects.iter().enumerate() {
        let input = object.input();
        if input.sframe.is_none_or(|bytes| bytes[2] == Version::V3 as u8) {
            continue;
        }
        let bytes = input.eh_frame.expect("all have CFI");
        let section = cfipack_cfi::Section::new(SectionKind::EhFrame, bytes, Address(0), arch);
        let key_of = |field| linked.live(number, Field::EhFrame(field)).map(|live| live.key);
        let functions = Functions::keyed(&section, key_of).map(Result::unwrap);
        let signal_frames = functions.filter(|function| function.cie.signal_frame);
        starts.extend(signal_frames.map(|function| linked.address(function.key).0));
    }
    starts
}

/// Returns the rows of live functions by address, as the table of an input has them. Rows at a function's end answer
/// for no PC.
fn input_rows(linked: &Linked<'_>, object: usize) -> BTreeMap<u64, Vec<Row>> {
    let mut all = BTreeMap::new();
    let Some(bytes) = linked.objects[object].table().sframe else { return all };
    let section = decoder::Section::parse(bytes, Address(0)).unwrap();
    for (function, field) in section.functions().zip(section.start_fields()) {
        let function = function.unwrap();
        let Some(Live { key, .. }) = linked.live(object, Field::Sframe(field)) else { continue };
        if function.size() != 0 && function.num_fres() != 0 {
            all.insert(linked.address(key).0, meaning(function));
        }
    }
    all
}

/// Returns the rows of a function that differ from the row before.
fn meaning(function: decoder::Function<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for row in function.rows().map(Result::unwrap).filter(|row| row.start.0 < function.size()) {
        if let Some(last) = rows.last()
            && last.start == row.start
        {
            rows.pop();
        }
        if rows.last().is_none_or(|last| !last.unwinds_as(&row)) {
            rows.push(row);
        }
    }
    rows
}

/// Each live function has the rows of its object's table, or true rows of its CFI, or is omitted by name.
#[test]
#[ignore = "needs the reference tools"]
fn mixed_objects_become_one_true_table() {
    let what = "one table of objects of gas 2.47, gas 2.44 and llvm-mc";
    let tools = Tools::find();
    let older = tools.older();
    let (seed, count) = cases(what, 2);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for _ in 0..count {
            let objects = objects(&tools, &older, &mut random, target);
            let names: Vec<_> = (0..objects.len()).map(|number| format!("{number}.o")).collect();
            let mut command = vec![
                linker(target.arch),
                "-shared",
                "-Map=map",
                "-o",
                "out",
                "--defsym=__gxx_personality_v0=0",
            ];
            command.extend(names.iter().map(String::as_str));
            tools.run_well(&command);
            let (map, output) = (String::from_utf8(tools.read("map")).unwrap(), tools.read("out"));
            let linked = Linked::new(&objects, &map);
            for table in all_options() {
                for prefer in [Prefer::Table, Prefer::Cfi] {
                    let options = Options::new().with_prefer(prefer).with_table(table);
                    println!("{:?}, {options:?}", target.arch);
                    check(&linked, target.arch, options, &output);
                }
            }
        }
    }
}

fn check(linked: &Linked<'_>, arch: Arch, options: Options, output: &[u8]) {
    let merge = |threads| {
        let mut merger = Merger::new(arch, options).unwrap();
        let inputs: Vec<_> = linked.objects.iter().map(ElfObject::input).collect();
        let mut notes = Vec::new();
        let live = |number| move |field| linked.live(number, field);
        merger.push_objects(&Threads(threads), &inputs, live, |number, note| notes.push((number, note)));
        (merger.finish(), notes)
    };
    let (merged, notes) = merge(1);
    let (threaded, threaded_notes) = merge(3);
    assert_eq!(notes, threaded_notes);
    let at = Address(0x10_0000);
    let [bytes, threaded] = [&merged, &threaded].map(|section| {
        let mut bytes = vec![0; section.len()];
        section.write(&mut bytes, at, |key: Key| linked.address(key)).unwrap();
        bytes
    });
    assert!(bytes == threaded, "the bytes depend on the number of threads");
    let table = [decoder::Section::parse(&bytes, at).unwrap()];
    table[0].validate().unwrap();
    let mut omitted = BTreeSet::new();
    for (_, note) in &notes {
        match note {
            Note::Omitted(unsupported) => omitted.insert(linked.address(unsupported.function).0),
            other => panic!("{other}"),
        };
    }

    // Every function is in the table, or is omitted by name.
    let functions = functions(linked, arch);
    let ours: BTreeMap<u64, decoder::Function<'_>> = table[0]
        .functions()
        .map(Result::unwrap)
        .filter(|function| function.size() != 0 && function.num_fres() != 0)
        .map(|function| (function.start().0, function))
        .collect();
    for (start, size) in &functions {
        match ours.get(start) {
            Some(function) => assert_eq!(u64::from(function.size()), *size, "{start:#x}"),
            // As gas does, layout `gnu` has some functions without rows.
            None if options.table.layout == Layout::Gnu => {}
            None => assert!(omitted.contains(start), "the function at {start:#x} is not there"),
        }
    }
    assert!(ours.keys().all(|start| functions.contains_key(start)));

    // Rows of an input's table are carried over unchanged.
    let mut from_tables = BTreeSet::new();
    if options.prefer == Prefer::Table {
        let signal_frames = signal_frames(linked, arch);
        let mut omitted_rows = 0;
        for object in 0..linked.objects.len() {
            for (start, theirs) in input_rows(linked, object) {
                // Version 2 does not represent signal frames.
                if options.table.version == Version::V3 && signal_frames.contains(&start) {
                    continue;
                }
                match ours.get(&start) {
                    Some(function) => assert_eq!(meaning(*function), theirs, "{start:#x}"),
                    None => omitted_rows += 1,
                }
                from_tables.insert(start);
            }
        }
        if options.table.version == Version::V3 {
            assert_eq!(omitted_rows, 0);
        }
        assert!(!from_tables.is_empty());
    }

    // gimli judges the other functions.
    let (eh_frame, address) = section(output, ".eh_frame");
    let cfi = cfipack_cfi::Section::new(SectionKind::EhFrame, &eh_frame, Address(address), arch);
    let report = verify(&[cfi], &Table::new(&table), &cfipack_roundtrip::Options::default());
    let is_ours = |difference: &&cfipack_roundtrip::Difference| {
        !difference.function.is_some_and(|function| from_tables.contains(&function.0))
    };
    if let Some(difference) = report.differences.iter().find(is_ours) {
        panic!("{difference}");
    }
    println!("{} functions, {} of tables, {} omitted", ours.len(), from_tables.len(), omitted.len());
}
