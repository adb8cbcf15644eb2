//! Finds names for addresses.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use cfipack_format::Address;
use object::elf::{SHT_DYNSYM, SHT_SYMTAB, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::read::elf::{SectionHeader as _, Sym as _};

use crate::elf::file::Elf;
use crate::error::Error;
use crate::kind::Kind;
use crate::macho::file::MachO;
use crate::names;

/// The symbols of a file's functions, sorted by address.
#[derive(Debug)]
pub struct Symbols<'a> {
    sorted: Vec<Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    address: u64,
    /// The end of the symbol's code: the address plus its size, or the end of its section if the size is 0.
    end: u64,
    /// True for the symbol of a function. It is a better name than a label.
    is_function: bool,
    /// True if the file gives the size of the code.
    is_sized: bool,
    /// True if code in another file can name the symbol.
    is_global: bool,
    name: &'a [u8],
}

/// A symbol, and the distance of an address from it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Symbol<'a> {
    /// The name, mangled as in the file. Bytes that are not UTF-8 are replaced. After 4096 bytes the name is cut, and
    /// `…` is added.
    pub name: Cow<'a, str>,
    /// The distance from the symbol's address in bytes.
    pub offset: u64,
}

impl<'a> Symbols<'a> {
    /// Reads `.symtab`, or `.dynsym` in a stripped file.
    pub(crate) fn read(elf: &Elf<'a>) -> Result<Self, Error> {
        let headers = elf.headers();
        let endian = headers.endian;
        let mut sorted = Vec::new();
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            let symbols = headers.sections.symbols(endian, headers.bytes, kind).map_err(|_| {
                let header = headers.sections.iter().find(|header| header.sh_type(endian) == kind);
                let place = header.map(|header| (header.sh_offset(endian), header.sh_size(endian)));
                let (offset, value) = place.unwrap_or_default();
                Error::Table { what: "symbol table", offset, value }
            })?;
            let strings = headers.section_bytes(symbols.string_section().0).unwrap_or_default();
            for (index, symbol) in symbols.enumerate() {
                let is_function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
                if !is_function && symbol.st_type() != STT_NOTYPE {
                    continue;
                }
                let Ok(Some(section)) = symbols.symbol_section(endian, symbol, index) else {
                    continue;
                };
                let name = names::at(strings, symbol.st_name(endian));
                // The labels `$x` and `$d` mark code and data on AArch64. Names with `.L` are the compiler's labels.
                if section.0 == 0 || name.is_empty() || name.starts_with(b"$") || name.starts_with(b".L") {
                    continue;
                }
                let base = if headers.kind == Kind::Relocatable { elf.start_of_section(section) } else { 0 };
                let address = base.wrapping_add(symbol.st_value(endian));
                let end = match symbol.st_size(endian) {
                    0 => elf.end_of_section(section),
                    size => address.saturating_add(size),
                };
                let is_sized = symbol.st_size(endian) != 0;
                let is_global = symbol.st_bind() != STB_LOCAL;
                sorted.push(Entry { address, end, is_function, is_sized, is_global, name });
            }
            if !sorted.is_empty() {
                break;
            }
        }
        sorted.sort_by_key(|entry| (entry.address, entry.is_function));
        Ok(Self { sorted })
    }

    /// Returns the symbols in a Mach-O file's sections of code.
    pub(crate) fn from_mach_o(file: &MachO<'a>) -> Self {
        // Labels with `ltmp` come from the assembler, and names with `L` from the compiler.
        let symbols = file
            .code_symbols()
            .filter(|(name, ..)| !name.is_empty() && !name.starts_with(b"ltmp") && !name.starts_with(b"L"));
        let mut sorted: Vec<_> = symbols
            .map(|(name, address, end)| {
                let is_function = name.starts_with(b"_");
                Entry { address, end, is_function, is_sized: false, is_global: true, name }
            })
            .collect();
        sorted.sort_by_key(|entry| (entry.address, entry.is_function));
        Self { sorted }
    }

    /// Returns the addresses of all symbols with a name, ascending. Each address occurs once.
    pub fn named(&self, name: &str) -> Vec<Address> {
        let named = self.sorted.iter().filter(|entry| entry.name == name.as_bytes());
        let mut addresses: Vec<_> = named.map(|entry| Address(entry.address)).collect();
        addresses.dedup();
        addresses
    }

    /// Iterates over all symbols, ascending by address.
    pub fn iter(&self) -> impl Iterator<Item = (Address, Cow<'a, str>)> {
        self.sorted.iter().map(|entry| (Address(entry.address), String::from_utf8_lossy(entry.name)))
    }

    /// Iterates over the code of the functions whose symbols have a size, ascending by start.
    pub fn functions(&self) -> impl Iterator<Item = Range<Address>> {
        let functions = self.sorted.iter().filter(|entry| entry.is_function && entry.is_sized);
        functions.map(|entry| Address(entry.address)..Address(entry.end))
    }

    /// Iterates over the addresses of all symbols, ascending. An address with several symbols occurs several times.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        self.sorted.iter().map(|entry| Address(entry.address))
    }

    /// Returns the range of code that belongs to the symbol at or before an address, like [`lookup`](Self::lookup). A
    /// symbol without a size extends to the end of its section.
    pub fn extent(&self, address: Address) -> Option<Range<Address>> {
        let entry = self.before(address)?;
        (address.0 < entry.end).then_some(Address(entry.address)..Address(entry.end))
    }

    /// Returns whether the symbol of a function is at an address. A label is not enough.
    pub fn is_function(&self, start: Address) -> bool {
        self.at(start).any(|entry| entry.is_function)
    }

    /// Returns whether the file gives the size of the symbol whose code contains an address.
    pub fn is_in_sized(&self, address: Address) -> bool {
        self.before(address).is_some_and(|entry| entry.is_sized && address.0 < entry.end)
    }

    /// Returns whether code in other files can name an address. A label is enough.
    pub fn is_global(&self, address: Address) -> bool {
        self.at(address).any(|entry| entry.is_global)
    }

    /// Returns the names of the symbols at an address.
    pub fn names(&self, address: Address) -> impl Iterator<Item = Cow<'a, str>> {
        self.at(address).map(|entry| names::text(entry.name))
    }

    /// Returns the last symbol at or before an address.
    fn before(&self, address: Address) -> Option<&Entry<'a>> {
        let after = self.sorted.partition_point(|entry| entry.address <= address.0);
        self.sorted.get(after.checked_sub(1)?)
    }

    fn at(&self, address: Address) -> impl Iterator<Item = &Entry<'a>> {
        let first = self.sorted.partition_point(|entry| entry.address < address.0);
        self.sorted[first..].iter().take_while(move |entry| entry.address == address.0)
    }

    /// Returns the lowest address after `address` that has a symbol.
    pub fn next_after(&self, address: Address) -> Option<Address> {
        let after = self.sorted.partition_point(|entry| entry.address <= address.0);
        self.sorted.get(after).map(|entry| Address(entry.address))
    }

    /// Returns the sizes in bytes of the functions that start at an address.
    pub(crate) fn sizes_of_functions(&self, start: Address) -> HashSet<u64> {
        self.at(start)
            .filter(|entry| entry.is_function)
            .filter_map(|entry| entry.end.checked_sub(entry.address))
            .collect()
    }

    /// Returns the symbol that an address belongs to: the last symbol at or before the address, if its code extends
    /// that far.
    pub fn lookup(&self, address: Address) -> Option<Symbol<'a>> {
        let entry = self.before(address)?;
        let offset = address.0 - entry.address;
        let reaches = offset == 0 || address.0 < entry.end;
        reaches.then(|| Symbol { name: names::text(entry.name), offset })
    }
}
