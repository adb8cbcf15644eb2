//! Every source of `corpora/`.

use std::collections::BTreeMap;

use cfipack_tests::assembled::corpus;
use cfipack_tests::reference::Tools;

use super::{assemble, read};

/// The exceptions are those of layout `gnu`, whatever the directives came from.
#[test]
#[ignore = "needs the reference tools"]
fn goldens_listings_and_sources_are_what_gas_writes() {
    let tools = Tools::find();
    let mut different = BTreeMap::new();
    let (mut listings, mut sources, mut refused) = (0, 0, 0);
    for case in corpus() {
        // `.cfi_val_encoded_addr` is no directive of ours.
        if case.name == "x86_64/x_val_encoded" {
            continue;
        }
        let command: Vec<_> = case.command.iter().map(String::as_str).collect();
        let (object, listing) = assemble(&tools, &case.text, &command);
        let result = read(case.arch, &listing, None).and_then(|unit| object.compare(&unit));
        if let Err(why) = result {
            different.insert(case.name.clone(), why);
            continue;
        }
        listings += 1;
        match read(case.arch, case.text.as_bytes(), None) {
            Ok(unit) => {
                sources += 1;
                object.compare(&unit).unwrap_or_else(|why| panic!("source {}: {why}", case.name));
            }
            Err(why) => {
                refused += 1;
                assert!(why.contains("give its listing"), "{}: {why}", case.name);
            }
        }
    }
    println!("{listings} listings, {sources} sources, {refused} sources with instructions");
    let names: Vec<_> = different.keys().map(String::as_str).collect();
    assert_eq!(names, crate::sframe::exceptions(), "{different:#?}");
}
