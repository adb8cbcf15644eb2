//! Tests unusual objects: several tables, tables in groups, tables that others refer to, other orders of sections.

use std::process::Command;

use cfipack_container::File;
use cfipack_edit::{EmbedError, StartRelocation, embed_in_object, without_sframe};
use cfipack_encoder::sframe::Options;
use cfipack_format::sframe::Version;
use cfipack_testkit::needs;
use cfipack_tests::embedded_objects::{embed, embedded, stripped};
use cfipack_tests::reference::Tools;
use object::{Object as _, ObjectSection as _};

use crate::seen::{assert_only_table_added, seen};

const FUNCTION: &str = "        .text\n        .globl f\nf:      .cfi_startproc\n        push %rbx\n\
        .cfi_def_cfa_offset 16\n        pop %rbx\n        .cfi_def_cfa_offset 8\n        ret\n        .cfi_endproc\n";

fn assemble(tools: &Tools, options: &[&str], source: &str) -> Vec<u8> {
    tools.write("x.s", source);
    tools.run_well(&[&["as", "x.s", "-o", "x.o"], options].concat());
    tools.read("x.o")
}

fn names(object: &[u8]) -> Vec<String> {
    let file = object::File::parse(object).unwrap();
    file.sections().map(|section| section.name().unwrap().to_owned()).collect()
}

/// Counts the sections with these names.
fn count(object: &[u8]) -> [usize; 2] {
    [".sframe", ".rela.sframe"].map(|name| names(object).iter().filter(|it| *it == name).count())
}

fn complaints(tools: &Tools, object: &[u8]) -> String {
    tools.write("checked.o", object);
    let readelf = tools.run(&["readelf", "-aW", "checked.o"]);
    let objdump = tools.run(&["objdump", "-drx", "checked.o"]);
    String::from_utf8_lossy(&[readelf.stderr, objdump.stderr].concat()).into_owned()
}

#[test]
#[ignore = "needs the reference tools"]
fn tables_are_replaced_whatever_they_are() {
    let tools = Tools::find();
    let plain = assemble(&tools, &[], FUNCTION);
    let gas = assemble(&tools, &["--gsframe"], FUNCTION);
    tools.write("gas.o", &gas);

    let options = [Version::V3, Version::V2].map(|version| Options::new().with_version(version));
    // A table of the other version replaces the old one.
    let [v3, v2] = options.map(|options| embedded(&plain, options));
    assert!(embedded(&v3, options[1]) == v2 && embedded(&v2, options[0]) == v3);
    let [v3, v2] = options.map(|options| embedded(&gas, options));
    assert!(embedded(&v3, options[1]) == v2 && embedded(&v2, options[0]) == v3);
    assert_eq!(names(&v2), names(&gas));

    // The object gets a second table, as linkers that keep sections apart make it.
    tools.write("y.s", FUNCTION.replace("f:", "g:").replace("globl f", "globl g"));
    tools.run_well(&["as", "--gsframe", "y.s", "-o", "y.o"]);
    tools.run_well(&["ld", "-r", "--unique=.sframe", "gas.o", "y.o", "-o", "two.o"]);
    let two = tools.read("two.o");
    assert_eq!(count(&two), [2, 2]);
    let one = embedded(&two, Options::new());
    assert_eq!(count(&one), [1, 1]);
    assert_eq!(complaints(&tools, &one), "");
    assert!(embed(&one, Options::new()).unwrap().unwrap().is_unchanged(&one));
    let without = stripped(&two);
    assert_eq!(count(&without), [0, 0]);
    assert_only_table_added("two tables", &without, &one);
    tools.write("one.o", &one);
    tools.run_well(&["ld", "-shared", "one.o", "-o", "one.so"]);
    assert!(tools.run_well(&["readelf", "--sframe", "one.so"]).contains("Num FDEs: 2"));

    // Tables without relocations, without bytes, of the wrong type, and in a group.
    tools.run_well(&["llvm-objcopy-23", "--remove-section=.rela.sframe", "gas.o", "bare.o"]);
    let bare = tools.read("bare.o");
    assert_eq!(count(&bare), [1, 0]);
    let sections = [
        ".section .sframe,\"a\",%0x6ffffff4\n",
        ".section .sframe,\"aw\",@nobits\n.skip 99\n",
        ".section .sframe,\"a\",@progbits\n.byte 1,2,3\n",
        ".section .sframe,\"aG\",@progbits,f,comdat\n.quad .text\n",
        ".section .sframe,\"a\",%0x6ffffff4\n.quad .text - .\n.section .after,\"a\",@progbits\n.quad f\n",
    ];
    let objects = sections.map(|section| assemble(&tools, &[], &format!("{FUNCTION}{section}")));
    for (number, object) in objects.into_iter().chain([bare]).enumerate() {
        let new = embedded(&object, Options::new());
        assert_eq!(count(&new), [1, 1], "{number}");
        assert_eq!(complaints(&tools, &new), "", "{number}");
        assert!(embed(&new, Options::new()).unwrap().unwrap().is_unchanged(&new), "{number}");
        let without = stripped(&object);
        assert_eq!((count(&without), complaints(&tools, &without)), ([0, 0], String::new()), "{number}");
        assert_only_table_added(&format!("table {number}"), &without, &new);
        let (sections, _) = seen(&stripped(&new));
        assert_eq!(sections, seen(&without).0, "{number}");
        tools.write("new.o", &new);
        tools.run_well(&["ld", "-shared", "new.o", "-o", "new.so"]);
        assert!(tools.run_well(&["readelf", "--sframe", "new.so"]).contains("Num FDEs: 1"), "{number}");
    }
}

