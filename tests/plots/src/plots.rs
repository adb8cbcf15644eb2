//! Which figures each plot shows.

use crate::bars::{Bar, Bars, Group};
use crate::figures::{All, CFI, Figure, Measured, figures_of, missing};
use crate::lines::{Curve, Lines};
use crate::style::{BLUE, GREEN, GREY, LIGHT_BLUE, ORANGE};

/// A plot: the name of its file, the benches whose figures it shows, and how it is drawn.
type Plot = (&'static str, &'static [&'static str], fn(&All) -> Result<String, String>);

const PLOTS: [Plot; 6] = [
    ("size.svg", &["files"], |all| size(figures_of(all, "files")?)),
    ("unwind-info-size.svg", &["images"], |all| unwind_info_size(figures_of(all, "images")?)),
    ("speed.svg", &["peers", "linker", "profile", "ratios", "unwind_info_lookup"], speed),
    ("frames.svg", &["profile"], |all| frames(figures_of(all, "profile")?)),
    ("scaling.svg", &["scaling"], |all| scaling(figures_of(all, "scaling")?)),
    ("memory.svg", &["scaling"], |all| memory(figures_of(all, "scaling")?)),
];

/// Every plot of what has been measured: the file's name and its contents.
pub fn draw(all: &All) -> Result<Vec<(&'static str, String)>, String> {
    let measured = PLOTS.iter().filter(|(name, needs, _)| {
        let missing = missing(all, needs);
        if !missing.is_empty() {
            println!("{name}: not drawn; not measured: {}", missing.join(", "));
        }
        missing.is_empty()
    });
    measured.map(|(name, _, draw)| Ok((*name, draw(all)?))).collect()
}

/// What it is of its yardstick.
fn percent(figure: &Figure) -> f64 {
    100.0 / figure.times_less()
}

/// The title, with a note if the machine was busy with other work.
fn titled<'a>(title: &str, measured: impl IntoIterator<Item = &'a Measured>) -> String {
    let is_disturbed = measured.into_iter().any(Measured::is_disturbed);
    if is_disturbed { format!("{title} (on a busy machine)") } else { title.into() }
}

fn longest(groups: &[Group]) -> f64 {
    groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(0.0, f64::max)
}

fn size(files: &Measured) -> Result<String, String> {
    let bar = |subject: &str, layout: &str, colour| -> Result<Bar, String> {
        let figure = files.find(subject, layout, CFI)?;
        let share = percent(figure);
        Ok(Bar { value: share, text: format!("{share:.0} %, {}", kilobytes(figure.value)), colour })
    };
    let group = |subject: &&str| -> Result<Group, String> {
        let bars = vec![bar(subject, "small", BLUE)?, bar(subject, "gnu", GREY)?];
        let cfi = files.find(subject, "small", CFI)?.yardstick.as_ref().map_or(0.0, |cfi| cfi.value);
        Ok(Group { name: format!("{subject}: CFI of {}", kilobytes(cfi)), bars })
    };
    let groups: Vec<Group> = files.subjects().iter().map(group).collect::<Result<_, _>>()?;
    let plot = Bars {
        title: "Size of .sframe, compared with the CFI",
        axis: "bytes, in % of .eh_frame and .eh_frame_hdr",
        legend: &[("layout small", BLUE), ("layout gnu, as gas writes it", GREY)],
        origin: 0.0,
        range: 0.0..1.35 * longest(&groups),
        is_log: false,
        format: |percent| format!("{percent:.0} %"),
        groups,
    };
    plot.draw()
}

/// The largest tables, each with what layouts make of its entries.
fn unwind_info_size(images: &Measured) -> Result<String, String> {
    const SHOWN: usize = 8;
    let file = "in the image";
    let in_image = |subject: &str| {
        let figure = images.find(subject, "small", file)?;
        Ok::<_, String>(figure.yardstick.as_ref().map_or(0.0, |yardstick| yardstick.value))
    };
    let is_one = |subject: &&str| *subject != "all images";
    let sized = |subject| Ok((in_image(subject)?, subject));
    let mut subjects =
        images.subjects().into_iter().filter(is_one).map(sized).collect::<Result<Vec<_>, String>>()?;
    subjects.sort_by(|a, b| b.0.total_cmp(&a.0));
    subjects.truncate(SHOWN);
    let layouts = [("small", BLUE), ("ld-prime", LIGHT_BLUE), ("ld64", GREY), ("lld", ORANGE)];
    let group = |&(bytes, subject): &(f64, &str)| -> Result<Group, String> {
        let bar = |&(layout, colour): &(&str, _)| -> Result<Bar, String> {
            let figure = images.find(subject, layout, file)?;
            let share = percent(figure);
            Ok(Bar { value: share, text: format!("{share:.1} %, {}", kilobytes(figure.value)), colour })
        };
        let bars = layouts.iter().map(bar).collect::<Result<_, _>>()?;
        Ok(Group { name: format!("{subject}: {} in the image", kilobytes(bytes)), bars })
    };
    let groups: Vec<Group> = subjects.iter().map(group).collect::<Result<_, _>>()?;
    let plot = Bars {
        title: "Size of __unwind_info by layout",
        axis: "bytes, in % of the table in the image",
        legend: &layouts.map(|(layout, colour)| (layout, colour)),
        origin: 0.0,
        range: 0.0..1.35 * longest(&groups),
        is_log: false,
        format: |percent| format!("{percent:.0} %"),
        groups,
    };
    plot.draw()
}

/// Work of one kind: its name for readers, and where its figure is.
pub struct Pair {
    pub name: &'static str,
    pub bench: &'static str,
    pub subject: &'static str,
    pub figure: &'static str,
    pub yardstick: &'static str,
}

impl Pair {
    /// Its figure; of several subjects the median.
    pub fn measured<'a>(&self, all: &'a All) -> Result<&'a Figure, String> {
        let bench = figures_of(all, self.bench)?;
        match self.subject {
            MEDIAN => bench.median(self.figure, self.yardstick),
            subject => bench.find(subject, self.figure, self.yardstick),
        }
    }
}

