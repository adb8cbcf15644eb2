//! The output file of a linker's arguments: the last `-o`, in response files too.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// As many arguments that start with `@` GNU ld takes, be they files or not; one more is its error "too many @-files
/// encountered".
const MAX_FILES: usize = 1999;

/// The output that a linker or compiler driver writes when called with these arguments; none if they have too many
/// response files.
pub fn of(arguments: &[OsString]) -> Option<PathBuf> {
    let mut scan = Scan::default();
    scan.arguments(arguments)?;
    Some(scan.output.unwrap_or_else(|| "a.out".into()))
}

/// The state of reading arguments, which a response file continues: `-o @names` and `-o` at the end of one work.
#[derive(Default)]
struct Scan {
    output: Option<PathBuf>,
    /// The argument before is an `-o` or `--output` without its value.
    is_value: bool,
    num_files: usize,
    /// The response files that are being read, each in the one before.
    open: Vec<PathBuf>,
}

impl Scan {
    fn arguments(&mut self, arguments: &[OsString]) -> Option<()> {
        for argument in arguments {
            let bytes = argument.as_encoded_bytes();
            let Some(path) = bytes.strip_prefix(b"@") else {
                self.argument(bytes);
                continue;
            };
            self.num_files += 1;
            if self.num_files > MAX_FILES {
                return None;
            }
            // As GCC and GNU ld do: a name that is no file is an argument like any other.
            match response_file(&path_of(path)) {
                Ok((path, text)) => self.file(path, &text)?,
                Err(_) => self.argument(bytes),
            }
        }
        Some(())
    }

    /// The arguments in a response file; none if it contains itself, or there are too many.
    fn file(&mut self, path: PathBuf, text: &[u8]) -> Option<()> {
        if self.open.contains(&path) {
            return None;
        }
        self.open.push(path);
        self.arguments(&split(text))?;
        self.open.pop();
        Some(())
    }

    fn argument(&mut self, bytes: &[u8]) {
        if self.is_value {
            self.output = Some(path_of(bytes));
            self.is_value = false;
        } else if bytes == b"-o" || bytes == b"--output" {
            self.is_value = true;
        } else if let Some(path) = bytes.strip_prefix(b"--output=").or_else(|| bytes.strip_prefix(b"-o")) {
            self.output = Some(path_of(path));
        }
    }
}

/// A response file by its only name, and its bytes. To read from a pipe would take what the linker reads.
fn response_file(path: &Path) -> io::Result<(PathBuf, Vec<u8>)> {
    let path = fs::canonicalize(path)?;
    if !path.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let text = fs::read(&path)?;
    Ok((path, text))
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
        of(&arguments).expect("an output").to_str().expect("a name").to_owned()
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
        let argument = format!("@{}", outer.display());
        fs::write(&outer, format!("x.o\t@{}", inner.display())).expect("a file");
        assert_eq!(output(&["-o", "first", &argument]), "a b c\"de");
        // A directory, a device that does not end, and a name that is no file.
        assert_eq!(output(&["@.", "@/dev/zero", "@no such file", "-o", "x"]), "x");
        fs::remove_dir_all(directory).expect("removed");
    }

    /// GNU ld 2.40 takes 1999, and refuses one more.
    #[test]
    fn too_many_response_files() {
        let directory = std::env::temp_dir().join(format!("cfi2sframe-ld-many-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let [empty, outer] = ["empty", "outer"].map(|name| directory.join(name));
        fs::write(&empty, "").expect("a file");
        for (count, expected) in [(1998, Some("x".into())), (1999, None)] {
            fs::write(&outer, format!("@{} ", empty.display()).repeat(count) + "-o x").expect("a file");
            assert_eq!(of(&[format!("@{}", outer.display()).into()]), expected, "{count} and one");
        }
        // Each contains the next one ten times, and the last one the first.
        let chain = |i: usize| directory.join((i % 10).to_string());
        for i in 0..10 {
            fs::write(chain(i), format!("@{} ", chain(i + 1).display()).repeat(10)).expect("a file");
        }
        assert_eq!(of(&[format!("@{}", chain(0).display()).into()]), None);
        fs::remove_file(chain(9)).expect("removed");
        assert_eq!(of(&[format!("@{}", chain(0).display()).into()]), None);
        fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn blanks_and_quotes() {
        let expected = ["a", "", "b c", "\\d"].map(OsString::from);
        assert_eq!(split(b" a '' \"b c\"\n\\\\d\\"), expected);
        assert_eq!(split(b" \n"), Vec::<OsString>::new());
    }
}
