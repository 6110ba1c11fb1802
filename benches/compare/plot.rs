//! The sweep as a picture.

use std::path::Path;

use plotters::prelude::*;

/// A line of a chart.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    /// Batch size and figure.
    pub(crate) points: Vec<(f64, f64)>,
}

const TITLES: [&str; 2] =
    ["Rate: million writes a second", "Latency: ns from staging to confirmed"];
const COLOURS: [RGBColor; 2] = [RGBColor(0, 90, 180), RGBColor(200, 80, 0)];
const TEXT: (&str, u32) = ("sans-serif", 15);

/// Draws rate and latency side by side.
pub(crate) fn draw(
    path: &Path,
    curves: &[Vec<Curve>; 2],
) -> Result<(), Box<dyn core::error::Error>> {
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, (1000, 420)).into_drawing_area();
        area.fill(&WHITE)?;
        for ((half, curves), title) in area.split_evenly((1, 2)).iter().zip(curves).zip(TITLES) {
            chart(half, title, curves)?;
        }
        area.present()?;
    }
    if !picture.ends_with('\n') {
        picture.push('\n');
    }
    std::fs::write(path, picture)?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn chart(
    area: &Area<'_>,
    title: &str,
    curves: &[Curve],
) -> Result<(), Box<dyn core::error::Error>> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let most = all().map(|point| point.1).fold(0.0, f64::max) * 1.1;
    let widest = all().map(|point| point.0).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d((1.0..widest).log_scale().base(2.0), 0.0..most)?;
    chart
        .configure_mesh()
        .x_desc("writes to a doorbell")
        .x_labels(8)
        .x_label_formatter(&|batch| format!("{batch:.0}"))
        .y_label_formatter(&|figure| format!("{figure:.0}"))
        .label_style(TEXT)
        .axis_desc_style(TEXT)
        .light_line_style(WHITE)
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS) {
        chart
            .draw_series(
                LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)).point_size(3),
            )?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font(TEXT)
        .draw()?;
    Ok(())
}
