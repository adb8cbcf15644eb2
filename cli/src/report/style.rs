//! Highlights on terminals, as clap's own messages have them.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use clap::builder::styling::{AnsiColor, Style};

/// The first word of an error, in clap's style.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// The first word of a warning.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// The style of new or different text.
pub const BOLD: Style = Style::new().bold();
/// A fault.
pub const RED: Style = AnsiColor::Red.on_default();

/// Highlights a text if the stream is a terminal with colours, and the environment has no `NO_COLOR` (no-color.org).
pub fn on(stream: &impl RawStream, style: Style, text: &str) -> String {
    match AutoStream::choice(stream) {
        ColorChoice::Never => text.to_owned(),
        _ => format!("{style}{text}{style:#}"),
    }
}
