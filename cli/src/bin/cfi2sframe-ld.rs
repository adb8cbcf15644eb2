//! The command `cfi2sframe-ld`: runs a linker, and puts a table into the linked file.

use std::process::ExitCode;

fn main() -> ExitCode {
    cfi2sframe::ld::main()
}
