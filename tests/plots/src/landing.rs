//! The few figures that a reader sees first: in `README.md`, and in `docs/facts.md` above the sizes of files.

use crate::figures::{All, CFI, Figure, Measured, figures_of};
use crate::lines::grouped;
use crate::plots::{PAIRS, times};
use crate::tables::Table;

/// The benches whose figures the table has.
pub const NEEDS: &[&str] = &["files", "sweep", "peers", "linker", "profile", "ratios"];

/// Files with at least so many bytes of CFI are large.
const LARGE: f64 = 1e6;

/// Percent that layout `small` has of the bytes of layout `gnu`, for the functions that both have.
pub fn share(files: &Measured, subject: &str) -> Result<f64, String> {
    files.find(subject, "small, same functions", "gnu").map(|figure| 100.0 / figure.times_less())
}

/// Several files' shares: how many files, the middle share, and both ends.
struct Shares {
    files: usize,
    median: f64,
    least: f64,
    most: f64,
}

impl Shares {
    fn summarize(mut shares: Vec<f64>) -> Result<Self, String> {
        shares.sort_by(f64::total_cmp);
        let [least, .., most] = shares[..] else { return Err("fewer than two files of a size".into()) };
        let upper = shares.len() / 2;
        let lower = (shares.len() - 1) / 2;
        Ok(Self { files: shares.len(), median: (shares[lower] + shares[upper]) / 2.0, least, most })
    }

    fn text(&self) -> String {
        format!("median {:.0} %, from {:.0} to {:.0} %", self.median, self.least, self.most)
    }
}

/// The shares of the large files, and of the others.
fn by_size(files: &Measured) -> Result<[Shares; 2], String> {
    let (mut large, mut others) = (Vec::new(), Vec::new());
    for subject in files.subjects() {
        let cfi = files.find(subject, "small", CFI)?.yardstick.as_ref().map_or(0.0, |cfi| cfi.value);
        let group = if cfi >= LARGE { &mut large } else { &mut others };
        group.push(share(files, subject)?);
    }
    Ok([Shares::summarize(large)?, Shares::summarize(others)?])
}

/// Both as a sentence.
pub fn shares(files: &Measured) -> Result<String, String> {
    let [large, others] = by_size(files)?;
    let (count, other) = (large.files, others.files);
    Ok(format!(
        "Of the same functions, layout `small` has these shares of the bytes of layout `gnu`: {} in {count} programs and \
         libraries with at least 1 MB of CFI, all of them C++ or Rust; {} in {other} smaller ones, most of them C.\n",
        large.text(),
        others.text(),
    ))
}

/// README's table.
pub fn table(all: &All) -> Result<String, String> {
    let [large, others] = by_size(figures_of(all, "files")?)?;
    let sweep = figures_of(all, "sweep")?;
    let swept = |name| sweep.value("Amd64", name).ok_or_else(|| format!("no figure of the sweep: {name}"));
    let mut table = Table::new(&["", "measured"]);
    let mut row = |name: String, value: String| table.row([name, value]);
    row(
        format!(
            "bytes of `small`, of those of `gnu`, same functions: {} files with 1 MB of CFI or more",
            large.files
        ),
        large.text(),
    );
    row(format!("the same: {} smaller files, most of them C", others.files), others.text());
    row(
        format!("PCs that differ from the CFI, of the {} of a whole system", grouped(swept("PCs compared")?)),
        grouped(swept("PCs that differ")?),
    );
    for (name, is_it) in TIMES {
        let pair = PAIRS.iter().find(|pair| is_it(pair.bench, pair.figure, pair.yardstick));
        let figure: &Figure = pair.ok_or_else(|| format!("no pair: {name}"))?.measured(all)?;
        row(name.into(), format!("{} as fast", times(figure.times_less())));
    }
    Ok(table.into_text())
}

/// Which of the speeds the table has.
type Time = (&'static str, fn(&str, &str, &str) -> bool);

const TIMES: [Time; 6] = [
    ("make a table from an object's CFI, vs gas `--gsframe`", |bench, _, other| {
        bench == "peers" && other == "gas"
    }),
    ("merge tables of 10 objects, layout `gnu`, vs GNU `ld`", |bench, _, other| {
        bench == "linker" && other == "ld"
    }),
    ("convert `librustc_driver`, vs gimli's walk over its rows", |_, figure, other| {
        figure == "convert, small, fresh output" && other == "gimli"
    }),
    ("verify it, vs the same walk", |_, figure, _| figure == "verify"),
    ("unwind a recorded frame without a cache, vs framehop without its cache", |bench, _, other| {
        bench == "profile" && other == "framehop, uncached"
    }),
    ("unwind it with a cache, vs framehop with its cache, all PCs in both", |bench, _, other| {
        bench == "profile" && other == "framehop, all"
    }),
];
