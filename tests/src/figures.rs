//! Records figures of the benches for programs. A bench prints for people, and appends the same figures to the file
//! that `CFIPACK_FIGURES` names. `tests/plots` draws them.
//!
//! A line has six fields, separated by tabs: subject, figure, value, unit, yardstick, and the yardstick's value in the
//! same unit. The last two are empty unless both were measured by turns in one process.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

/// Records a number of bytes, PCs, functions or instructions.
pub fn number(subject: &str, figure: &str, value: impl Display, unit: &str) {
    line(&[subject, figure, &value.to_string(), unit, "", ""]);
}

/// Records the time of one of `count` equal pieces of work, beside that of a yardstick.
pub fn times(subject: &str, figure: &str, time: Duration, yardstick: &str, its_time: Duration, count: usize) {
    let each = |time: Duration| time.as_secs_f64() * 1e9 / count as f64;
    nanoseconds(subject, figure, each(time), yardstick, each(its_time));
}

/// Records a figure that is already in nanoseconds.
pub fn nanoseconds(subject: &str, figure: &str, value: f64, yardstick: &str, its_value: f64) {
    compared(subject, figure, value, "ns", yardstick, its_value);
}

/// Records a value beside that of a yardstick, in one unit.
pub fn compared(subject: &str, figure: &str, value: f64, unit: &str, yardstick: &str, its_value: f64) {
    line(&[subject, figure, &format!("{value:.2}"), unit, yardstick, &format!("{its_value:.2}")]);
}

fn line(fields: &[&str; 6]) {
    let Some(path) = env::var_os("CFIPACK_FIGURES") else { return };
    let line = fields.map(|field| field.replace(['\t', '\n'], " ")).join("\t") + "\n";
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("CFIPACK_FIGURES: {}: {error}", path.display()));
}