/// The subject of a pair that has several: the one with the median ratio.
const MEDIAN: &str = "";

const fn pair(name: &'static str, [bench, subject, figure, yardstick]: [&'static str; 4]) -> Pair {
    Pair { name, bench, subject, figure, yardstick }
}

const RUSTC: &str = "librustc_driver";

/// From what other tools do for the same result to what is the limit of the machine.
pub const PAIRS: [Pair; 14] = [
    pair(
        "make a table from an object's CFI vs gas --gsframe",
        ["peers", "functions of an object", "small, from CFI", "gas"],
    ),
    pair(
        "make a table from an object's CFI vs llvm-mc --gsframe",
        ["peers", "functions of an object", "small, from CFI", "llvm-mc"],
    ),
    pair(
        "convert a library, whole process vs llvm-dwarfdump --eh-frame",
        ["peers", RUSTC, "cfi2sframe, whole process", "llvm-dwarfdump"],
    ),
    pair(
        "convert a library, whole process vs readelf -wF",
        ["peers", RUSTC, "cfi2sframe, whole process", "readelf"],
    ),
    pair(
        "merge tables of 10 objects, layout gnu vs ld",
        ["linker", "functions of 10 objects", "merge, gnu", "ld"],
    ),
    pair("unwind programs, a frame vs gimli", ["profile", MEDIAN, "a frame by table", "gimli"]),
    pair(
        "unwind programs, a frame vs framehop without cache",
        ["profile", MEDIAN, "a frame by table", "framehop, uncached"],
    ),
    pair("look up a PC and its row vs gimli by .eh_frame_hdr", ["ratios", RUSTC, "lookup in place", "gimli"]),
    pair(
        "convert a library vs gimli walks its rows",
        ["ratios", RUSTC, "convert, small, fresh output", "gimli"],
    ),
    pair(
        "look up in __unwind_info vs macho-unwind-info",
        ["unwind_info_lookup", "Lld, 5 of 1000 functions in DWARF mode", "lookup", "macho"],
    ),
    pair(
        "convert, layout gnu vs gimli walks its rows",
        ["ratios", RUSTC, "convert, gnu, fresh output", "gimli"],
    ),
    pair(
        "unwind programs, a frame, all in a cache, vs framehop, all in its cache",
        ["profile", MEDIAN, "a frame by table, all in its cache", "framehop, all"],
    ),
    pair(
        "look up with the index vs binary search over u32",
        ["ratios", RUSTC, "lookup with index", "binary"],
    ),
    pair("verify a library vs gimli walks its rows", ["ratios", RUSTC, "verify", "gimli"]),
];

fn speed(all: &All) -> Result<String, String> {
    let group = |pair: &Pair| -> Result<Group, String> {
        let figure = pair.measured(all)?;
        let ratio = figure.times_less();
        let colour = if ratio >= 1.0 { BLUE } else { ORANGE };
        let bar = Bar { value: ratio, text: format!("{}: {}", times(ratio), pieces(figure)), colour };
        Ok(Group { name: pair.name.into(), bars: vec![bar] })
    };
    let groups: Vec<Group> = PAIRS.iter().map(group).collect::<Result<_, _>>()?;
    let measured = PAIRS.iter().filter_map(|pair| all.get(pair.bench));
    let slowest = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(1.0, f64::min);
    let plot = Bars {
        title: &titled("Speed of cfipack vs others", measured),
        axis: "times as fast as the other, above 1 ×: faster",
        legend: &[("faster", BLUE), ("slower", ORANGE)],
        origin: 1.0,
        range: slowest / 2.0..15.0 * longest(&groups),
        is_log: true,
        format: |ratio| format!("{ratio} ×"),
        groups,
    };
    plot.draw()
}

