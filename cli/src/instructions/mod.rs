//! Lists a function's instructions beside the rows that describe them. `explain` prints this [`listing`].

mod frame;
pub mod listing;
mod marks;
mod rows;

use std::fmt::Write as _;

use cfipack_code::Text;

use crate::report::place::Places;

/// Returns the text of an instruction, with the name of its target.
pub fn with_target(text: Text, places: &Places<'_, '_>) -> String {
    match text {
        Text::Plain(text) => text,
        Text::Branch(mut text, target) => {
            // Writing to a String does not fail.
            let _ = match target {
                Some(target) => write!(text, " {}", places.name(target)),
                None => write!(text, " (relocated)"),
            };
            text
        }
    }
}
