//! Tables that gas wrote, held against the `.eh_frame` that gas wrote beside them.
mod object_file;

use std::path::Path;

use cfipack_decoder::sframe;
use cfipack_roundtrip::{Options, Table, verify};
use object_file::Loaded;

#[test]
fn gas_tables() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/sframe");
    let mut files: Vec<_> = std::fs::read_dir(corpora)
        .unwrap()
        .flat_map(|arch| std::fs::read_dir(arch.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|file| file.to_str().unwrap().ends_with(".gas247.o"))
        .collect();
    files.sort();
    for file in files {
        let loaded = Loaded::read(&std::fs::read(&file).unwrap());
        let name = file.file_name().unwrap().to_str().unwrap();
        let Some((bytes, address)) = loaded.section(".sframe") else { println!("{name}: no .sframe"); continue };
        let section = match sframe::Section::parse(bytes, address) {
            Ok(section) => section,
            Err(error) => { println!("{name}: {error}"); continue }
        };
        let sections = [section];
        let table = Table::new(&sections);
        let cfi: Vec<_> = loaded.eh_frame().into_iter().collect();
        let report = verify(&cfi, &table, &Options::default());
        if !report.is_true() || report.unjudged != 0 {
            println!("{name}: {} functions, {} differ, {} missing {} unjudged {} pcs", report.functions, report.different, report.missing, report.unjudged, report.pcs_different);
            for d in &report.differences { println!("    {d}"); }
            for d in &report.left_out { println!("    {d:?}"); }
        }
    }
}
