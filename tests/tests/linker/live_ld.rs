//! Links the same objects in layout `gnu` and with GNU `ld`. The bytes must be the same.

use cfipack_encoder::sframe::Layout;
use cfipack_format::pool::Threads;
use cfipack_format::sframe::Header;
use cfipack_format::{Arch, Reason, Unsupported};
use cfipack_linker::sframe::{Merger, Note, Options, Prefer, Section};
use cfipack_testkit::random::{Random, assert_enough, cases};
use cfipack_tests::directives::{File, Mode, TARGETS, Target};
use cfipack_tests::elf_object::ElfObject;
use cfipack_tests::reference::Tools;
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget};

use crate::linked::{Linked, section};

/// Kinds of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Executable,
    CollectedExecutable,
    Pie,
    Shared,
    Relocatable,
}

const KINDS: [Kind; 5] =
    [Kind::Executable, Kind::CollectedExecutable, Kind::Pie, Kind::Shared, Kind::Relocatable];

/// Makes random objects that share COMDAT groups. Some have no functions.
fn objects(tools: &Tools, random: &mut Random, target: Target, mode: Mode) -> Vec<ElfObject> {
    let count = 2 + random.below(6) as usize;
    let assemble = |number: usize| {
        let functions = random.below(25) as usize;
        let file = File::random(random, target, mode, functions);
        // The roots of garbage collection.
        let mut roots = format!(
            "\t.hidden __gxx_personality_v0\n\t.globl root{number}\n\t.section .data.root{number},\"aw\",@progbits\nroot{number}:\n"
        );
        for (function, text) in file.functions.iter().enumerate() {
            if text.contains(",comdat") {
                roots += &format!("\t.weak f{function}\n");
            }
            if random.chance(40) {
                roots += &format!("\t.quad f{function}\n");
            }
        }
        // Position-independent code cannot have absolute 32-bit addresses.
        let text = file.text().replace(".cfi_personality 0x3,", ".cfi_personality 0x1b,") + &roots;
        let name = format!("{number}.s");
        tools.write(&name, text);
        let options = if random.chance(12) { "--gsframe=no" } else { "--gsframe" };
        tools.run_well(&[target.assembler, options, &name, "-o", &format!("{number}.o")]);
        ElfObject::parse(&tools.read(&format!("{number}.o")))
    };
    (0..count).map(assemble).collect()
}

/// Returns the name of GNU `ld` for an architecture.
pub fn linker(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "ld",
        Arch::Aarch64 => "aarch64-linux-gnu-ld",
        _ => "s390x-linux-gnu-ld",
    }
}

fn link(tools: &Tools, target: Target, kind: Kind, objects: usize) -> (String, Vec<u8>) {
    let linker = linker(target.arch);
    let roots: Vec<_> = (0..objects).step_by(2).map(|number| format!("--undefined=root{number}")).collect();
    let files: Vec<_> = (0..objects).map(|number| format!("{number}.o")).collect();
    let mut command = vec![linker, "-Map=map", "-o", "out", "-e", "0"];
    match kind {
        Kind::Executable => {}
        Kind::CollectedExecutable => command.push("--gc-sections"),
        Kind::Pie => command.push("-pie"),
        Kind::Shared => command.push("-shared"),
        Kind::Relocatable => command.push("-r"),
    }
    if kind != Kind::Relocatable {
        command.push("--defsym=__gxx_personality_v0=0");
    }
    command.extend(roots.iter().map(String::as_str));
    command.extend(files.iter().map(String::as_str));
    tools.run_well(&command);
    (String::from_utf8(tools.read("map")).unwrap(), tools.read("out"))
}

/// Merges the objects in layout `gnu`, in ld's order.
fn merged<'l>(linked: &'l Linked<'_>, target: Target, threads: usize) -> (Section<'l>, u64) {
    let options = Options::new().with_prefer(Prefer::TableOnly);
    let mut table = options.table;
    table.layout = Layout::Gnu;
    let mut merger = Merger::new(target.arch, options.with_table(table)).unwrap();
    let inputs: Vec<_> = linked.order.iter().map(|&number| linked.objects[number].table()).collect();
    let live = |number: usize| move |field| linked.live(linked.order[number], field);
    let contribution = merger.push_objects(&Threads(threads), &inputs, live, |_, note| match note {
        // gas wrote a malformed row, which ld copies and we omit.
        Note::Omitted(Unsupported { reason: Reason::RowMalformed, .. }) => {}
        note => panic!("{note}"),
    });
    (merger.finish(), contribution.omitted)
}

