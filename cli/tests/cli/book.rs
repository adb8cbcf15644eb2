//! The book's format pages use the files of `docs/formats/example`. This test makes them again with the reference tools,
//! and compares them. `.ci/blocks` runs the pages' commands on them.

use std::fs;
use std::path::Path;

use cfipack_tests::reference::Tools;

#[test]
#[ignore = "needs the reference tools"]
fn inputs_are_those_of_their_sources() {
    let tools = Tools::find();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/formats/example");
    for entry in fs::read_dir(&example).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".s") || name == "regenerate" {
            tools.write(&name, fs::read(entry.path()).unwrap());
        }
    }
    tools.run_well(&["LLVM_SUFFIX=-23", "bash", "./regenerate"]);
    for name in ["example", "apple.dylib", "arm64.o"] {
        let committed = fs::read(example.join(name)).unwrap();
        assert!(tools.read(name) == committed, "{name}: run docs/formats/example/regenerate");
    }
}
