//! The committed header is that which the sources give.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    // The conditions of Rust's `unsafe` are those of any C function: they need no heading.
    let generated = String::from_utf8(generated).unwrap().replace("// # Safety\n", "");
    let path = root.join("include/cfipack.h");
    if std::env::var_os("CFIPACK_UPDATE_HEADER").is_some() {
        std::fs::create_dir_all(root.join("include")).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(generated.lines()).position(|(old, new)| old != new);
    assert!(
        committed == generated,
        "include/cfipack.h differs from the sources in line {:?}: CFIPACK_UPDATE_HEADER=1 writes it",
        differs.map(|line| line + 1)
    );
}
