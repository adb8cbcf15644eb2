//! Bars that lie, in groups below their names.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::style::{self, GRID, HEAD, INK, SMALL, TEXT, TITLE, WIDTH, bold, text};

pub struct Bar {
    pub value: f64,
    pub text: String,
    pub colour: RGBColor,
}

pub struct Group {
    pub name: String,
    pub bars: Vec<Bar>,
}

pub struct Bars<'a> {
    pub title: &'a str,
    /// Below the axis, with the unit. A logarithmic axis is named as such beside it.
    pub axis: &'a str,
    pub legend: &'a [(&'a str, RGBColor)],
    /// Where bars start.
    pub origin: f64,
    pub range: std::ops::Range<f64>,
    /// Whether equal ratios have equal lengths.
    pub is_log: bool,
    pub format: fn(&f64) -> String,
    pub groups: Vec<Group>,
}

const NAME: f64 = 24.0;
const BAR: f64 = 20.0;
const GAP: f64 = 10.0;
/// Numbers and name of the axis.
const AXIS: u32 = 52;

impl Bars<'_> {
    pub fn draw(&self) -> Result<String, String> {
        if self.is_log {
            self.draw_on(self.range.clone().log_scale())
        } else {
            self.draw_on(self.range.clone())
        }
    }

    fn draw_on<X>(&self, axis: X) -> Result<String, String>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
    {
        let height: f64 = self.groups.iter().map(|group| NAME + BAR * group.bars.len() as f64 + GAP).sum();
        let top = HEAD + style::legend_height(self.legend);
        let mut svg = String::new();
        {
            let size = (WIDTH, top as u32 + height as u32 + AXIS + 6);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            self.draw_in(&root, axis, top, height).map_err(|error| error.to_string())?;
            root.present().map_err(|error| error.to_string())?;
        }
        Ok(svg)
    }

    fn draw_in<X>(&self, root: &style::Root<'_>, axis: X, top: i32, height: f64) -> Result<(), style::Failed>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
    {
        root.fill(&WHITE)?;
        root.draw(&Text::new(self.title.to_owned(), (16, 22), bold(TITLE)))?;
        style::legend(root, HEAD, self.legend)?;
        let mut chart = ChartBuilder::on(root)
            .margin_top(top)
            .margin_left(16)
            .margin_right(24)
            .margin_bottom(6)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(axis, 0.0..height)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_max_light_lines(0)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .x_labels(7)
            .x_label_formatter(&self.format)
            .x_desc(if self.is_log { style::logarithmic(self.axis) } else { self.axis.to_owned() })
            .label_style(text(SMALL))
            .axis_desc_style(text(TEXT))
            .draw()?;
        let mut y = height;
        for group in &self.groups {
            let start = self.range.start;
            let name = Text::new(group.name.clone(), (6, 0), text(TEXT));
            chart.draw_series([EmptyElement::at((start, y - NAME / 2.0 - 2.0)) + name])?;
            y -= NAME;
            for bar in &group.bars {
                let corners = [(self.origin, y - 1.0), (bar.value, y - BAR + 2.0)];
                chart.draw_series([Rectangle::new(corners, bar.colour.filled())])?;
                let end = bar.value.max(self.origin);
                let label = Text::new(bar.text.clone(), (6, 0), text(SMALL));
                chart.draw_series([EmptyElement::at((end, y - BAR / 2.0)) + label])?;
                y -= BAR;
            }
            let beside = [(self.origin, y), (self.origin, y + BAR * group.bars.len() as f64)];
            chart.draw_series([PathElement::new(beside, INK.stroke_width(2))])?;
            y -= GAP;
        }
        Ok(())
    }
}
