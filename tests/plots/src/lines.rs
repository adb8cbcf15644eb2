//! Curves over the number of functions.

use plotters::prelude::*;

use crate::style::{self, GRID, HEAD, SMALL, TEXT, TITLE, WIDTH, bold};

pub struct Curve<'a> {
    pub name: &'a str,
    pub colour: RGBColor,
    pub points: Vec<(f64, f64)>,
}

pub struct Lines<'a> {
    pub title: &'a str,
    /// With the unit; the axis is logarithmic.
    pub x_axis: &'a str,
    pub y_axis: &'a str,
    pub x: std::ops::Range<f64>,
    pub y: std::ops::Range<f64>,
    pub curves: Vec<Curve<'a>>,
}

const HEIGHT: u32 = 360;

impl Lines<'_> {
    /// The same with a vertical range for all curves, from 0.
    pub fn fitted(mut self) -> Self {
        let values = self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
        self.y = 0.0..values.fold(1.0, f64::max) * 1.1;
        self
    }

    pub fn draw(&self) -> Result<String, String> {
        let mut svg = String::new();
        {
            let names: Vec<_> = self.curves.iter().map(|curve| (curve.name, curve.colour)).collect();
            let top = HEAD + style::legend_height(&names);
            let size = (WIDTH, top as u32 + HEIGHT);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            self.draw_in(&root, top, &names).map_err(|error| error.to_string())?;
            root.present().map_err(|error| error.to_string())?;
        }
        Ok(svg)
    }

    fn draw_in(
        &self,
        root: &style::Root<'_>,
        top: i32,
        names: &[(&str, RGBColor)],
    ) -> Result<(), style::Failed> {
        root.fill(&WHITE)?;
        root.draw(&Text::new(self.title.to_owned(), (16, 22), bold(TITLE)))?;
        style::legend(root, HEAD, names)?;
        let mut chart = ChartBuilder::on(root)
            .margin_top(top + 8)
            .margin_left(10)
            .margin_right(40)
            .margin_bottom(6)
            .x_label_area_size(52)
            .y_label_area_size(70)
            .build_cartesian_2d(self.x.clone().log_scale(), self.y.clone())?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .x_labels(5)
            .x_label_formatter(&|count| grouped(*count))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .x_desc(style::logarithmic(self.x_axis))
            .y_desc(self.y_axis)
            .label_style((style::FONT, SMALL).into_font().color(&style::INK))
            .axis_desc_style((style::FONT, TEXT).into_font().color(&style::INK))
            .draw()?;
        for curve in &self.curves {
            chart.draw_series(LineSeries::new(curve.points.iter().copied(), curve.colour.stroke_width(3)))?;
            let dots = curve.points.iter().map(|&point| Circle::new(point, 4, curve.colour.filled()));
            chart.draw_series(dots)?;
        }
        Ok(())
    }
}

/// A whole number with spaces between groups of three digits.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{a0}');
        }
        out.push(digit);
    }
    out
}
