//! The command `cfi2sframe-ld`: a linker driver that puts a table into what another linker links.

use std::process::ExitCode;

fn main() -> ExitCode {
    cfi2sframe::ld::main()
}
