//! What all plots have in common: wide enough for a desk, with letters that a phone can show, on white, so that pages in
//! the dark can have them.

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub const WIDTH: u32 = 640;
pub const FONT: &str = "sans-serif";
pub const TITLE: f64 = 21.0;
pub const TEXT: f64 = 17.0;
pub const SMALL: f64 = 15.0;
/// Pixels of the title.
pub const HEAD: i32 = 42;

pub const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
pub const GRID: RGBColor = RGBColor(0xd8, 0xdc, 0xe1);
/// What plots are about.
pub const BLUE: RGBColor = RGBColor(0x0b, 0x5c, 0xad);
pub const LIGHT_BLUE: RGBColor = RGBColor(0x7f, 0xb2, 0xe5);
pub const ORANGE: RGBColor = RGBColor(0xd5, 0x6b, 0x00);
/// Yardsticks.
pub const GREY: RGBColor = RGBColor(0x9a, 0xa1, 0xa9);
pub const GREEN: RGBColor = RGBColor(0x2b, 0x8a, 0x5a);

/// Letters of a size, at a point that they follow, and centred on its height.
pub fn text(size: f64) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center))
}

/// The same in bold.
pub fn bold(size: f64) -> TextStyle<'static> {
    (FONT, size, FontStyle::Bold).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center))
}

/// How wide a text is, roughly: fonts differ.
pub fn width(text: &str, size: f64) -> i32 {
    (text.chars().count() as f64 * size * 0.56) as i32
}

/// The name of an axis on which equal ratios have equal lengths.
pub fn logarithmic(axis: &str) -> String {
    format!("{axis}; logarithmic axis")
}

/// Where a plot is drawn.
pub type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Why it cannot be drawn.
pub type Failed = DrawingAreaErrorKind<std::io::Error>;

const LEFT: i32 = 16;
const LINE: i32 = 24;

/// The names of colours in lines that are not wider than a plot: place and name.
fn lines(names: &[(&str, RGBColor)]) -> Vec<(i32, i32)> {
    let (mut x, mut line) = (LEFT, 0);
    let place = |&(name, _): &(&str, RGBColor)| {
        let needed = 22 + width(name, TEXT);
        if x > LEFT && x + needed > WIDTH as i32 - 10 {
            (x, line) = (LEFT, line + 1);
        }
        let here = (x, line);
        x += needed + 18;
        here
    };
    names.iter().map(place).collect()
}

/// How high the names of colours are, in pixels.
pub fn legend_height(names: &[(&str, RGBColor)]) -> i32 {
    lines(names).last().map_or(0, |&(_, line)| (line + 1) * LINE + 4)
}

/// Draws squares in the colours with their names.
pub fn legend(root: &Root<'_>, top: i32, names: &[(&str, RGBColor)]) -> Result<(), Failed> {
    for (&(name, colour), (x, line)) in names.iter().zip(lines(names)) {
        let y = top + line * LINE + LINE / 2;
        root.draw(&Rectangle::new([(x, y - 7), (x + 14, y + 7)], colour.filled()))?;
        root.draw(&Text::new(name.to_owned(), (x + 20, y), text(TEXT)))?;
    }
    Ok(())
}
