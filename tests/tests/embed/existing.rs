//! Embeds tables in files that already have one: GNU ld's table, ours, stale tables and longer ones.

use cfipack_container::File;
use cfipack_edit::{Embedding, Way};
use cfipack_tests::linkers::LinkerKind;
use cfipack_tests::reference::Tools;

use crate::linked::{link, loaded_table, run, scratch, tools, with_table, without_table};

#[test]
#[ignore = "needs the reference tools and gcc"]
fn tables_of_any_length_replace_ours() {
    let directory = scratch("existing");
    let kinds = [("pie", "program.o", "-pie"), ("fixed", "program.fixed.o", "-no-pie")];
    for ((kind, object, option), linker) in
        kinds.into_iter().flat_map(|kind| tools().0.iter().map(move |it| (kind, it)))
    {
        let path = directory.join(kind);
        let Some(old) = link(linker, &path, object, &[option]) else { continue };
        let before = run(&path, &old, false);
        let (mut now, first) = with_table(&old);
        // Tables with stale bytes: of the same length, longer than their room, and shorter.
        for len in [first.table.len(), 9000, 200, 70_000, 64, 80_000] {
            let what = format!("{kind} by {}, {len} bytes", linker.name);
            let file = File::parse(&now).expect("a linked file");
            let embedding = Embedding::of(&file, len).expect("a place");
            let (address, way) = (embedding.address(), embedding.way());
            let table: Vec<u8> = (0..len).map(|number| number as u8).collect();
            let next = embedding.rewrite(table.clone()).to_vec(&now);
            assert_eq!(loaded_table(&next), Some((address.0, &table[..])), "{what}, {way:?}");
            assert_eq!(run(&path, &next, false), before, "{what}, {way:?}");
            assert!(matches!(way, Way::InPlace | Way::Grow), "{what}: the room is used again, not {way:?}");
            now = next;
        }
        let (again, _) = with_table(&now);
        assert_eq!(run(&path, &again, false), before);
        assert!(without_table(&again) == old, "{kind} by {}: not the original", linker.name);
    }
}

#[test]
#[ignore = "needs the reference tools and gcc"]
fn tables_of_ld_are_replaced_and_removed() {
    let assembler = Tools::find();
    let linker = tools().0.iter().find(|it| it.kind == LinkerKind::Bfd && it.is_at_least((2, 46)));
    let linker = linker.expect("the reference tools have ld 2.46 or later");
    let directory = scratch("of-ld");
    let source = "\t.globl main\n\t.type main,@function\nmain:\n\t.cfi_startproc\n\tpush %rbx\n\t.cfi_adjust_cfa_offset 8\n\
        \tlea text(%rip),%rdi\n\tcall puts@PLT\n\tmov $5,%eax\n\tpop %rbx\n\t.cfi_adjust_cfa_offset -8\n\tret\n\
        \t.cfi_endproc\n\t.size main,.-main\n\t.section .rodata\ntext:\t.asciz \"from main\"\n\
        \t.section .note.GNU-stack,\"\",@progbits\n";
    assembler.write("main.s", source);
    assembler.run_well(&["as", "--gsframe", "-o", "main.o", "main.s"]);
    let object = assembler.path("main.o");
    for options in [&["-pie"][..], &["-pie", "-s"], &["-no-pie"]] {
        let path = directory.join("program");
        let Some(old) = link(linker, &path, object.to_str().expect("a path"), options) else {
            panic!("{} links", linker.name)
        };
        let (_, table) = loaded_table(&old).expect("ld writes a table");
        let own = table.len();
        let before = run(&path, &old, false);
        assert!(before.contains("from main"), "{before}");
        // The new table is as long, shorter, or too long for the room. Then it needs another place.
        for len in [own, own - 40, 5000] {
            let file = File::parse(&old).expect("a linked file");
            let embedding = Embedding::of(&file, len).expect("a place");
            let (address, way) = (embedding.address(), embedding.way());
            assert_eq!(way == Way::InPlace, len <= own, "{len} bytes for {own}: {way:?}");
            let table = vec![0x5a; len];
            let new = embedding.rewrite(table.clone()).to_vec(&old);
            assert_eq!(loaded_table(&new), Some((address.0, &table[..])), "{way:?}");
            assert_eq!(run(&path, &new, false), before, "{way:?}");
            let without = without_table(&new);
            assert_eq!(loaded_table(&without), None);
            assert_eq!(run(&path, &without, false), before, "{way:?}, removed");
            let readelf = |bytes: &[u8]| {
                assembler.write("file", bytes);
                let output = assembler.run(&["readelf", "-SlsdW", "file"]);
                assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8_lossy(&output.stdout).into_owned()
            };
            // Symbols still name their sections.
            let symbols = |text: &str| text.lines().filter(|line| line.contains(" main")).count();
            assert_eq!(symbols(&readelf(&without)), symbols(&readelf(&old)));
            assert!(!readelf(&without).contains(".sframe"), "the section is gone");
        }
    }
}
