//! lld 23 does not know the format and concatenates the tables of its inputs. We merge them in place. The result must
//! have the rows of the CFI, and readelf 2.47 must read it to its end.

use cfipack_container::File;
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::Options;
use cfipack_format::Key;
use cfipack_linker::linked::Tables;
use cfipack_roundtrip::{Table, verify};
use cfipack_tests::reference::Tools;

/// A function that calls others, in a source file of its own.
const SOURCE: &str = "
int other(int);
__attribute__((noinline)) int framed_N(int a, int b) {
    volatile char block[100];
    for (int i = 0; i < a; i++)
        block[i % 100] = other(b);
    return block[b % 100];
}
int calls_N(int a) { return a > 3 ? framed_N(a, 1) + framed_N(2, a) : other(a); }
int leaf_N(void) { return N; }
";

/// Assembles file N, with the table of gas 2.47 (version 3) or llvm-mc 23 (version 2).
fn object(tools: &Tools, number: usize, is_gas: bool) -> String {
    let (source, object) = (format!("{number}.c"), format!("{number}.o"));
    tools.write(&source, SOURCE.replace('N', &number.to_string()));
    if is_gas {
        tools.run_well(&["gcc", "-O2", "-fPIC", "-c", "-Wa,--gsframe", &source, "-o", &object]);
        return object;
    }
    let text = tools.run_well(&["clang-23", "-O2", "-fPIC", "-S", &source, "-o", "-"]);
    tools.write("with.s", format!("\t.cfi_sections .eh_frame, .sframe\n{text}"));
    tools.run_well(&["llvm-mc-23", "-triple=x86_64", "-filetype=obj", "with.s", "-o", &object]);
    object
}

#[test]
#[ignore = "needs the reference tools"]
fn what_lld_leaves_becomes_one_table() {
    let tools = Tools::find();
    for kinds in [[true; 4], [false; 4], [true, false, true, false]] {
        let objects: Vec<_> =
            kinds.iter().enumerate().map(|(n, &is_gas)| object(&tools, n, is_gas)).collect();
        let objects: Vec<_> = objects.iter().map(String::as_str).collect();
        tools.run_well(&[&["ld.lld-23", "-shared", "-o", "linked.so"], &objects[..]].concat());
        let bytes = tools.read("linked.so");
        let file = File::parse(&bytes).unwrap();
        let sections = file.sframe_sections().unwrap();
        let [section] = &sections[..] else { panic!("{sections:?}") };
        let tables: Result<Vec<_>, _> = Section::concatenated(&section.bytes, section.address).collect();
        let tables = tables.unwrap();
        assert_eq!(tables.len(), kinds.len());

        let version = tables.iter().map(Section::version).max().unwrap();
        let mut merged = Tables::new(file.arch(), Options::new().with_version(version)).unwrap();
        for table in &tables {
            let taken = merged.push(table, |_| true, |unsupported| panic!("{unsupported}")).unwrap();
            assert_eq!(taken.functions, 3);
        }
        let merged = merged.finish();
        assert!(merged.len() < section.bytes.len());
        let merged = merged.into_bytes(section.address, Key::address).unwrap();
        let in_place = cfipack_edit::with_section(&file, section.index.unwrap(), &merged)
            .unwrap()
            .expect("it is smaller");
        tools.write("merged.so", &in_place);

        let file = File::parse(&in_place).unwrap();
        let sections = file.sframe_sections().unwrap();
        let table = Section::parse(&sections[0].bytes, sections[0].address).unwrap();
        table.validate().unwrap();
        assert!(table.is_sorted() && table.num_functions() == 12 && sections[0].bytes.len() == merged.len());
        let cfi = file.call_frame_sections().unwrap();
        let cfi: Vec<_> = cfi.iter().map(|section| section.cfi()).collect();
        let report = verify(&cfi, &Table::new(&[table]), &cfipack_roundtrip::Options::default());
        assert_eq!((report.equal, report.different, report.missing), (12, 0, 0));

        // readelf only finds the first of lld's tables.
        let [before, after] =
            ["linked.so", "merged.so"].map(|file| tools.run_well(&["readelf", "--sframe", file]));
        let functions = |text: &str| text.lines().filter(|line| line.contains("func idx [")).count();
        assert_eq!((functions(&before), functions(&after)), (3, 12), "{after}");
    }
}
