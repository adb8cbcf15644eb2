//! Places in files as users write and read them: an address, or in an object a section and an offset. Places have
//! symbols.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use anyhow::{Context as _, bail};
use cfipack_container::{File, Kind, Location, Section, Symbols};
use cfipack_format::Address;
use cfipack_format::widen::ToU64;

use crate::io::input::Object;
use crate::io::values;
use crate::report::escaped::Escaped;
use crate::report::name_room::NameRoom;
use crate::report::symbol::{self, Names, SymbolName};

/// A place as it is given on the command line: an address, or in an object SECTION+OFFSET.
#[derive(Clone, Debug)]
pub struct Place {
    /// The section's name, with the index in brackets if several sections have the name.
    pub section: Option<String>,
    /// The address, or the offset in the section.
    pub offset: Address,
}

/// Parses a place. [`Places::find`] checks whether a file has it.
pub fn parse(text: &str) -> Result<Place, String> {
    let (section, offset) = match text.rsplit_once('+') {
        Some((section, offset)) => (Some(section.to_string()), offset),
        None => (None, text),
    };
    let offset = values::parse_address(offset).map_err(|error| format!("{error}, in an object .text+0x4"))?;
    Ok(Place { section, offset })
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.section {
            Some(section) => write!(f, "{section}+{}", self.offset),
            None => write!(f, "{}", self.offset),
        }
    }
}

/// Names places in a file. Symbols and sections are read when the first name needs them.
#[derive(Debug)]
pub struct Places<'f, 'a> {
    /// `None` for a bare section. The places of a bare section are addresses.
    file: Option<&'f File<'a>>,
    symbols: OnceCell<Option<Symbols<'a>>>,
    code: OnceCell<Code<'a>>,
    names: Names,
    room: NameRoom,
}

/// At most this many places are listed for a name.
const CANDIDATES: usize = 16;

/// The sections of code of a file.
#[derive(Debug)]
struct Code<'a> {
    sections: Vec<Section<'a>>,
    /// Names that several sections share.
    shared: HashSet<String>,
}

impl<'f, 'a> Places<'f, 'a> {
    /// Places of a file.
    pub fn new(file: &'f File<'a>) -> Self {
        Self::of_file(Some(file))
    }

    /// Places of a file or a bare section.
    pub fn of_object(object: &'f Object<'a>) -> Self {
        Self::of_file(object.file().ok())
    }

    fn of_file(file: Option<&'f File<'a>>) -> Self {
        let room = NameRoom::of_file(file.map_or(0, |file| file.bytes().len()));
        let (symbols, code) = (OnceCell::new(), OnceCell::new());
        Self { file, symbols, code, names: Names::default(), room }
    }

