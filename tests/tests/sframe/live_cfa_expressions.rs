//! Changes, remembers and restores CFAs that expressions give, at random. The expected rows are those that `readelf
//! -wF` 2.47 prints for gas's CFI.

use cfipack_container::{File, Placement};
use cfipack_format::Reason;
use cfipack_format::{Address, Cfa, Key, RegisterName};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::convert::{all_options, cfi_of, convert};
use cfipack_tests::directives::{TARGETS, Target};
use cfipack_tests::reference::Tools;

const FUNCTIONS: usize = 200;

/// Makes a function that changes only its CFA.
fn function(random: &mut Random, target: Target) -> String {
    let registers = [target.arch.stack_pointer().0, target.arch.frame_pointer().0];
    let mut text = "\t.cfi_startproc\n".to_string();
    let mut remembered = 0;
    for _ in 0..random.below(10) {
        let (register, offset) = (random.pick(&registers), 8 * random.between(1, 7));
        let directive = match random.below(20) {
            0..4 => format!("def_cfa_offset {offset}"),
            4 => format!("def_cfa_register {register}"),
            5..8 => format!("def_cfa {register},{offset}"),
            8 => format!("escape 0xf,2,{},{offset}", 0x70 + register),
            9 => format!("escape 0xf,3,{},{offset},6", 0x70 + register),
            10 => format!("escape 0xf,4,{},{offset},0x23,8", 0x70 + register),
            11 | 12 => {
                remembered += 1;
                "remember_state".into()
            }
            13 | 14 if remembered > 0 => {
                remembered -= 1;
                "restore_state".into()
            }
            _ => {
                text += "\t.byte 0,0,0,0\n";
                continue;
            }
        };
        text += &format!("\t.cfi_{directive}\n");
    }
    text + "\t.byte 0,0,0,0\n\t.cfi_endproc\n"
}

/// Returns the start of each FDE, with the location and CFA of each row.
fn rows(readelf: &str) -> Vec<(u64, Vec<(u64, &str)>)> {
    let mut functions: Vec<(u64, Vec<_>)> = Vec::new();
    let mut in_fde = false;
    for line in readelf.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let Some((_, pcs)) = line.split_once(" pc=") {
            let start = pcs.split_once("..").unwrap().0;
            functions.push((u64::from_str_radix(start, 16).unwrap(), Vec::new()));
            in_fde = true;
        } else if words.get(2) == Some(&"CIE") || words.get(3) == Some(&"CIE") {
            in_fde = false;
        } else if in_fde
            && let [location, cfa, ..] = words[..]
            && let (16, Ok(location)) = (location.len(), u64::from_str_radix(location, 16))
        {
            functions.last_mut().unwrap().1.push((location, cfa));
        }
    }
    functions
}

#[test]
#[ignore = "needs the reference tools"]
fn expressions_are_those_that_readelf_prints() {
    let what = "CFAs by expressions, against readelf -wF";
    let tools = Tools::find();
    let (seed, count) = cases(what, 4);
    let mut random = Random::new(seed);
    let (mut compared, mut without_base) = (0, 0);
    for (target, _) in TARGETS.into_iter().flat_map(|target| (0..count).map(move |number| (target, number))) {
        let functions: String = (0..FUNCTIONS).map(|_| function(&mut random, target)).collect();
        tools.write("f.s", format!("\t.text\n{functions}"));
        tools.run_well(&[target.assembler, "f.s", "-o", "f.o"]);
        let readelf = tools.run_well(&["readelf", "-wF", "f.o"]);
        let functions = rows(&readelf);
        assert_eq!(functions.len(), FUNCTIONS);
        let object = tools.read("f.o");
        let file = File::parse_with(&object, Placement::Zero).unwrap();
        let sections = file.call_frame_sections().unwrap();
        let cfi = cfi_of(&sections);
        for options in all_options() {
            let converted = convert(&cfi, target.arch, Address(0x100_0000), options);
            let report = converted.verify(&cfi);
            assert!(report.is_true() && report.unjudged_in_table == 0, "{:#?}", report.differences);
            let refused = |start| converted.omitted.iter().find(|other| other.function == Key(start));
            for (start, rows) in &functions {
                if let Some(unsupported) = refused(*start) {
                    without_base += u64::from(unsupported.reason == Reason::CfaWithoutBase);
                    continue;
                }
                for &(location, cfa) in rows {
                    let row = converted.table().lookup(Address(location)).unwrap().expect("a row");
                    let is_same = match row.cfa {
                        _ if cfa == "exp" => true,
                        Cfa::Register { register, offset } => {
                            format!("{}{offset:+}", RegisterName(target.arch, register)) == cfa
                        }
                        _ => false,
                    };
                    assert!(is_same, "{:?} {location:#x}: {:?}, readelf {cfa}", target.arch, row.cfa);
                    compared += u64::from(cfa != "exp");
                }
            }
        }
    }
    println!("{compared} rows compared; {without_base} functions change a CFA without a base");
    assert!(compared > 1000 && without_base > 100, "too little is put to the test");
}
