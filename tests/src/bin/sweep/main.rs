//! Converts the CFI of every ELF file below directories and verifies each table against its CFI.
//!
//!     cargo run --release -p cfipack-tests --bin sweep -- /usr/bin /usr/lib
//!
//! Prints a line for each file that cannot be read, differs from its table, or has functions whose CFI DWARF does not
//! define or gimli does not evaluate. Then it prints totals by architecture. The exit status is 1 if a PC differs, if a
//! function with undefined CFI is in a table, or if a function is missing without a reason.

mod totals;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cfipack_container::File;
use cfipack_tests::elf_files;
use totals::Totals;

/// Totals by architecture.
type ByArch = BTreeMap<String, Totals>;

fn main() -> ExitCode {
    let directories: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if directories.is_empty() {
        eprintln!("usage: sweep DIRECTORY...");
        return ExitCode::from(2);
    }
    let files = elf_files::below(&directories);
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut totals = ByArch::new();
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            sweep(path, &mut totals);
        }
        totals
    };
    let mut totals = ByArch::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for (arch, found) in workers.into_iter().flat_map(|worker| worker.join().expect("no panic")) {
            totals.entry(arch).or_default().add(&found);
        }
    });
    for (arch, totals) in &totals {
        println!("\n{arch}\n{totals}");
        totals.figures(arch);
    }
    ExitCode::from(u8::from(totals.values().any(Totals::is_wrong)))
}

fn sweep(path: &Path, totals: &mut ByArch) {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            println!("{}: {error}", path.display());
            return totals.entry("unknown architecture".into()).or_default().unreadable();
        }
    };
    match File::parse(&bytes) {
        Ok(file) => {
            let totals = totals.entry(format!("{:?}", file.arch())).or_default();
            if let Err(error) = totals.file(path, &file) {
                println!("{}: {error}", path.display());
                totals.unreadable();
            }
        }
        Err(error) => {
            println!("{}: {error}", path.display());
            totals.entry("unknown architecture".into()).or_default().unreadable();
        }
    }
}