#[test]
#[ignore = "needs the reference tools"]
fn what_refers_to_a_table_keeps_it() {
    let tools = Tools::find();
    let with = |section: &str| assemble(&tools, &[], &format!("{FUNCTION}{section}"));
    let strip = |object: &[u8]| {
        let file = File::parse(object).unwrap();
        without_sframe(&file).map(|rewrite| rewrite.is_some())
    };
    let table = ".section .sframe,\"a\",@progbits\n.skip 28\n";
    let symbol = with(&format!("{table}.globl t\nt: .quad 0\n"));
    assert!(matches!(strip(&symbol), Err(EmbedError::TableSymbol { .. })));
    let relocation = with(&format!("{table}t: .quad 0\n.data\n.quad t\n"));
    let error = strip(&relocation).unwrap_err();
    assert!(
        matches!(error, EmbedError::TableReference { section, .. } if section.as_str() == ".rela.data"),
        "{error}"
    );
    let order = with(&format!("{table}.section .after,\"ao\",@progbits,.sframe\n.quad 0\n"));
    let error = strip(&order).unwrap_err();
    assert!(
        matches!(error, EmbedError::TableReference { section, .. } if section.as_str() == ".after"),
        "{error}"
    );
    // If something refers to the table, the object may stay as it is.
    for object in [symbol, relocation, order] {
        let new = embedded(&object, Options::new());
        assert_eq!((count(&new), complaints(&tools, &new)), ([1, 1], String::new()));
    }
}

#[test]
#[ignore = "needs the reference tools"]
fn objects_that_are_more_or_less_are_refused() {
    let tools = Tools::find();
    let object = assemble(&tools, &[], FUNCTION);
    let refused = |bytes: &[u8]| embed(bytes, Options::new()).unwrap_err();
    let mut signed = object.clone();
    signed.extend(b"signature ~Module signature appended~\n");
    let offset = object.len() as u64;
    assert_eq!(refused(&signed), EmbedError::Overlay { offset, size: 38 });
    let mut padded = object.clone();
    padded.extend([0; 5]);
    assert_eq!(stripped(&embedded(&padded, Options::new())), padded);
    let headers = u64::from_le_bytes(object[0x28..0x30].try_into().unwrap());
    let mut typed = object.clone();
    typed[headers as usize + 4] = 4;
    let error = cfipack_container::Error::Unsupported {
        what: "type of section 0",
        offset: headers,
        value: 4,
        name: None,
    };
    assert_eq!(refused(&typed), error.into());
    let start = |offset, section| StartRelocation { offset, section, addend: 0 };
    let file = File::parse(&object).unwrap();
    let mut table = vec![0; 36];
    table[2] = 3;
    for (offset, section) in [(29, 1), (u32::MAX, 1), (28, 0), (28, 99), (28, usize::MAX)] {
        let error = embed_in_object(&file, &table, &[start(offset, section)]).unwrap_err();
        assert_eq!(error, EmbedError::Start { offset: offset.into(), value: section as u64 });
    }
    // A table without functions needs no relocations.
    let new = embed_in_object(&file, &table, &[]).unwrap().to_vec(&object);
    assert_eq!((count(&new), complaints(&tools, &new)), ([1, 0], String::new()));
    let new = embedded(&new, Options::new());
    assert_eq!(count(&new), [1, 1]);
    tools.run_well(&["ld", "-shared", "x.o", "-o", "x.so"]);
    let linked = tools.read("x.so");
    assert_eq!(embed_in_object(&File::parse(&linked).unwrap(), &table, &[]).unwrap_err(), EmbedError::Linked);
}

/// nasm puts section headers before the sections, and has no section symbols for some sections.
#[test]
#[ignore = "needs the reference tools and nasm"]
fn section_headers_before_the_sections_move_them() {
    needs::program("nasm", "nasm");
    let tools = Tools::find();
    tools.write(
        "x.asm",
        "global f\nextern g\nsection .text\nf: call g\nret\nsection .data align=64\ndq f\nsection .bss\nresb 8\n",
    );
    let mut nasm = Command::new("nasm");
    nasm.args(["-felf64", "-o"]).arg(tools.path("x.o")).arg(tools.path("x.asm"));
    let output = nasm.output().expect("nasm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let object = tools.read("x.o");
    assert_eq!(object[0x28], 0x40, "nasm's section headers follow the file's");
    let mut table = vec![0; 40];
    table[2] = 3;
    let start = StartRelocation { offset: 28, section: 1, addend: 0 };
    let file = File::parse(&object).unwrap();
    let new = embed_in_object(&file, &table, &[start]).unwrap().to_vec(&object);
    assert_only_table_added("nasm", &object, &new);
    assert_eq!(complaints(&tools, &new), "");
    // nasm aligns sections to 16 bytes in the file, whatever their alignment is. We keep their distances.
    let offsets = |bytes: &[u8]| {
        let file = object::File::parse(bytes).unwrap();
        let sections = file.sections().filter(|section| section.name() != Ok(".sframe"));
        let offset = |section: object::Section<'_, '_>| {
            Some((section.name().unwrap().to_owned(), section.file_range()?.0 % section.align().clamp(1, 64)))
        };
        sections
            .filter_map(offset)
            .filter(|section| !section.0.starts_with(".rela.sframe"))
            .collect::<Vec<_>>()
    };
    assert_eq!(offsets(&new), offsets(&object));
    assert_eq!(stripped(&new), object);
}
