//! Names of symbols in files (mangled) and in sources.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions};
use serde::Serialize;

use crate::report::escaped::Escaped;

/// The form in which symbols are printed.
#[derive(clap::Args, Clone, Copy, Default, Debug)]
pub struct Names {
    /// Print symbols as the file has them, and not as C++ and Rust sources do
    #[arg(long)]
    no_demangle: bool,
}

impl Names {
    /// Returns the name to print for a place `offset` bytes after the start of a symbol.
    pub fn symbol(self, linkage: &str, offset: u64) -> SymbolName {
        let with_offset = |name: String| match offset {
            0 => name,
            offset => format!("{name}+{offset:#x}"),
        };
        let demangled = if self.no_demangle { None } else { demangle(linkage) };
        SymbolName { symbol: Some(with_offset(linkage.to_owned())), demangled: demangled.map(with_offset) }
    }
}

/// The symbol of a place in a report. Both keys are null if the place has no symbol.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SymbolName {
    /// The symbol as the file has it, with `+0x4` for a place after its start.
    symbol: Option<String>,
    /// The symbol as the source has it. Null if the symbol is not mangled, and with `--no-demangle`.
    demangled: Option<String>,
}

impl SymbolName {
    /// Returns the name to print.
    pub fn text(&self) -> Option<&str> {
        self.demangled.as_deref().or(self.symbol.as_deref())
    }

    /// Returns the name as the file has it.
    pub fn linkage(&self) -> Option<&str> {
        self.symbol.as_deref()
    }

    /// Returns the text to print after a place: ` <main+0x4>`, or nothing if there is no symbol.
    pub fn in_angles(&self) -> String {
        self.text().map(|name| format!(" <{}>", Escaped(name))).unwrap_or_default()
    }
}

/// Returns how many bytes a demangled name may have if the mangled name has `len` bytes. This limit is needed because
/// mangled names contain abbreviations, and abbreviations of abbreviations could fill the address space.
fn room(len: usize) -> usize {
    512 + 8 * len
}

/// The maximum depth of the parser of C++ names. A name that ends too early is tried again at each level, so about
/// three more levels double the time. This depth is too small for 600 of 100 000 symbols of libLLVM and libstdc++.
const MAX_DEPTH: u32 = 40;

/// Demangles a name of Rust (both manglings, without hashes) or C++. Returns `None` if the name is not mangled, or
/// cannot be demangled.
pub fn demangle(name: &str) -> Option<String> {
    match Mangled::parse(name)? {
        Mangled::Rust(rust) => limited(name, |out| write!(out, "{rust:#}").is_ok()),
        Mangled::Cpp(symbol) => in_cpp(name, &symbol, DemangleOptions::new()),
    }
}

/// Returns whether a name means a symbol.
///
/// The name can be the name in the file, or the name that [`demangle`] prints. Parameters and the type of the result
/// may be left out, for example `a::h` for `a::h(int)`.
pub fn is_named(linkage: &str, name: &str) -> bool {
    if linkage == name {
        return true;
    }
    match Mangled::parse(linkage) {
        None => false,
        Some(Mangled::Rust(_)) => demangle(linkage).as_deref() == Some(name),
        Some(Mangled::Cpp(symbol)) => {
            let without_result = DemangleOptions::new().no_return_type();
            let without_parameters = DemangleOptions::new().no_return_type().no_params();
            [DemangleOptions::new(), without_result, without_parameters]
                .into_iter()
                .any(|options| in_cpp(linkage, &symbol, options).as_deref() == Some(name))
        }
    }
}

enum Mangled<'n> {
    Rust(rustc_demangle::Demangle<'n>),
    Cpp(cpp_demangle::Symbol<&'n str>),
}

impl<'n> Mangled<'n> {
    fn parse(name: &'n str) -> Option<Self> {
        // Mach-O has an additional underscore.
        let is = |prefix: &str| name.strip_prefix('_').unwrap_or(name).starts_with(prefix);
        let is_legacy_rust = (is("_ZN") || is("ZN")) && name.contains("17h");
        if is_legacy_rust || is("_R") || is("R") && name.starts_with('_') {
            return match rustc_demangle::try_demangle(name) {
                Ok(rust) => Some(Self::Rust(rust)),
                Err(_) => Self::cpp(name),
            };
        }
        if is("_Z") || name.starts_with("_Z") { Self::cpp(name) } else { None }
    }

    fn cpp(name: &'n str) -> Option<Self> {
        let options = ParseOptions::default().recursion_limit(MAX_DEPTH);
        cpp_demangle::Symbol::new_with_options(name, &options).ok().map(Self::Cpp)
    }
}

fn in_cpp(name: &str, symbol: &cpp_demangle::Symbol<&str>, options: DemangleOptions) -> Option<String> {
    limited(name, |out| symbol.structured_demangle(out, &options).is_ok())
}

/// Collects the output of `write`, or returns `None` if it becomes too long.
fn limited(name: &str, write: impl FnOnce(&mut Limited) -> bool) -> Option<String> {
    let mut out = Limited { text: String::new(), room: room(name.len()) };
    write(&mut out).then_some(out.text)
}

struct Limited {
    text: String,
    room: usize,
}

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.room = self.room.checked_sub(text.len()).ok_or(fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are from the Itanium C++ ABI ("Mangling"), from Rust's RFC 2603, and from rustc's older scheme. Mach-O
    /// adds an underscore.
    #[test]
    fn names_of_sources() {
        for (linkage, demangled) in [
            ("_ZN1a1hEi", "a::h(int)"),
            ("__ZN1a1hEi", "a::h(int)"),
            ("_ZN1a1hEi.cold", "a::h(int) [clone .cold]"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("__ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("__RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ] {
            assert_eq!(demangle(linkage).as_deref(), Some(demangled), "{linkage}");
            assert!(is_named(linkage, demangled) && is_named(linkage, linkage), "{linkage}");
        }
        for plain in ["main", "_main", "_start", "_R", "_Z", "ZN1a1hEi", "RNvC1a1b", "_init", ""] {
            assert_eq!(demangle(plain), None, "{plain}");
        }
        assert!(is_named("_ZN1a1hEi", "a::h") && !is_named("_ZN1a1hEi", "h"));
        assert!(is_named("_ZN1a1kIiEET_S1_", "a::k<int>"));
    }

    /// Each substitution repeats the text before it twice.
    #[test]
    fn names_that_explode_stay_as_they_are() {
        let mut name = "_Z1fI1AS_I".to_owned();
        name += "1BI";
        let mut bomb = String::from("_Z1f1AIiiE");
        for number in 0..30_u32 {
            let id = |number: u32| match number.checked_sub(1) {
                None => "S_".to_owned(),
                Some(number) => format!("S{}_", char::from_digit(number, 36).unwrap().to_ascii_uppercase()),
            };
            bomb += &format!("1AI{0}{0}E", id(number));
        }
        for name in [name, bomb] {
            assert!(demangle(&name).is_none_or(|text| text.len() <= room(name.len())), "{name}");
        }
    }
}
