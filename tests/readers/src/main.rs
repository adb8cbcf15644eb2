//! Runs a reader of CFI that is a crate.
//!
//!     reader-crates gimli FILE OFFSET SIZE ADDRESS PC MACHINE     prints the row of an address
//!     reader-crates framehop FILE PID RBP SECTION...              walks a stopped process, and prints its frames' addresses
//!     reader-crates symbolic FILE                                 prints the rows of a file, as Breakpad writes them

mod framehop_walk;
mod gimli_row;
mod symbolic_rows;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let printed = match words[0].as_str() {
        "gimli" => gimli_row::run(&words[1..]),
        "framehop" => framehop_walk::run(&words[1..]),
        _ => symbolic_rows::run(&words[1..]),
    };
    match printed {
        Ok(text) => println!("{text}"),
        Err(text) => {
            println!("{text}");
            std::process::exit(1);
        }
    }
}
