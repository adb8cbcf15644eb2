//! A function or instruction, as the command line names it.

use std::fmt;

use anyhow::bail;
use cfipack_format::Address;

use crate::report::place::{self, Place, Places};

/// An address, a section and an offset, or a symbol with or without an offset.
#[derive(Clone, Debug)]
pub struct Target {
    text: String,
    place: Option<Place>,
}

/// Parses a place or a name that can be a symbol. [`Target::find`] checks whether a file has it.
pub fn parse(text: &str) -> Result<Target, String> {
    match place::parse(text) {
        Ok(place) => Ok(Target { text: text.to_string(), place: Some(place) }),
        // No symbol starts with a digit.
        Err(error) if text.is_empty() || text.starts_with(|char: char| char.is_ascii_digit()) => {
            Err(format!("{error}; or a symbol"))
        }
        Err(_) => Ok(Target { text: text.to_string(), place: None }),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => place.fmt(f),
            None => f.write_str(&self.text),
        }
    }
}

impl Target {
    /// Returns the place if it is a number without a section: an address, or an offset in an object.
    pub fn plain(&self) -> Option<&Place> {
        self.place.as_ref().filter(|place| place.section.is_none())
    }

    /// Returns the address.
    pub fn find(&self, places: &Places<'_, '_>) -> anyhow::Result<Address> {
        // A symbol may contain a plus sign.
        let with_offset =
            self.place.as_ref().and_then(|place| Some((place.section.as_deref()?, place.offset)));
        let names = [Some((self.text.as_str(), Address(0))), with_offset];
        if let Some(place) = &self.place
            && (place.section.is_none() || places.has_section(place))
        {
            return places.find(place);
        }
        if !places.has_names() {
            bail!("{}: a bare section has no symbols: an address is a number", self.text);
        }
        for (name, offset) in names.into_iter().flatten() {
            match &places.symbols_named(name)[..] {
                [] => {}
                [address] => return Ok(address.offset(offset.0 as i64)),
                several => bail!(
                    "several symbols have the name {name}, choose one by its place: {}",
                    places.candidates(several).join(", ")
                ),
            }
        }
        match &self.place {
            Some(place) => places.find(place),
            None => match places.similar_symbol(&self.text) {
                Some(similar) => {
                    bail!("no symbol of a function has the name {}; a similar one: {similar}", self.text)
                }
                None => bail!("no symbol of a function has the name {}", self.text),
            },
        }
    }
}