/// A ratio in two digits or three.
pub fn times(ratio: f64) -> String {
    match ratio {
        0.0..10.0 => format!("{ratio:.1} ×"),
        _ => format!("{ratio:.0} ×"),
    }
}

/// Both times.
fn pieces(figure: &Figure) -> String {
    let its = figure.yardstick.as_ref().map_or(0.0, |yardstick| yardstick.value);
    format!("{} vs {}", duration(figure.value), duration(its))
}

/// Nanoseconds in a unit that fits.
pub fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        0.0..100.0 => format!("{nanoseconds:.1} ns"),
        100.0..1e4 => format!("{nanoseconds:.0} ns"),
        1e4..1e6 => format!("{:.0} µs", nanoseconds / 1e3),
        _ => format!("{:.1} ms", nanoseconds / 1e6),
    }
}

/// Bytes in a unit that fits, of thousands.
pub fn kilobytes(bytes: f64) -> String {
    if bytes < 999_500.0 { format!("{:.0} kB", bytes / 1e3) } else { format!("{:.2} MB", bytes / 1e6) }
}

fn frames(profile: &Measured) -> Result<String, String> {
    const FIGURE: &str = "a frame by table";
    let ways = [("framehop, all PCs cached", LIGHT_BLUE), ("framehop, uncached", ORANGE), ("gimli", GREY)];
    let group = |subject: &&str| -> Result<Group, String> {
        let ours = profile.find(subject, FIGURE, "")?.value;
        let mut bars = vec![Bar { value: ours, text: duration(ours), colour: BLUE }];
        for (way, colour) in ways {
            let figure = profile.find(subject, FIGURE, way)?;
            let time = figure.value * figure.times_less();
            bars.push(Bar {
                value: time,
                text: format!("{}, {:.1} ×", duration(time), figure.times_less()),
                colour,
            });
        }
        Ok(Group { name: (*subject).into(), bars })
    };
    let groups: Vec<Group> = profile.subjects().iter().map(group).collect::<Result<_, _>>()?;
    let plot = Bars {
        title: &titled("Unwinding a frame of a recorded stack", [profile]),
        axis: "time of a frame in ns",
        legend: &[
            ("table with index", BLUE),
            (ways[0].0, ways[0].1),
            (ways[1].0, ways[1].1),
            (ways[2].0, ways[2].1),
        ],
        origin: 0.0,
        range: 0.0..1.3 * longest(&groups),
        is_log: false,
        format: |time| format!("{time:.0} ns"),
        groups,
    };
    plot.draw()
}

/// A curve for each of the figures, over the number of functions.
fn curve<'a>(
    scaling: &Measured,
    name: &'a str,
    colour: plotters::style::RGBColor,
    value: impl Fn(&Figure) -> f64,
    figure: &str,
) -> Curve<'a> {
    let points = scaling.figures.iter().filter(|candidate| candidate.name == figure);
    let points = points.filter_map(|figure| Some((figure.subject.parse().ok()?, value(figure)))).collect();
    Curve { name, colour, points }
}

fn scaling(scaling: &Measured) -> Result<String, String> {
    let own = |figure: &Figure| figure.value;
    let plot = Lines {
        title: &titled("Time a function, by their number", [scaling]),
        x_axis: "number of functions",
        y_axis: "time of a function in ns",
        x: 1e3..1e6,
        y: 0.0..0.0,
        curves: vec![
            curve(scaling, "convert, small", BLUE, own, "convert, small"),
            curve(scaling, "convert, gnu", ORANGE, own, "convert, gnu"),
            curve(scaling, "verify", GREEN, own, "verify"),
            curve(
                scaling,
                "gimli walks all rows",
                GREY,
                |figure| figure.value * figure.times_less(),
                "convert, small",
            ),
        ],
    };
    plot.fitted().draw()
}

fn memory(scaling: &Measured) -> Result<String, String> {
    let own = |figure: &Figure| figure.value;
    let plot = Lines {
        title: "Memory a function beside input and output",
        x_axis: "number of functions",
        y_axis: "memory of a function in bytes",
        x: 1e3..1e6,
        y: 0.0..0.0,
        curves: vec![
            curve(scaling, "convert, small", BLUE, own, "memory of convert, small"),
            curve(scaling, "convert, gnu", ORANGE, own, "memory of convert, gnu"),
            curve(scaling, "verify", GREEN, own, "memory of verify"),
        ],
    };
    plot.fitted().draw()
}
