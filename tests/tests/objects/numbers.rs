//! Changes the numbers of symbols and sections, and checks everything that refers to them by number.

use std::fmt::Write as _;

use cfipack_container::File;
use cfipack_edit::{EmbedError, StartRelocation, embed_in_object};
use cfipack_encoder::sframe::Options;
use cfipack_tests::embedded_objects::{embedded, stripped};
use cfipack_tests::reference::Tools;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

use crate::seen::{assert_only_table_added, seen};

/// A table without functions has 28 bytes. After it is room for the field of a start.
fn table() -> Vec<u8> {
    let mut table = vec![0xe2, 0xde, 3, 0, 3, 0, 0xf8, 0];
    table.resize(64, 0);
    table
}

/// Returns every section that has bytes but no symbol.
fn without_symbol(object: &[u8]) -> Vec<usize> {
    let file = object::File::parse(object).unwrap();
    let symbols = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Section);
    let with: Vec<_> = symbols.filter_map(|symbol| symbol.section_index()).collect();
    let is_contents = |kind| !matches!(kind, SectionKind::Metadata | SectionKind::Other);
    let sections = file.sections().filter(|section| is_contents(section.kind()));
    sections
        .map(|section| section.index())
        .filter(|index| !with.contains(index))
        .map(|index| index.0)
        .collect()
}

/// Embeds a table whose starts need section symbols that the object lacks.
fn with_new_symbols(object: &[u8]) -> Result<Vec<u8>, EmbedError> {
    let missing = without_symbol(object);
    assert!(!missing.is_empty());
    let starts: Vec<_> =
        missing.iter().take(3).map(|&section| StartRelocation { offset: 28, section, addend: 5 }).collect();
    let new = embed_in_object(&File::parse(object).unwrap(), &table(), &starts)?;
    let bytes = new.to_vec(object);
    let (sections, _) = seen(&bytes);
    let file = object::File::parse(object).unwrap();
    for (relocation, start) in sections.last().unwrap().relocations.iter().zip(&starts) {
        let section = file.section_by_index(object::SectionIndex(start.section)).unwrap();
        let expected = format!(" {}+0x0 size 0x0 Section ", section.name().unwrap());
        assert!(relocation.2.starts_with(&expected), "{relocation:?} is not of {expected}");
        assert_eq!((relocation.0, relocation.3), (28, 5));
    }
    Ok(bytes)
}

const SOURCE: &str = r#"
        .section .text.a,"axG",@progbits,a,comdat
        .weak a
        .type a,@function
a:      .cfi_startproc
        pushq %rbp
        .cfi_def_cfa_offset 16
        call b@PLT
        popq %rbp
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size a, .-a
        .text
        .globl b
        .type b,@function
b:      .cfi_startproc
        leaq table(%rip), %rax
        ret
        .cfi_endproc
local:  .cfi_startproc
        jmp a
        .cfi_endproc
        .data
table:  .quad a, b, local
        .section .rodata.x,"a",@progbits
        .quad 1
        .section .ordered,"ao",@progbits,.text
        .quad 2
"#;

/// Prints an object with names instead of numbers.
const READOBJ: &[&str] = &["llvm-readobj-23", "--addrsig", "--cg-profile", "-g", "--expand-relocs", "-r"];

#[test]
#[ignore = "needs the reference tools"]
fn inserted_symbols_renumber_all_that_counts_them() {
    let tools = Tools::find();
    tools.write("gas.s", SOURCE);
    tools.write(
        "llvm.s",
        format!("{SOURCE}\n.addrsig\n.addrsig_sym b\n.addrsig_sym local\n.cg_profile a, b, 10\n.cg_profile b, a, 7\n"),
    );
    tools.run_well(&["as", "gas.s", "-o", "gas.o"]);
    tools.run_well(&["as", "--reloc-section-sym=none", "gas.s", "-o", "none.o"]);
    tools.run_well(&["llvm-mc-23", "-triple", "x86_64-linux-gnu", "-filetype=obj", "llvm.s", "-o", "llvm.o"]);
    for name in ["gas", "none", "llvm"] {
        let object = tools.read(&format!("{name}.o"));
        let new = with_new_symbols(&object).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_only_table_added(name, &object, &new);
        // The new symbols stay, because the original object may have had them.
        let again = stripped(&new);
        assert_eq!(seen(&again), seen(&object), "{name}");
        tools.write("new.o", &new);
        tools.write("again.o", &again);
        let print = |file: &str| {
            let text = tools.run_well(&[READOBJ, &[file]].concat());
            let lines = text.lines().filter(|line| !line.contains("Info: ") && !line.contains(file));
            lines.map(without_numbers).collect::<Vec<_>>()
        };
        let old = print(&format!("{name}.o"));
        assert_eq!(print("again.o"), old, "{name}");
        // The new relocations are printed last.
        let mut new = print("new.o");
        let start = new.iter().position(|line| line.contains(".rela.sframe")).expect("relocations");
        let end = start + new[start..].iter().position(|line| line == "  }").expect("their end");
        new.drain(start..=end);
        assert_eq!(new, old, "{name}");
        let old = old.join("\n");
        if name == "llvm" {
            for known in ["Sym: b", "Sym: local", "From: a", "To: b", "Weight: 10"] {
                assert!(old.contains(known), "{known}: {old}");
            }
        }
        for tool in [&["readelf", "-aW", "new.o"][..], &["objdump", "-dr", "new.o"]] {
            let output = tools.run(tool);
            let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && complaints.is_empty(), "{name}: {tool:?}: {complaints}");
        }
    }
}

