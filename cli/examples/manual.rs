//! Writes the man pages and shell completions of the command, generated from its definition, to a directory.
//!
//! ```sh
//! cargo run -p cfi2sframe --example manual -- DIR
//! ```
//!
//! `DIR/man1` then holds `cfi2sframe.1` and a page for each verb, `DIR/completions` a file for each of bash,
//! elvish, fish, PowerShell and zsh.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use clap::ValueEnum as _;
use clap_complete::Shell;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [directory] = &arguments[..] else { return Err("usage: manual DIR".into()) };
    let [pages, completions] = ["man1", "completions"].map(|name| Path::new(directory).join(name));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(cfi2sframe::command(), &pages)?;
    for &shell in Shell::value_variants() {
        clap_complete::generate_to(shell, &mut cfi2sframe::command(), "cfi2sframe", &completions)?;
    }
    Ok(())
}
