//! Draws plots and tables of what the benches measured.
//!
//! ```sh
//! cargo run --manifest-path tests/plots/Cargo.toml -- draw
//! cargo run --manifest-path tests/plots/Cargo.toml -- check    # compare what is drawn with the figures
//! ```
//!
//! `tests/plots/measure` stores figures in `tests/plots/figures/`, with their provenance. They give `docs/plots/*.svg`, and the
//! parts of `README.md` and `docs/facts.md` between marks.

mod bars;
mod figures;
mod landing;
mod lines;
mod pages;
mod plots;
mod style;
mod tables;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The pages that have parts of figures.
const PAGES: [&str; 2] = ["README.md", "docs/facts.md"];

const USAGE: &str = "usage: cfipack-plots draw | check";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let figures = root.join("tests/plots/figures");
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["draw"] => write(&root, &figures),
        ["check"] => check(&root, &figures),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Every file that follows from the figures, as it should be.
fn files(root: &Path, figures: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let all = figures::read(figures)?;
    let mut files = Vec::new();
    for (name, svg) in plots::draw(&all)? {
        files.push((root.join("docs/plots").join(name), svg));
    }
    let tables = tables::write(&all)?;
    for page in PAGES {
        let path = root.join(page);
        let text = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
        let text = pages::filled(&text, &tables).map_err(|error| format!("{page}: {error}"))?;
        files.push((path, text));
    }
    Ok(files)
}

fn write(root: &Path, figures: &Path) -> Result<(), String> {
    for (path, text) in files(root, figures)? {
        let name = path.file_name().unwrap_or_default().display();
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            println!("{name}: as it was");
            continue;
        }
        fs::write(&path, text).map_err(|error| format!("{name}: {error}"))?;
        println!("{name}: written");
    }
    Ok(())
}

fn check(root: &Path, figures: &Path) -> Result<(), String> {
    let files = files(root, figures)?;
    let differs =
        |(path, text): &&(PathBuf, String)| fs::read_to_string(path).map_or(true, |old| old != *text);
    let different: Vec<_> = files
        .iter()
        .filter(differs)
        .map(|(path, _)| path.file_name().unwrap_or_default().to_string_lossy())
        .collect();
    if different.is_empty() {
        println!("{} plots and pages are what the figures give", files.len());
        return Ok(());
    }
    Err(format!("not what the figures give: {}; `draw` writes them", different.join(", ")))
}
