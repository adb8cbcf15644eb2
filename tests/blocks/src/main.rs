//! Runs the blocks of code in the documents as readers would, each page in a terminal of its own. It compares the shown
//! outputs with the real ones. `.ci/blocks` prepares everything.
//!
//!     cfipack-blocks ROOT WORK [--update] [PAGE...]    all documents of the source tree ROOT, or these

mod check;
mod compare;
mod listing;
mod page;
mod pictures;
mod session;
mod summary;
mod surroundings;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use check::Verdict;
use page::Page;
use summary::Summary;
use surroundings::Tree;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        [root, work, "--update", ref pages @ ..] => run(Path::new(root), Path::new(work), true, pages),
        [root, work, ref pages @ ..] => run(Path::new(root), Path::new(work), false, pages),
        _ => Err("usage: cfipack-blocks ROOT WORK [--update] [PAGE...]".into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn read(root: &Path, page: &str) -> Result<Page, String> {
    let text = fs::read_to_string(root.join(page)).map_err(|error| format!("{page}: {error}"))?;
    Page::parse(page, text)
}

fn run(root: &Path, work: &Path, update: bool, pages: &[&str]) -> Result<bool, String> {
    let tree = Tree::new(root, work)?;
    let mut summary = Summary::default();
    let all: Vec<_> = tree.documents();
    let chosen = all.iter().filter(|page| pages.is_empty() || pages.contains(&page.as_str()));
    if let Some(unknown) = pages.iter().find(|page| !all.iter().any(|it| it == *page)) {
        return Err(format!("{unknown}: no document of the source tree"));
    }
    for path in chosen {
        let page = read(root, path)?;
        if page.blocks.is_empty() {
            continue;
        }
        let start = Instant::now();
        let report = check::check(&page, &tree.session(&page)?, &tree)?;
        println!("    {path}: {} blocks, {:.1} s", page.blocks.len(), start.elapsed().as_secs_f64());
        if update && report.updated != page.text {
            fs::write(root.join(path), &report.updated).map_err(|error| format!("{path}: {error}"))?;
            println!("    {path}: updated");
        }
        for (block, verdict) in page.blocks.iter().zip(report.verdicts) {
            if let Verdict::Failed(why) = &verdict {
                println!("\n{path}:{}: {}\n", block.line, why.trim_end());
            }
            summary.add(format!("{path}:{}", block.line), verdict);
        }
    }
    if pages.is_empty() {
        summary.pictures = pictures::check(&root.join("docs/formats"))?;
    }
    let not_tested: String =
        summary.not_tested.iter().map(|(place, what)| format!("{place}: {what}\n")).collect();
    fs::write(work.join("not-tested"), not_tested).map_err(|error| format!("not-tested: {error}"))?;
    print!("{summary}");
    Ok(summary.failed.is_empty())
}
