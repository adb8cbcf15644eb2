//! Compares the CFI of every ELF file below directories with its code, in the command's two ways.
//!
//!     cargo run --release -p cfipack-tests --bin against-code -- hidden /usr/bin /usr/lib
//!     cargo run --release -p cfipack-tests --bin against-code -- lint /usr/bin /usr/lib
//!
//! `hidden` makes rows of the code as `--synthesize` does, without the CFI, and compares them with the CFI at every
//! instruction. `lint` judges the CFI. Both print a line for each file and for each function that differs or is
//! accused, then totals by architecture. Such functions are no failure: only wrong usage gives exit status 2.

mod totals;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cfipack_code::Text;
use cfipack_container::{File, Kind};
use cfipack_lint::WrongFunction;
use cfipack_tests::{elf_files, hidden};
use totals::Totals;

/// The way to treat a file.
#[derive(Clone, Copy)]
enum Way {
    Hidden,
    Lint,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let way = match arguments.first().and_then(|way| way.to_str()) {
        Some("hidden") => Way::Hidden,
        Some("lint") => Way::Lint,
        _ => {
            eprintln!("usage: against-code hidden|lint (DIRECTORY|FILE)...");
            return ExitCode::from(2);
        }
    };
    let paths: Vec<PathBuf> = arguments[1..].iter().map(PathBuf::from).collect();
    let files = elf_files::below(&paths);
    let next = AtomicUsize::new(0);
    let totals = Mutex::new(BTreeMap::<String, Totals>::new());
    let seen = Mutex::new(BTreeSet::new());
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Ok(bytes) = fs::read(path) else { continue };
            let Ok(file) = File::parse(&bytes) else { continue };
            // Packages contain copies of libraries, which count once.
            let is_new = || seen.lock().expect("no panic").insert(hash(&bytes));
            if file.kind() != Kind::Linked || !is_new() {
                continue;
            }
            match of_file(way, &file) {
                Ok(found) => {
                    let text = found.text(&path.display().to_string());
                    let mut totals = totals.lock().expect("no panic");
                    print!("{text}");
                    totals.entry(format!("{:?}", file.arch())).or_default().add(&found);
                }
                Err(error) => println!("{}: {error}", path.display()),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    for (arch, totals) in totals.into_inner().expect("no panic") {
        println!("\n{arch}\n{totals}");
        totals.figures(&arch);
    }
    ExitCode::SUCCESS
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn of_file(way: Way, file: &File<'_>) -> Result<Totals, cfipack_container::Error> {
    let mut totals = Totals { files: 1, ..Totals::default() };
    match way {
        Way::Hidden => {
            let hidden = hidden::hide(file)?;
            totals.functions = hidden.functions;
            totals.decided = hidden.decided;
            totals.instructions = hidden.instructions;
            totals.undecided = hidden.omitted;
            totals.examples = hidden.examples;
            let place = |(place, cfi, made)| format!("{place}\n    cfi  {cfi:?}\n    made {made:?}");
            totals.named = hidden.different.into_iter().map(place).collect();
        }
        Way::Lint => {
            let sections = file.call_frame_sections()?;
            let lint = cfipack_lint::lint(file, &sections, 1, &|_| true, &|_, _| {})?;
            let symbols = file.symbols()?;
            totals.functions = lint.decided + lint.undecided.values().sum::<u64>();
            totals.decided = lint.decided;
            totals.instructions = lint.instructions;
            totals.undecided = lint.undecided;
            totals.examples = lint.examples;
            let place = |function: &WrongFunction| {
                let symbol = symbols.lookup(function.start);
                let name = symbol.map(|symbol| symbol.name.to_string()).unwrap_or_default();
                let found = function.findings.iter().map(|found| {
                    let (Text::Plain(text) | Text::Branch(text, _)) = &found.text;
                    let (kind, words) = (found.finding.kind.name(), &found.finding.words);
                    format!("\n    {} {text}; {}: {kind}: {words}", found.pc, found.cfa)
                });
                format!("{} {name}{}", function.start, found.collect::<String>())
            };
            totals.named = lint.functions.iter().map(place).collect();
        }
    }
    totals.number_named = totals.named.len() as u64;
    Ok(totals)
}
