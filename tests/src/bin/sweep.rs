//! Converts the CFI of every ELF file below some directories and holds each table against its CFI.
//!
//!     cargo run --release -p cfipack-tests --bin sweep -- /usr/bin /usr/lib
//!
//! Prints a line for each file that a table differs from or that cannot be read, then totals.
//! Exit status 1 if any PC differs, or if a table has one that gimli cannot judge.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cfipack_container::File;
use cfipack_encoder::sframe::Options;
use cfipack_format::Address;
use cfipack_format::sframe::Abi;
use cfipack_tests::convert::{cfi_of, convert};

#[derive(Default)]
struct Totals {
    files: u64,
    without_cfi: u64,
    unreadable: u64,
    cfi_bytes: u64,
    table_bytes: u64,
    functions: u64,
    converted: u64,
    malformed: u64,
    unsupported: BTreeMap<&'static str, u64>,
    pcs: u64,
    pcs_different: u64,
    pcs_unjudged: u64,
    pcs_unjudged_in_table: u64,
}

fn main() -> ExitCode {
    let directories: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if directories.is_empty() {
        eprintln!("usage: sweep DIRECTORY...");
        return ExitCode::from(2);
    }
    let mut files = Vec::new();
    let mut seen = BTreeSet::new();
    for directory in &directories {
        collect(directory, &mut seen, &mut files);
    }
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut totals = Totals::default();
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            totals.file(path);
        }
        totals
    };
    let totals = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"))
            .fold(Totals::default(), Totals::plus)
    });
    totals.print();
    ExitCode::from(u8::from(totals.pcs_different + totals.pcs_unjudged_in_table > 0))
}

/// The ELF files below a directory, each once, whatever links lead to it.
fn collect(directory: &Path, seen: &mut BTreeSet<(u64, u64)>, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_dir() {
            collect(&path, seen, files);
        } else if metadata.is_file() && is_elf(&path) && seen.insert((metadata.dev(), metadata.ino())) {
            files.push(path);
        }
    }
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *b"\x7fELF"
}

impl Totals {
    fn file(&mut self, path: &Path) {
        self.files += 1;
        if let Err(error) =
            fs::read(path).map_err(|error| error.to_string()).and_then(|bytes| self.bytes(path, &bytes))
        {
            println!("{}: {error}", path.display());
            self.unreadable += 1;
        }
    }

    fn bytes(&mut self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let file = File::parse(bytes).map_err(|error| error.to_string())?;
        let sections = file.call_frame_sections().map_err(|error| error.to_string())?;
        let cfi = cfi_of(&sections);
        if Abi::of(file.arch()).is_none() || cfi.iter().all(|section| section.bytes.is_empty()) {
            self.without_cfi += 1;
            return Ok(());
        }
        let converted = convert(&cfi, file.arch(), Address(0), Options::default());
        let report = converted.verify(&cfi);
        if let Some(difference) = report.differences.first() {
            println!("{}: {} PCs differ: {difference}", path.display(), report.pcs_different);
        }
        self.cfi_bytes += cfi.iter().map(|section| section.bytes.len() as u64).sum::<u64>();
        self.table_bytes += converted.bytes.len() as u64;
        self.functions += converted.functions as u64;
        let left_out = converted.unsupported.len() + converted.malformed.len();
        self.converted += (converted.functions - left_out) as u64;
        self.malformed += converted.malformed.len() as u64;
        for unsupported in &converted.unsupported {
            *self.unsupported.entry(unsupported.reason.name()).or_default() += 1;
        }
        self.pcs += report.pcs;
        self.pcs_different += report.pcs_different;
        self.pcs_unjudged += report.pcs_unjudged;
        self.pcs_unjudged_in_table += report.pcs_unjudged_in_table;
        if report.pcs_unjudged_in_table != 0 {
            println!("{}: {} PCs in the table are unjudged", path.display(), report.pcs_unjudged_in_table);
        }
        Ok(())
    }

    fn plus(mut self, other: Self) -> Self {
        for (reason, count) in &other.unsupported {
            *self.unsupported.entry(reason).or_default() += count;
        }
        Self {
            files: self.files + other.files,
            without_cfi: self.without_cfi + other.without_cfi,
            unreadable: self.unreadable + other.unreadable,
            cfi_bytes: self.cfi_bytes + other.cfi_bytes,
            table_bytes: self.table_bytes + other.table_bytes,
            functions: self.functions + other.functions,
            converted: self.converted + other.converted,
            malformed: self.malformed + other.malformed,
            pcs: self.pcs + other.pcs,
            pcs_different: self.pcs_different + other.pcs_different,
            pcs_unjudged: self.pcs_unjudged + other.pcs_unjudged,
            pcs_unjudged_in_table: self.pcs_unjudged_in_table + other.pcs_unjudged_in_table,
            unsupported: self.unsupported,
        }
    }

    fn print(&self) {
        let without = format!("{} without CFI, {} unreadable", self.without_cfi, self.unreadable);
        println!("files           {:>12}  ({without})", self.files);
        println!("CFI             {:>12}  bytes; tables {} bytes", self.cfi_bytes, self.table_bytes);
        println!("functions       {:>12}", self.functions);
        println!("converted       {:>12}", self.converted);
        let left_out: u64 = self.unsupported.values().sum();
        println!("left out        {:>12}  ({} more are malformed)", left_out, self.malformed);
        for (reason, count) in &self.unsupported {
            println!("                {count:>12}  {reason}");
        }
        println!("PCs             {:>12}", self.pcs);
        println!("differing PCs   {:>12}", self.pcs_different);
        println!("unjudged PCs    {:>12}", self.pcs_unjudged);
        println!("  in the tables {:>12}", self.pcs_unjudged_in_table);
    }
}