/// A relocation: place, type, and the section and offset of its target.
type Relocation = (u64, u32, String, u64);

fn relocations(file: &[u8]) -> Vec<Relocation> {
    let file = object::File::parse(file).unwrap();
    let Some(section) = file.section_by_name(".sframe") else { return Vec::new() };
    let relocation = |(at, relocation): (u64, object::Relocation)| {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("no symbol") };
        let symbol = file.symbol_by_index(symbol).unwrap();
        let target = file.section_by_index(symbol.section_index().unwrap()).unwrap();
        let RelocationFlags::Elf { r_type } = relocation.flags() else { panic!("not ELF") };
        let value = symbol.address().wrapping_add(relocation.addend() as u64);
        (at, r_type.0, target.name().unwrap().to_owned(), value)
    };
    section.relocations().map(relocation).collect()
}

fn compare(linked: &Linked<'_>, target: Target, kind: Kind, output: &[u8], threads: usize) {
    let (ours, omitted) = merged(linked, target, threads);
    if omitted != 0 {
        println!("{omitted} functions have rows that mean nothing");
        return;
    }
    let (theirs, address) = section(output, ".sframe");
    if ours.is_empty() {
        assert!(theirs.is_empty() || theirs.len() == Header::SIZE, "{} bytes of ld's", theirs.len());
        return;
    }
    let mut bytes = vec![0xaa; ours.len()];
    if kind == Kind::Relocatable {
        ours.write_relocatable(&mut bytes).unwrap();
        let relocation = |it: cfipack_linker::sframe::Relocation| {
            let (section, value) = linked.place(it.function);
            let r_type = it.kind.elf_type(target.arch).unwrap().number;
            (it.offset.0 as u64, r_type, section.to_owned(), value + it.addend)
        };
        let ours: Vec<_> = ours.relocations().map(relocation).collect();
        assert_eq!(ours, relocations(output), "relocations");
    } else {
        ours.write(&mut bytes, cfipack_format::Address(address), |key| linked.address(key)).unwrap();
    }
    let at = bytes.iter().zip(&theirs).position(|(our, their)| our != their);
    assert_eq!((at, bytes.len()), (None, theirs.len()), "the first byte that differs, and the length");
}

/// Relocatable output, which is the same for ld and us, is an object of another link.
fn again(tools: &Tools, target: Target, relocatable: &[u8]) {
    let objects = [ElfObject::parse(relocatable)];
    tools.write("0.o", relocatable);
    let (map, output) = link(tools, target, Kind::Shared, 1);
    compare(&Linked::new(&objects, &map, &output), target, Kind::Shared, &output, 1);
}

/// Links random objects in every way.
#[test]
#[ignore = "needs the reference tools"]
fn links_of_random_objects_are_what_ld_writes() {
    let what = "layout gnu against ld";
    let tools = Tools::find();
    let (seed, count) = cases(what, 4);
    let mut random = Random::new(seed);
    let mut functions = 0;
    for target in TARGETS {
        for number in 0..count {
            let mode = if number % 2 == 0 { Mode::Clean } else { Mode::Wild };
            let objects = objects(&tools, &mut random, target, mode);
            for kind in KINDS {
                println!("{:?}, {kind:?}, {} objects", target.arch, objects.len());
                let (map, output) = link(&tools, target, kind, objects.len());
                let linked = Linked::new(&objects, &map, &output);
                compare(&linked, target, kind, &output, 1 + number % 3);
                if kind == Kind::Relocatable {
                    again(&tools, target, &output);
                }
                functions += merged(&linked, target, 1).0.num_fdes();
            }
        }
    }
    println!("{functions} functions");
    assert_enough(functions > 0, functions);
}
