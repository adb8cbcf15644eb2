//! Writes the goldens' tables, CFI and objects as seeds for the fuzz targets.
//!
//!     cargo run -p cfipack-tests --bin fuzz-seeds -- DIRECTORY

use std::fs;
use std::path::Path;

use cfipack_tests::any_bytes::seeds;

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os().nth(1).expect("usage: fuzz-seeds DIRECTORY");
    for seed in seeds() {
        let directory = Path::new(&directory).join(seed.target);
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(&seed.name), &seed.bytes)?;
    }
    Ok(())
}
