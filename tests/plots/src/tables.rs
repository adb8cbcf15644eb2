//! The tables of pages.

use std::collections::BTreeMap;

use crate::figures::{All, CFI, Figure, Measured, figures_of, missing};
use crate::landing;
use crate::lines::grouped;
use crate::plots::{duration, kilobytes, times};

/// A part of a page: its name, the benches whose figures it has, and how it is written.
type Part = (&'static str, &'static [&'static str], fn(&All) -> Result<String, String>);

const TIMED: &[&str] = &[
    "peers",
    "ratios",
    "code",
    "profile",
    "linker",
    "capi",
    "scaling",
    "unwind_info_lookup",
    "unwind_info_build",
    "compact_unwind_encode",
    "counted",
];

const PARTS: [Part; 16] = [
    ("landing", landing::NEEDS, landing::table),
    ("shares", &["files"], |all| landing::shares(figures_of(all, "files")?)),
    ("disturbed", &[], |all| Ok(disturbed(all))),
    ("sweep", &["sweep"], sweep),
    ("hidden-cfi", &["hidden-cfi"], |all| {
        against_code(figures_of(all, "hidden-cfi")?, "functions that differ", None)
    }),
    ("lint", &["lint"], |all| {
        against_code(figures_of(all, "lint")?, "functions with findings", Some("in 10 000 decided"))
    }),
    ("code", &["code"], |all| code(figures_of(all, "code")?)),
    ("identical", &["images"], |all| identical(figures_of(all, "images")?)),
    ("sizes", &["files"], |all| sizes(figures_of(all, "files")?)),
    ("ratios", &["ratios"], |all| ratios(figures_of(all, "ratios")?)),
    ("unwind-info", APPLE, unwind_info),
    ("frames", &["profile"], |all| frames(figures_of(all, "profile")?)),
    ("linker", &["linker"], |all| linker(figures_of(all, "linker")?)),
    ("instructions", &["counted"], |all| instructions(figures_of(all, "counted")?)),
    ("processes", &["counted"], |all| processes(figures_of(all, "counted")?)),
    ("c-interface", &["capi"], |all| c_interface(figures_of(all, "capi")?)),
];

const APPLE: &[&str] = &["unwind_info_lookup", "compact_unwind_encode", "unwind_info_build"];

/// The parts of pages, by name. What has not been measured is named in its place.
pub fn write(all: &All) -> Result<BTreeMap<&'static str, String>, String> {
    let mut parts = BTreeMap::new();
    for (name, needs, write) in PARTS {
        let missing = missing(all, needs);
        let text = if missing.is_empty() {
            write(all)?
        } else {
            format!("Not measured: `{}`.", missing.join("`, `"))
        };
        parts.insert(name, text);
    }
    Ok(parts)
}

/// A table of Markdown.
pub struct Table(String);

impl Table {
    pub fn new(head: &[&str]) -> Self {
        let mut table = Self(String::new());
        table.row(head.iter().map(|&cell| cell.to_owned()));
        let rule = (0..head.len()).map(|column| if column == 0 { "---".into() } else { "---:".to_owned() });
        table.row(rule);
        table
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        self.0 += &format!("| {} |\n", cells.join(" | "));
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

/// What the sweeps found, a column for each architecture.
fn sweep(all: &All) -> Result<String, String> {
    let mut columns: Vec<(&str, &Measured)> = Vec::new();
    for group in ["sweep", "sweep-foreign"] {
        let Some(measured) = all.get(group) else { continue };
        let subjects = measured.subjects().into_iter();
        columns.extend(
            subjects
                .filter(|arch| measured.value(arch, "PCs compared").is_some())
                .map(|arch| (arch, measured)),
        );
    }
    columns.retain(|(arch, _)| group_of(arch).is_some());
    columns.sort_by_key(|(arch, _)| group_of(arch));
    columns.dedup_by_key(|(arch, _)| group_of(arch));
    let mut head = vec![""];
    head.extend(columns.iter().map(|(arch, _)| group_of(arch).unwrap_or_default().1));
    let mut table = Table::new(&head);
    let mut names: Vec<String> =
        ["files", "files without CFI", "functions", "functions in tables"].map(String::from).to_vec();
    let mut omitted: Vec<String> = Vec::new();
    for figure in columns
        .iter()
        .flat_map(|(arch, measured)| measured.figures.iter().filter(move |figure| figure.subject == *arch))
    {
        if figure.name.starts_with("omitted: ") && !omitted.contains(&figure.name) {
            omitted.push(figure.name.clone());
        }
    }
    omitted.sort();
    names.extend(omitted);
    names.extend(
        [
            "functions whose CFI DWARF does not define",
            "those of them in tables",
            "functions missing without a reason",
            "PCs compared",
            "PCs of omitted functions",
            "PCs that gimli cannot judge",
            "PCs that differ",
        ]
        .map(String::from),
    );
    for name in names {
        let cells =
            columns.iter().map(|(arch, measured)| grouped(measured.value(arch, &name).unwrap_or(0.0)));
        let bold = |cell: String| if name == "PCs that differ" { format!("**{cell}**") } else { cell };
        table.row([bold(named(&name))].into_iter().chain(cells.map(bold)));
    }
    Ok(table.0)
}

/// What following code found, a column for each architecture.
fn against_code(measured: &Measured, named: &str, share: Option<&str>) -> Result<String, String> {
    let subjects = measured.subjects().into_iter();
    let mut columns: Vec<_> = subjects
        .filter(|arch| measured.value(arch, "functions decided").is_some_and(|decided| decided > 0.0))
        .filter_map(|arch| Some((group_of(arch)?, arch)))
        .collect();
    columns.sort();
    let mut head = vec![""];
    head.extend(columns.iter().map(|((_, name), _)| *name));
    let mut table = Table::new(&head);
    let mut row = |name: &str, cell: &dyn Fn(&str) -> String| {
        table.row([name.to_owned()].into_iter().chain(columns.iter().map(|(_, arch)| cell(arch))));
    };
    let value = |arch: &str, name: &str| measured.value(arch, name).unwrap_or(0.0);
    for name in ["files", "functions", "functions decided"] {
        row(name, &|arch| grouped(value(arch, name)));
    }
    row("of all", &|arch| {
        format!("{:.1} %", 100.0 * value(arch, "functions decided") / value(arch, "functions"))
    });
    row("instructions compared", &|arch| grouped(value(arch, "instructions compared")));
    row(named, &|arch| grouped(value(arch, "functions named")));
    if let Some(share) = share {
        row(share, &|arch| {
            format!("{:.1}", 10_000.0 * value(arch, "functions named") / value(arch, "functions decided"))
        });
    }
    Ok(table.0)
}

/// How many times as long as their yardstick what follows code takes.
fn code(code: &Measured) -> Result<String, String> {
    let subjects = code.subjects();
    let head: Vec<_> = ["", "compared with"].into_iter().chain(subjects.iter().copied()).collect();
    let mut table = Table::new(&head);
    let first = subjects.first().ok_or("no library was measured")?;
    for figure in code.figures.iter().filter(|figure| figure.subject == *first) {
        let yardstick = figure.yardstick.as_ref().map_or("", |yardstick| &yardstick.name);
        let mut cells = vec![figure.name.clone(), yardstick.to_owned()];
        for subject in &subjects {
            let longer = 1.0 / code.find(subject, &figure.name, yardstick)?.times_less();
            cells.push(format!("{longer:.0} times as long"));
        }
        table.row(cells);
    }
    Ok(table.0)
}

/// Where the column of an architecture stands, and its name.
fn group_of(arch: &str) -> Option<(u8, &'static str)> {
    match arch {
        "Amd64" => Some((0, "x86-64")),
        "Aarch64" => Some((1, "arm64")),
        "S390x" => Some((2, "s390x")),
        _ => None,
    }
}

/// A reason as code.
fn named(name: &str) -> String {
    match name.split_once(": ") {
        Some((what, reason)) => format!("{what}: `{reason}`"),
        None => name.into(),
    }
}

fn identical(images: &Measured) -> Result<String, String> {
    let mut table = Table::new(&["`__unwind_info` built from the entries of real images", "images"]);
    for figure in images.figures.iter().filter(|figure| figure.subject == "all images") {
        table.row([named(&figure.name), grouped(figure.value)]);
    }
    Ok(table.0)
}

fn sizes(files: &Measured) -> Result<String, String> {
    let mut table = Table::new(&[
        "file",
        "functions",
        "CFI",
        "`gnu`",
        "omitted",
        "`small`",
        "omitted",
        "`small` of `gnu`, same functions",
    ]);
    for subject in files.subjects() {
        let of = |layout| files.find(subject, layout, CFI);
        let (small, gnu) = (of("small")?, of("gnu")?);
        let cfi = small.yardstick.as_ref().map_or(0.0, |cfi| cfi.value);
        let omitted = |layout: &str| {
            let start = format!("omitted, {layout}: ");
            let reasons = files
                .figures
                .iter()
                .filter(|figure| figure.subject == subject && figure.name.starts_with(&start));
            // The sum of none is -0.
            grouped(reasons.map(|figure| figure.value).sum::<f64>() + 0.0)
        };
        table.row([
            format!("`{subject}`"),
            grouped(files.value(subject, "functions").unwrap_or(0.0)),
            kilobytes(cfi),
            kilobytes(gnu.value),
            omitted("gnu"),
            kilobytes(small.value),
            omitted("small"),
            format!("{:.1} %", landing::share(files, subject)?),
        ]);
    }
    Ok(table.0)
}

/// Both times of a figure, and how much less the first is.
fn pair(table: &mut Table, name: String, figure: &Figure) {
    let yardstick = figure.yardstick.as_ref();
    let its = yardstick.map_or(0.0, |yardstick| yardstick.value);
    table.row([name, duration(figure.value), duration(its), times(figure.times_less())]);
}

/// Whether the figure is a time that readers of the page know. The file of the bench also has ways within a conversion.
fn is_shown(figure: &Figure) -> bool {
    const INTERNAL: [&str; 3] = ["batches", "direct runs", "general path"];
    figure.unit == "ns" && !INTERNAL.iter().any(|name| figure.name.starts_with(*name))
}

fn ratios(ratios: &Measured) -> Result<String, String> {
    let subjects = ratios.subjects();
    let head: Vec<_> = ["", "compared with"].into_iter().chain(subjects.iter().copied()).collect();
    let mut table = Table::new(&head);
    let first = subjects.first().ok_or("no library was measured")?;
    for figure in ratios.figures.iter().filter(|figure| figure.subject == *first && is_shown(figure)) {
        let yardstick = figure.yardstick.as_ref().map_or("", |yardstick| &yardstick.name);
        let mut cells = vec![figure.name.clone(), yardstick.to_owned()];
        for subject in &subjects {
            cells.push(times(ratios.find(subject, &figure.name, yardstick)?.times_less()));
        }
        table.row(cells);
    }
    Ok(table.0)
}

/// Work on Apple's tables. Each layout was measured with several shares of functions in DWARF mode: a row has the range.
fn unwind_info(all: &All) -> Result<String, String> {
    let mut table = Table::new(&["", "cfipack", "the other", "times as fast"]);
    for group in APPLE {
        let mut rows: Vec<(String, Vec<&Figure>)> = Vec::new();
        for figure in &figures_of(all, group)?.figures {
            let Some(yardstick) = &figure.yardstick else { continue };
            // Without the share: the subject is, for example, "Lld, 5 of 1000 functions in DWARF mode".
            let layout = figure.subject.split(", ").next().unwrap_or_default();
            let name = format!("{}, {layout} vs {}", figure.name, yardstick.name);
            if let Some((_, figures)) = rows.iter_mut().find(|(other, _)| *other == name) {
                figures.push(figure);
            } else {
                rows.push((name, vec![figure]));
            }
        }
        for (name, figures) in rows {
            table.row([
                name,
                range(&figures, |figure| figure.value, duration),
                range(
                    &figures,
                    |figure| figure.yardstick.as_ref().map_or(0.0, |yardstick| yardstick.value),
                    duration,
                ),
                range(&figures, Figure::times_less, times),
            ]);
        }
    }
    Ok(table.0)
}

/// The least and the greatest value of figures, or the one text of both.
fn range(figures: &[&Figure], value: fn(&Figure) -> f64, written: fn(f64) -> String) -> String {
    let values: Vec<f64> = figures.iter().map(|figure| value(figure)).collect();
    let least = written(values.iter().copied().fold(f64::INFINITY, f64::min));
    let greatest = written(values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    if least == greatest { least } else { format!("{least} to {greatest}") }
}

fn linker(linker: &Measured) -> Result<String, String> {
    let mut table = Table::new(&["a linker's work vs the other", "cfipack", "the other", "times as fast"]);
    for figure in linker.figures.iter().filter(|figure| figure.unit == "ns") {
        let yardstick = figure.yardstick.as_ref().map_or("", |yardstick| &yardstick.name);
        pair(&mut table, format!("{}, {} vs {yardstick}", figure.subject, figure.name), figure);
    }
    Ok(table.0)
}

/// The time of a frame with and without a cache, by table and by framehop.
fn frames(profile: &Measured) -> Result<String, String> {
    const TABLE: &str = "a frame by table";
    const CACHED: &str = "a frame by table, all in its cache";
    const MISSED: &str = "a frame by table, none in its cache";
    let mut table = Table::new(&[
        "ns a frame",
        "table, no cache",
        "table, all in the cache",
        "table, none in the cache",
        "framehop, all in its cache",
        "framehop, none in its cache",
    ]);
    for subject in profile.subjects() {
        let ours = |name| profile.find(subject, name, "").map(|figure| figure.value);
        let others = |way| profile.find(subject, TABLE, way).map(|figure| figure.value * figure.times_less());
        let times = [ours(TABLE)?, ours(CACHED)?, ours(MISSED)?, others("framehop, all")?, others("framehop, un")?];
        table.row([subject.to_owned()].into_iter().chain(times.map(|time| format!("{time:.1}"))));
    }
    Ok(table.0)
}

/// Which times are not those of an idle machine.
fn disturbed(all: &All) -> String {
    let is_disturbed = |bench: &&&str| all.get(**bench).is_some_and(Measured::is_disturbed);
    let benches: Vec<_> = TIMED.iter().filter(is_disturbed).map(|bench| format!("`{bench}`")).collect();
    if benches.is_empty() {
        return "All times are those of an idle machine.".into();
    }
    format!(
        "**The machine was busy with other work** when these benches ran, and their ratios are not those of an idle one: {}.",
        benches.join(", ")
    )
}

/// The yardstick of calls of the libraries, among the counted jobs.
const GIMLI: &str = "gimli walks all rows";

/// What conversion and verification take of the processor, however busy it is: calls of the libraries, whose memory is not
/// counted.
fn instructions(counted: &Measured) -> Result<String, String> {
    let mut table = Table::new(&["instructions, millions", "cfipack", GIMLI, "times as few"]);
    let of = |job| counted.value(job, "instructions").ok_or_else(|| format!("no counted job: {job}"));
    let is_call = |job: &&str| counted.value(job, MEMORY).is_none();
    let walks_all = |job: &&str| job.starts_with("convert") || job.starts_with("verify");
    for job in counted.subjects().into_iter().filter(|job| is_call(job) && walks_all(job)) {
        let (value, its) = (of(job)?, of(GIMLI)?);
        table.row([job.into(), millions(value), millions(its), format!("{:.2}", its / value)]);
    }
    Ok(table.0)
}

const MEMORY: &str = "peak memory";

fn millions(count: f64) -> String {
    format!("{:.1}", count / 1e6)
}

/// What whole processes take.
fn processes(counted: &Measured) -> Result<String, String> {
    let mut table = Table::new(&["the command", "instructions, millions", "memory", "page faults"]);
    for job in counted.subjects() {
        let Some(memory) = counted.value(job, MEMORY) else { continue };
        let instructions = counted.value(job, "instructions").map_or("not counted".into(), millions);
        let faults = counted.value(job, "page faults").ok_or_else(|| format!("{job}: no page faults"))?;
        // The kernel counts in units of 1024 bytes.
        table.row([job.into(), instructions, kilobytes(memory * 1024.0), grouped(faults)]);
    }
    Ok(table.0)
}

/// What a call costs more than in Rust.
fn c_interface(capi: &Measured) -> Result<String, String> {
    let subjects = capi.subjects();
    let head: Vec<_> = ["in C vs in Rust"].into_iter().chain(subjects.iter().copied()).collect();
    let mut table = Table::new(&head);
    let first = subjects.first().ok_or("no library was measured")?;
    for call in capi.figures.iter().filter(|figure| figure.subject == *first) {
        let mut cells = vec![call.name.clone()];
        for subject in &subjects {
            let figure = capi.find(subject, &call.name, "")?;
            let rust = figure.yardstick.as_ref().ok_or("a figure without Rust's")?.value;
            let ratio = figure.value / rust;
            cells.push(format!("{} vs {}: {ratio:.2} ×", duration(figure.value), duration(rust)));
        }
        table.row(cells);
    }
    Ok(table.0)
}
