//! Objects that have only tables, in the hands of linkers.

use ::object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use cfipack_assembler::text::Reader;
use cfipack_assembler::{Linker, ObjectOptions, UnnamedReason};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::Options;
use cfipack_format::{Address, Arch, Cfa, Key};
use cfipack_tests::reference::Tools;

/// Functions of one section around a global symbol, one that cannot be named, and one in a group.
fn source(number: u32) -> String {
    format!(
        "\t.text\n\tnop\nlocal{number}:\t.cfi_startproc\n\tpush %rbp\n\t.cfi_adjust_cfa_offset 8\n\tpop %rbp\n\
         \t.cfi_adjust_cfa_offset -8\n\tret\n\t.cfi_endproc\n\t.globl start{number}\n\t.hidden start{number}\n\
         start{number}:\t.cfi_startproc\n\tpush %rbx\n\t.cfi_adjust_cfa_offset 8\n\tcall other\n\tpop %rbx\n\
         \t.cfi_adjust_cfa_offset -8\n\tret\n\t.cfi_endproc\n\
         last{number}:\t.cfi_startproc\n\tpush %r12\n\t.cfi_adjust_cfa_offset 8\n\tpop %r12\n\t.cfi_endproc\n\
         \t.section .text.x,\"ax\",@progbits\nalone{number}:\t.cfi_startproc\n\tret\n\t.cfi_endproc\n\
         \t.section .text.y,\"axG\",@progbits,other,comdat\n\t.weak other\nother:\t.cfi_startproc\n\tret\n\
         \t.cfi_endproc\n\t.section .note.GNU-stack,\"\",@progbits\n"
    )
}

/// Makes the objects of a source's code and of its tables.
fn objects(tools: &Tools, number: u32, linker: Linker) {
    tools.write("c.s", source(number));
    let list = ["as", "-aclmn=c.lst", "--listing-rhs-width=200", "c.s", "-o"];
    tools.run_well(&[&list[..], &[&format!("code{number}.o")]].concat());
    let listing = tools.read("c.lst");
    let unit = Reader::new(Arch::Amd64).read(&listing).unwrap();
    let options = ObjectOptions::new(Options::default()).with_linker(linker);
    let made = unit.object(options).unwrap();
    let unnamed: Vec<_> = made.unnamed.iter().map(|unnamed| (unnamed.function, unnamed.reason)).collect();
    let expected = [(Key(3), UnnamedReason::NoGlobalSymbol), (Key(4), UnnamedReason::Comdat)];
    assert_eq!((unnamed.as_slice(), made.omitted.len()), (&expected[..], 0));
    tools.write(&format!("tables{number}.o"), made.bytes);
}

/// Asks the table of a linked file for the functions' rows.
fn check(tools: &Tools, name: &str, numbers: &[u32]) {
    let bytes = tools.read(name);
    let file = ::object::File::parse(&*bytes).unwrap();
    let table = file.section_by_name(".sframe").unwrap_or_else(|| panic!("{name}: no .sframe"));
    let section = Section::parse(table.data().unwrap(), Address(table.address())).unwrap();
    assert_eq!(section.functions().count(), 3 * numbers.len(), "{name}");
    for number in numbers {
        for (symbol, push) in [("local", 1), ("start", 1), ("last", 2)] {
            let symbol = format!("{symbol}{number}");
            let address = file.symbols().find(|found| found.name() == Ok(&symbol)).expect(&symbol).address();
            let cfa = |at| section.lookup(Address(address + at)).unwrap().map(|row| row.cfa);
            let of = |offset| Some(Cfa::Register { register: Arch::Amd64.stack_pointer(), offset });
            assert_eq!([cfa(0), cfa(push)], [of(8), of(16)], "{name}: {symbol}");
        }
    }
}

#[test]
#[ignore = "needs the reference tools"]
fn linkers_take_an_object_of_tables_beside_the_code() {
    let tools = Tools::find();
    for number in [1, 2] {
        objects(&tools, number, Linker::Gnu);
        let [code, tables, both] = ["code", "tables", "both"].map(|name| format!("{name}{number}.o"));
        tools.run_well(&["ld", "-r", &code, &tables, "-o", &both]);
    }
    for kind in [&["-e", "start1"] as &[&str], &["-shared"]] {
        tools.run_well(&[&["ld"], kind, &["both1.o", "both2.o", "-o", "out"]].concat());
        check(&tools, "out", &[1, 2]);
    }
    objects(&tools, 1, Linker::Lld);
    for kind in [&["-e", "start1"] as &[&str], &["-shared"]] {
        let lld = [&["ld.lld-23"], kind, &["code1.o", "tables1.o", "-o", "out"]].concat();
        tools.run_well(&lld);
        check(&tools, "out", &[1]);
    }
}