/// Returns a line without numbers of symbols in parentheses.
fn without_numbers(line: &str) -> String {
    let mut text = String::new();
    let mut is_in = false;
    for character in line.chars() {
        is_in &= character != ')';
        if !is_in {
            text.push(character);
        }
        is_in |= character == '(';
    }
    text.trim_end().to_owned()
}

#[test]
#[ignore = "needs the reference tools"]
fn compact_relocations_cannot_be_renumbered() {
    let tools = Tools::find();
    tools.write("crel.s", SOURCE);
    let command =
        ["llvm-mc-23", "-triple", "x86_64-linux-gnu", "-filetype=obj", "--crel", "crel.s", "-o", "crel.o"];
    tools.run_well(&command);
    let object = tools.read("crel.o");
    let error = with_new_symbols(&object).unwrap_err();
    assert!(matches!(error, EmbedError::SymbolNumbers { value: 0x4000_0014, .. }), "{error}");
    // With only its own symbols, the object needs no new numbers.
    let new = embedded(&object, Options::new());
    assert_eq!(stripped(&new), object);
    tools.write("new.o", &new);
    let text = tools.run_well(&["llvm-readelf-23", "-rW", "new.o"]);
    assert!(text.contains("R_X86_64_PC64") && text.contains(".crel.eh_frame"), "{text}");
}

#[test]
#[ignore = "needs the reference tools"]
fn objects_with_more_sections_than_16_bits_number() {
    let tools = Tools::find();
    let mut source = String::new();
    for number in 0..35_000 {
        let _ = writeln!(
            source,
            ".section .text.f{number},\"ax\",@progbits\n.globl f{number}\nf{number}:\n.cfi_startproc\n\
             push %rax\n.cfi_def_cfa_offset 16\npop %rax\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n\
             .section .data.f{number},\"aw\",@progbits\n.quad f{number}"
        );
    }
    tools.write("many.s", source);
    tools.run_well(&["as", "many.s", "-o", "many.o"]);
    let object = tools.read("many.o");
    assert_eq!(object[0x3c..0x40], [0, 0, 0xff, 0xff], "e_shnum and e_shstrndx");
    let new = embedded(&object, Options::new());
    assert_only_table_added("many", &object, &new);
    assert!(stripped(&new) == object);
    tools.write("new.o", &new);
    let complaints = tools.run(&["readelf", "-SW", "new.o"]).stderr;
    assert!(complaints.is_empty(), "{}", String::from_utf8_lossy(&complaints));
    tools.run_well(&["ld", "-shared", "new.o", "-o", "new.so"]);
    let text = tools.run_well(&["readelf", "--sframe", "new.so"]);
    assert!(text.contains("Num FDEs: 35000"), "{}", &text[..text.len().min(1000)]);
    // gas's own table is not the last section.
    tools.run_well(&["as", "--gsframe", "many.s", "-o", "own.o"]);
    let (own, without) = (tools.read("own.o"), stripped(&tools.read("own.o")));
    assert!(seen(&without) == seen(&object), "without gas's table");
    assert!(own.len() > without.len());
}

/// The table's two sections are the first ones whose numbers do not fit into the ELF header.
#[test]
#[ignore = "needs the reference tools"]
fn objects_that_get_more_sections_than_16_bits_number() {
    let tools = Tools::find();
    let assemble = |sections: usize| {
        let mut source = SOURCE.to_owned();
        for number in 0..sections {
            let _ = writeln!(source, ".section .data.{number},\"aw\",@progbits\n.byte 1");
        }
        tools.write("many.s", source);
        tools.run_well(&["as", "many.s", "-o", "many.o"]);
        tools.read("many.o")
    };
    let count = |object: &[u8]| usize::from(u16::from_le_bytes(object[0x3c..0x3e].try_into().unwrap()));
    let few = count(&assemble(0));
    let object = assemble(0xfeff - few);
    assert_eq!(count(&object), 0xfeff);
    let new = embedded(&object, Options::new());
    assert_eq!(count(&new), 0);
    assert_only_table_added("many", &object, &new);
    assert!(stripped(&new) == object);
    tools.write("new.o", &new);
    for command in [&["readelf", "-SW", "new.o"][..], &["ld", "-r", "new.o", "-o", "again.o"]] {
        let output = tools.run(command);
        assert!(output.status.success() && output.stderr.is_empty(), "{command:?}");
    }
}