    /// Sets the form in which symbols are printed.
    pub fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// Shortens a name of the file for a report. Returns the name's start and `…` if all names in the report are much
    /// longer than the file.
    pub fn bounded<'n>(&self, name: impl Into<Cow<'n, str>>) -> Cow<'n, str> {
        self.room.bounded(name)
    }

    /// Returns whether places can have names. Places of a bare section have no names.
    pub fn has_names(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the place with its symbol: `0x1139 <main+0x4>`, or `.text+0x4 <main+0x4>` in a relocatable object.
    pub fn name(&self, address: Address) -> String {
        format!("{}{}", Escaped(self.location(address)), self.symbol(address).in_angles())
    }

    /// Returns the place: `0x1139`, or `.text+0x4` in a relocatable object.
    pub fn location(&self, address: Address) -> String {
        match self.in_object(address) {
            Some((section, offset)) => format!("{section}+{offset}"),
            None => address.to_string(),
        }
    }

    /// Returns a range of places as text: `0x1139..0x1141`, or `.text+0x4..0xc` in a relocatable object.
    pub fn range(&self, range: Range<Address>) -> String {
        let end = self.offset(range.start).offset(range.end.distance_from(range.start));
        format!("{}..{end}", Escaped(self.location(range.start)))
    }

    /// Returns the range's end, in the section of its start.
    pub fn end(&self, range: &Range<Address>) -> String {
        let size = range.end.distance_from(range.start);
        match self.in_object(range.start) {
            Some((section, offset)) => format!("{section}+{}", offset.offset(size)),
            None => range.end.to_string(),
        }
    }

    /// Returns the section, as [`Places::find`] reads it, and the offset in it, if the file is a relocatable object.
    pub fn in_object(&self, address: Address) -> Option<(String, Address)> {
        let file = self.file.filter(|file| file.kind() == Kind::Relocatable)?;
        let place = file.locate(address)?;
        Some((self.section(&place), Address(place.offset)))
    }

    /// Returns the address, or in a relocatable object the offset in its section.
    pub fn offset(&self, address: Address) -> Address {
        self.in_object(address).map_or(address, |(_, offset)| offset)
    }

    /// Returns the section's name, with the index in brackets if several sections of code have it.
    fn section(&self, place: &Location<'a>) -> String {
        let name = self.bounded(&*place.name);
        let is_shared = self.code().shared.contains(&*place.name);
        if is_shared { format!("{name}[{}]", place.section) } else { name.into_owned() }
    }

    /// Returns the symbol of a place, for example `main+0x4`, if there is a symbol.
    pub fn symbol(&self, address: Address) -> SymbolName {
        self.named(address, |_| true)
    }

    /// Returns the symbol that starts at an address.
    pub fn symbol_at(&self, address: Address) -> SymbolName {
        self.named(address, |offset| offset == 0)
    }

    /// Returns the start of the symbol that [`Places::symbol`] prints for an address.
    pub fn start_of_symbol(&self, address: Address) -> Option<Address> {
        let symbol = self.symbols()?.lookup(address)?;
        Some(address.offset(-(symbol.offset as i64)))
    }

    fn named(&self, address: Address, is_wanted: impl Fn(u64) -> bool) -> SymbolName {
        let Some(symbols) = self.symbols() else { return SymbolName::default() };
        match symbols.lookup(address) {
            Some(symbol) if is_wanted(symbol.offset) => {
                self.names.symbol(&self.bounded(symbol.name), symbol.offset)
            }
            _ => SymbolName::default(),
        }
    }

    /// Returns a name that does not depend on addresses: the symbol that starts at the address. Without a symbol,
    /// returns the section and offset, for example `.plt+0x10`, or the address if no section contains it.
    pub fn independent(&self, address: Address) -> String {
        if let Some(symbol) = self.symbol_at(address).text() {
            return Escaped(symbol).to_string();
        }
        match self.file.and_then(|file| file.locate(address)) {
            Some(place) => Escaped(format!("{}+{}", self.section(&place), Address(place.offset))).to_string(),
            None => address.to_string(),
        }
    }

    /// Returns the addresses of the symbols with a name, ascending. The name is compared with the names in the file,
    /// and if none is equal, with the names in the source.
    pub fn symbols_named(&self, name: &str) -> Vec<Address> {
        let Some(symbols) = self.symbols() else { return Vec::new() };
        let mut found = symbols.named(name);
        if found.is_empty() && self.file.is_some_and(|file| file.as_macho().is_some()) {
            found = symbols.named(&format!("_{name}"));
        }
        if found.is_empty() {
            let named = symbols.iter().filter(|(_, linkage)| symbol::is_named(linkage, name));
            found = named.map(|(address, _)| address).collect();
            found.dedup();
        }
        found
    }

    /// Lists places with their symbols. Symbols with the same name in the source get their names in the file.
    pub fn candidates(&self, addresses: &[Address]) -> Vec<String> {
        let names: Vec<_> = addresses.iter().map(|address| self.symbol(*address)).collect();
        let listed = addresses.iter().zip(&names).take(CANDIDATES).map(|(address, name)| {
            let is_shared = names.iter().filter(|other| other.text() == name.text()).count() > 1;
            let text = if is_shared { name.linkage() } else { name.text() };
            Escaped(format!("{} <{}>", self.location(*address), text.unwrap_or_default())).to_string()
        });
        listed.collect()
    }

    /// Returns the name of a symbol that is similar to `name`, for the message that no symbol has the name `name`.
    pub fn similar_symbol(&self, name: &str) -> Option<String> {
        let names = self.symbols()?.iter().map(|(_, linkage)| self.names.symbol(&linkage, 0));
        let names = names.filter_map(|symbol| Some(symbol.text()?.to_owned()));
        let best = names
            .filter(|other| other.len() <= name.len() * 2)
            .max_by_key(|other| similarity(name, other))?;
        (similarity(name, &best) > 850).then(|| Escaped(best).to_string())
    }

    fn symbols(&self) -> Option<&Symbols<'a>> {
        self.symbols.get_or_init(|| self.file?.symbols().ok()).as_ref()
    }

    /// Returns whether the place is in a section of code of a relocatable object.
    pub fn has_section(&self, place: &Place) -> bool {
        let is_object = self.file.is_some_and(|file| file.kind() == Kind::Relocatable);
        let name = place.section.as_deref().filter(|_| is_object);
        name.is_some_and(|name| self.code().sections.iter().any(|code| is_named(code, name)))
    }

    /// Returns the address of a place.
    pub fn find(&self, place: &Place) -> anyhow::Result<Address> {
        let is_object = self.file.is_some_and(|file| file.kind() == Kind::Relocatable);
        match (&place.section, is_object) {
            (None, false) => Ok(place.offset),
            (Some(section), true) => self.find_in(section, place.offset),
            (None, true) => bail!("an address in an object is SECTION+OFFSET"),
            (Some(_), false) => {
                bail!("{place}: SECTION+OFFSET is for objects; an address of a linked file is a number")
            }
        }
    }

    fn find_in(&self, name: &str, offset: Address) -> anyhow::Result<Address> {
        let named: Vec<_> = self.code().sections.iter().filter(|code| is_named(code, name)).collect();
        if named.len() > 1 {
            let names: Vec<_> = named.iter().map(|code| indexed(code)).collect();
            bail!("several sections have the name {name}, choose one by its index: {}", names.join(", "));
        }
        let section = named.first().with_context(|| format!("no section of code has the name {name}"))?;
        let size = section.bytes.len().to_u64();
        // An offset after the end could be in the next section.
        if offset.0 > size {
            bail!("section {name} has {size:#x} bytes; offset {offset} is after its end");
        }
        Ok(section.address.offset(offset.0 as i64))
    }

    fn code(&self) -> &Code<'a> {
        self.code.get_or_init(|| {
            let sections = self.file.map_or(Vec::new(), |file| file.code_sections().unwrap_or_default());
            let mut seen = HashSet::new();
            let repeated = sections.iter().filter(|section| !seen.insert(&section.name));
            let shared = repeated.map(|section| section.name.to_string()).collect();
            Code { sections, shared }
        })
    }
}

/// Returns a section's name with its index.
fn indexed(code: &Section<'_>) -> String {
    format!("{}[{}]", code.name, code.index.unwrap_or(0))
}

/// Returns how similar two names are: 0 if they have nothing in common, 1000 if they are equal.
pub fn similarity(name: &str, other: &str) -> u32 {
    (strsim::jaro(name, other) * 1000.0) as u32
}

/// Returns whether a section has this name. The name can include the section's index.
fn is_named(code: &Section<'_>, name: &str) -> bool {
    code.name == name || indexed(code) == name
}
