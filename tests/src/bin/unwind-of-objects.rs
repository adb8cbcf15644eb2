//! Compares the `__unwind_info` of an image, as LLVM's libunwind reads it, with the Mach-O objects of the link: the encoding, the
//! FDE, the LSDA and the personality of each function.
//!
//! ```sh
//! CFIPACK_LIBUNWIND=$(tests/libunwind/build) cargo run -p cfipack-tests --bin unwind-of-objects -- IMAGE OBJECT...
//! ```

use std::{env, fs, process};

use cfipack_tests::libunwind::judge;
use cfipack_tests::mach_said::{Compared, compare};
use object::{File, Object, ObjectSection};

fn main() {
    let paths: Vec<_> = env::args().skip(1).collect();
    let files: Vec<_> = paths.iter().map(|path| fs::read(path).expect(path)).collect();
    let [image, objects @ ..] = &files[..] else { panic!("usage: unwind-of-objects IMAGE OBJECT...") };
    let objects: Vec<&[u8]> = objects.iter().map(Vec::as_slice).collect();
    let file = File::parse(&image[..]).expect("a Mach-O image");
    let table = file.section_by_name("__unwind_info").expect("__unwind_info").data().expect("its bytes");
    let compared = compare(&judge(), image, table, &objects);
    for wrong in &compared.wrong {
        println!("{wrong}");
    }
    let Compared { functions, dwarf, none, pcs, wrong } = compared;
    println!(
        "{functions} functions, {dwarf} by FDEs, {none} without unwind information; {pcs} PCs, {} wrong; {} bytes",
        wrong.len(),
        table.len()
    );
    process::exit(i32::from(!wrong.is_empty() || functions == 0));
}
