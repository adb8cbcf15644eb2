//! Addresses as people know them: a section and an offset in an object, and the symbol's name.

use std::cell::OnceCell;
use std::fmt::Write as _;

use cfipack_container::{File, Kind, Symbols};
use cfipack_format::Address;

use crate::escaped::Escaped;

/// Names places in a file; its symbols are read when the first name is asked for.
#[derive(Debug)]
pub struct Places<'f, 'a> {
    file: &'f File<'a>,
    symbols: OnceCell<Option<Symbols<'a>>>,
}

impl<'f, 'a> Places<'f, 'a> {
    /// Places of a file.
    pub fn new(file: &'f File<'a>) -> Self {
        Self { file, symbols: OnceCell::new() }
    }

    /// `0x1139 <main+0x4>`, or `.text+0x4 <main+0x4>` in a relocatable object.
    pub fn name(&self, address: Address) -> String {
        let mut name = self.location(address);
        if let Some(symbol) = self.symbol(address) {
            // Writing to a String does not fail.
            let _ = write!(name, " <{symbol}>");
        }
        Escaped(name).to_string()
    }

    /// `0x1139`, or `.text+0x4` in a relocatable object.
    pub fn location(&self, address: Address) -> String {
        match self.file.locate(address) {
            Some(place) if self.file.kind() == Kind::Relocatable => {
                format!("{}+{:#x}", place.name, place.offset)
            }
            _ => address.to_string(),
        }
    }

    /// `main+0x4`, if there is a symbol.
    pub fn symbol(&self, address: Address) -> Option<String> {
        let symbols = self.symbols.get_or_init(|| self.file.symbols().ok()).as_ref()?;
        let symbol = symbols.lookup(address)?;
        Some(match symbol.offset {
            0 => symbol.name.into_owned(),
            offset => format!("{}+{offset:#x}", symbol.name),
        })
    }
}
