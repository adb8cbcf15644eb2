//! Exit statuses, and errors as lines.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::escaped::Escaped;

/// How a verb ended; the greater of two is that of both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    /// Done.
    Done,
    /// Done, and something differs, is not covered, or fails the check that was asked for.
    Differs,
    /// Could not, which has been reported.
    Failed,
}

impl Status {
    /// Done, or differs.
    pub fn differs_if(differs: bool) -> Self {
        if differs { Self::Differs } else { Self::Done }
    }
}

/// The status of what was judged before it was written: it holds whether or not somebody reads on.
pub fn judged(status: Status, written: anyhow::Result<()>) -> anyhow::Result<Status> {
    match written {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(status),
    }
}

/// Ends the program. A reader of ours that has seen enough (`| head`) is no error.
pub fn exit(result: anyhow::Result<Status>) -> ExitCode {
    match result {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::Differs) => ExitCode::from(1),
        Ok(Status::Failed) => ExitCode::from(2),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report_error(&format_args!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Writes one line about what could not be done.
pub fn report_error(error: &dyn fmt::Display) {
    write(&error_line(error));
}

/// The line, for when nothing can be formatted any more.
pub fn error_line(error: &dyn fmt::Display) -> String {
    line("error", error)
}

/// Writes one line about what was done otherwise than may be expected.
pub fn warn(warning: &dyn fmt::Display) {
    write(&line("warning", warning));
}

fn line(kind: &str, text: &dyn fmt::Display) -> String {
    format!("cfi2sframe: {kind}: {}\n", Escaped(text))
}

/// Writes to standard error. If that fails there is nobody to tell: the exit status still does.
fn write(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Whether nobody reads our output any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let cause = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        cause == Some(io::ErrorKind::BrokenPipe)
    })
}
