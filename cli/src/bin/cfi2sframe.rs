//! The command `cfi2sframe`. Its code is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    cfi2sframe::main()
}
