//! The output file of a linker's arguments: the last `-o`, in response files too.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

/// Response files may name others, and themselves; linkers give up too.
const MAX_DEPTH: usize = 16;

/// The output that a linker or compiler driver writes when called with these arguments.
pub fn of(arguments: &[OsString]) -> PathBuf {
    let mut output = None;
    Scan { output: &mut output, is_value: false }.arguments(arguments, 0);
    output.unwrap_or_else(|| "a.out".into())
}

/// The state of reading arguments, which a response file continues: `-o @names` and `-o` at the end of one work.
struct Scan<'a> {
    output: &'a mut Option<PathBuf>,
    /// The argument before is an `-o` or `--output` without its value.
    is_value: bool,
}

impl Scan<'_> {
    fn arguments(&mut self, arguments: &[OsString], depth: usize) {
        for argument in arguments {
            let bytes = argument.as_encoded_bytes();
            // As GCC and GNU ld do: a name that is no file is an argument like any other.
            if let Some(path) = bytes.strip_prefix(b"@").filter(|_| depth < MAX_DEPTH)
                && let Ok(text) = fs::read(path_of(path))
            {
                self.arguments(&split(&text), depth + 1);
            } else {
                self.argument(bytes);
            }
        }
    }

    fn argument(&mut self, bytes: &[u8]) {
        if self.is_value {
            *self.output = Some(path_of(bytes));
            self.is_value = false;
        } else if bytes == b"-o" || bytes == b"--output" {
            self.is_value = true;
        } else if let Some(path) = bytes.strip_prefix(b"--output=").or_else(|| bytes.strip_prefix(b"-o")) {
            *self.output = Some(path_of(path));
        }
    }
}

/// The arguments in a response file, by GNU's rules: blanks separate them, single and double quotes enclose
/// blanks, a backslash takes the next byte as it is, in quotes too.
fn split(text: &[u8]) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut current: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => current.get_or_insert_default().extend(bytes.next()),
            _ if quote == Some(byte) => quote = None,
            b'\'' | b'"' if quote.is_none() => {
                quote = Some(byte);
                current.get_or_insert_default();
            }
            _ if quote.is_none() && byte.is_ascii_whitespace() => {
                arguments.extend(current.take().map(|bytes| path_of(&bytes).into_os_string()));
            }
            _ => current.get_or_insert_default().push(byte),
        }
    }
    arguments.extend(current.map(|bytes| path_of(&bytes).into_os_string()));
    arguments
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    OsStr::from_bytes(bytes).into()
}

/// Elsewhere names are Unicode.
#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::new(String::from_utf8_lossy(bytes).as_ref()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(arguments: &[&str]) -> String {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        of(&arguments).to_str().expect("a name").to_owned()
    }

    /// ld(1): -o, --output; the default is a.out; options of one letter take their value in the same argument too.
    #[test]
    fn forms_of_the_option() {
        assert_eq!(output(&["a.o"]), "a.out");
        assert_eq!(output(&["a.o", "-o", "x"]), "x");
        assert_eq!(output(&["-ox", "a.o"]), "x");
        assert_eq!(output(&["--output=x"]), "x");
        assert_eq!(output(&["--output", "x"]), "x");
        assert_eq!(output(&["-o", "x", "-O2", "-o", "-y"]), "-y");
        assert_eq!(output(&["-o"]), "a.out");
        assert_eq!(output(&["-o", "@no such file"]), "@no such file");
    }

    /// gcc(1), "@file".
    #[test]
    fn response_files() {
        let directory = std::env::temp_dir().join(format!("cfi2sframe-ld-output-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let inner = directory.join("inner");
        fs::write(&inner, "-o 'a b'\\ \"c\\\"d\"e\n").expect("a file");
        let outer = directory.join("outer");
        let itself = format!("@{}", outer.display());
        fs::write(&outer, format!("x.o\t@{} {itself}", inner.display())).expect("a file");
        assert_eq!(output(&["-o", "first", &itself]), "a b c\"de");
        fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn blanks_and_quotes() {
        let expected = ["a", "", "b c", "\\d"].map(OsString::from);
        assert_eq!(split(b" a '' \"b c\"\n\\\\d\\"), expected);
        assert_eq!(split(b" \n"), Vec::<OsString>::new());
    }
}
