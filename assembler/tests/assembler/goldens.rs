//! Listings of `corpora/listing` against the objects that gas made of the same sources.

use std::fs;
use std::path::{Path, PathBuf};

use cfipack_assembler::text::Reader;
use cfipack_format::Arch;

use crate::gas_object::Object;

/// A listing with all that one can have, by `corpora/listing/regenerate`.
pub const LISTING: &[u8] = include_bytes!("../../../corpora/listing/x86_64.lst");

/// A function that gas is wrong about: one of the exceptions of layout `gnu`.
const EXCEPTION: &str = "s390x-s_escape_expr_fp";

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora")
}

#[test]
fn a_listing_is_what_gas_assembled() {
    let object = Object(fs::read(corpora().join("listing/x86_64.o")).unwrap());
    let unit = Reader::new(Arch::Amd64).read(LISTING).unwrap();
    let names: Vec<_> = unit.functions.iter().map(|function| function.name.as_deref()).collect();
    assert_eq!(names, [Some("first"), Some("folded"), Some("cold"), Some("last")]);
    object.compare(&unit).unwrap();
}

/// Listings `ARCH-CASE.lst` of sources in `corpora/sframe`, whose objects are there.
#[test]
fn listings_of_goldens_are_what_gas_assembled() {
    let mut count = 0;
    for file in fs::read_dir(corpora().join("listing")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let Some((directory, case)) = name.split_once('-').filter(|_| path.extension().unwrap() == "lst")
        else {
            continue;
        };
        let arch = match directory {
            "x86_64" => Arch::Amd64,
            "aarch64" => Arch::Aarch64,
            "s390x" => Arch::S390x,
            other => panic!("{other}"),
        };
        let golden = corpora().join("sframe").join(directory).join(format!("{case}.gas247.o"));
        let unit = Reader::new(arch).read(&fs::read(&path).unwrap()).unwrap();
        let result = Object(fs::read(golden).unwrap()).compare(&unit);
        assert_eq!(result.is_err(), name == EXCEPTION, "{name}: {result:?}");
        count += 1;
    }
    assert!(count >= 15, "{count} listings");
}
