//! Reads a linker's arguments, including response files: finds the output file, and removes `--strict`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::io::entry::Entry;
use crate::io::temporary::Temporary;

/// The only argument that is for this command and not for the linker.
const STRICT: &[u8] = b"--strict";
/// A compiler driver passes the rest of an argument with this prefix to the linker.
const PASSED: &[u8] = b"-Wl,";
/// How many arguments that start with `@` GNU ld takes, even if they name no files. With more it ends with the error
/// "too many @-files encountered".
const MAX_FILES: usize = 1999;

/// The arguments of a linker or compiler driver.
#[derive(Debug)]
pub struct Arguments {
    /// The output file: the value of the last `-o`, or `a.out` without `-o`.
    pub output: PathBuf,
    /// True if an argument is `--strict`.
    pub is_strict: bool,
    /// True if an argument such as `--version` means that the linker may link nothing.
    pub is_question: bool,
    /// The arguments for the linker.
    pub passed: Vec<OsString>,
    /// The response file in `passed`, if the original response files contain `--strict` and had to be replaced.
    _replacement: Option<Temporary>,
}

impl Arguments {
    /// Reads the arguments of the process. Returns `None` if they have too many response files, or a response file that
    /// contains itself.
    ///
    /// # Errors
    /// The response file that replaces the original response files cannot be written.
    pub fn read(given: &[OsString]) -> io::Result<Option<Self>> {
        let mut scan = Scan::default();
        if scan.arguments(given, &mut |_| Ok(()))?.is_none() {
            return Ok(None);
        }
        let (mut passed, mut replacement) = (without_strict(given), None);
        if scan.is_strict_in_file {
            let file = expanded(given)?;
            let mut argument = OsString::from("@");
            argument.push(file.path());
            passed = vec![argument];
            replacement = Some(file);
        }
        Ok(Some(Self {
            output: scan.output.unwrap_or_else(|| "a.out".into()),
            is_strict: scan.is_strict,
            is_question: scan.is_question,
            passed,
            _replacement: replacement,
        }))
    }
}

/// Returns the arguments without `--strict`.
pub fn without_strict(arguments: &[OsString]) -> Vec<OsString> {
    let bytes = arguments.iter().filter_map(|argument| remove_strict(argument.as_encoded_bytes()));
    bytes.map(|bytes| path_of(&bytes).into_os_string()).collect()
}

/// Removes `--strict` from an argument. Returns `None` if nothing else is left.
fn remove_strict(argument: &[u8]) -> Option<Vec<u8>> {
    if argument == STRICT {
        return None;
    }
    let Some(passed) = argument.strip_prefix(PASSED) else { return Some(argument.to_vec()) };
    let kept: Vec<_> = passed.split(|byte| *byte == b',').filter(|part| *part != STRICT).collect();
    (!kept.is_empty()).then(|| [PASSED, &kept.join(&b',')].concat())
}

/// Writes a response file with all arguments. The contents of other response files replace their `@` arguments.
fn expanded(given: &[OsString]) -> io::Result<Temporary> {
    let file = Temporary::beside(&Entry::at_path(&std::env::temp_dir().join("arguments"))?, 0o600)?;
    let mut writer = BufWriter::new(&file.file);
    Scan::default().arguments(given, &mut |argument| {
        remove_strict(argument).map_or(Ok(()), |argument| writer.write_all(&quoted(&argument)))
    })?;
    writer.flush()?;
    drop(writer);
    Ok(file)
}

/// Quotes an argument so that [`split`] returns it again, and adds a line end.
fn quoted(argument: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in argument {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.extend(b"\"\n");
    text
}

/// The state of reading arguments.
///
/// Response files continue the state of the arguments around them. So `-o @names` works, and so does `-o` at the end of
/// a response file.
#[derive(Default)]
struct Scan {
    output: Option<PathBuf>,
    is_strict: bool,
    is_strict_in_file: bool,
    is_question: bool,
    /// True if the last argument was `-o` or `--output` without its value.
    is_value: bool,
    num_files: usize,
    /// The response files that are being read. Each is contained in the file before it.
    open: Vec<PathBuf>,
}

/// Receives each argument that is no response file.
type Sink<'s> = dyn FnMut(&[u8]) -> io::Result<()> + 's;

impl Scan {
    /// Reads arguments. Returns `None` for too many response files, or for one that contains itself.
    fn arguments(&mut self, arguments: &[OsString], sink: &mut Sink<'_>) -> io::Result<Option<()>> {
        for argument in arguments {
            let bytes = argument.as_encoded_bytes();
            if let Some(path) = bytes.strip_prefix(b"@") {
                self.num_files += 1;
                if self.num_files > MAX_FILES {
                    return Ok(None);
                }
                // As in GCC and GNU ld, `@NAME` without a file of this name is an ordinary argument.
                if let Ok((path, text)) = response_file(&path_of(path)) {
                    if self.file(path, &text, sink)?.is_none() {
                        return Ok(None);
                    }
                    continue;
                }
            }
            self.argument(bytes);
            sink(bytes)?;
        }
        Ok(Some(()))
    }

    /// Reads the arguments in a response file. Returns `None` if the file contains itself, or if there are too many
    /// files.
    fn file(&mut self, path: PathBuf, text: &[u8], sink: &mut Sink<'_>) -> io::Result<Option<()>> {
        if self.open.contains(&path) {
            return Ok(None);
        }
        self.open.push(path);
        let result = self.arguments(&split(text), sink);
        self.open.pop();
        result
    }

    fn argument(&mut self, bytes: &[u8]) {
        if remove_strict(bytes).is_none_or(|kept| kept.len() < bytes.len()) {
            self.is_strict = true;
            self.is_strict_in_file |= !self.open.is_empty();
        } else if self.is_value {
            self.output = Some(path_of(bytes));
            self.is_value = false;
        } else if is_output(bytes) {
            self.is_value = true;
        } else if let Some(path) = output_of(bytes) {
            self.output = Some(path_of(path));
        } else {
            self.is_question |= is_question(bytes);
        }
    }
}

/// Returns true for `-o`, for `--output`, and for every abbreviation of `--output` that GNU ld takes.
fn is_output(argument: &[u8]) -> bool {
    argument == b"-o" || argument.len() > 3 && b"--output".starts_with(argument)
}

/// Returns the value of `-oNAME` or `--output=NAME`. GNU ld and lld read `-output=NAME` as `-o utput=NAME`.
fn output_of(argument: &[u8]) -> Option<&[u8]> {
    match argument.iter().position(|byte| *byte == b'=') {
        Some(end) if is_output(&argument[..end]) && end > 2 => argument.get(end + 1..),
        _ => argument.strip_prefix(b"-o"),
    }
}

/// Returns true for options that linkers can answer without linking anything.
fn is_question(argument: &[u8]) -> bool {
    let long = argument.strip_prefix(b"--").or_else(|| argument.strip_prefix(b"-")).unwrap_or_default();
    matches!(long, b"v" | b"V" | b"version" | b"help" | b"verbose") || long.starts_with(b"print-")
}

/// Reads a response file, and returns its canonical path and its bytes. A pipe is an error: the linker could not read
/// it again.
fn response_file(path: &Path) -> io::Result<(PathBuf, Vec<u8>)> {
    let path = fs::canonicalize(path)?;
    if !path.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let text = fs::read(&path)?;
    Ok((path, text))
}

/// Splits a response file into arguments, by GNU's rules. Blanks separate arguments. Single and double quotes enclose
/// blanks. A backslash takes the next byte as it is, even in quotes.
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

fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(arguments: &[&str]) -> String {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let read = Arguments::read(&arguments).expect("no file to write").expect("an output");
        read.output.to_str().expect("a name").to_owned()
    }

    /// The rules are from ld(1), `-o` and `--output`. The default is a.out. An option of a single letter can have its
    /// value in the same argument.
    #[test]
    fn forms_of_the_option() {
        assert_eq!(output(&["a.o"]), "a.out");
        assert_eq!(output(&["a.o", "-o", "x"]), "x");
        assert_eq!(output(&["-ox", "a.o"]), "x");
        assert_eq!(output(&["--output=x"]), "x");
        assert_eq!(output(&["--output", "x"]), "x");
        assert_eq!(output(&["--outp=x=y"]), "x=y");
        assert_eq!(output(&["--ou", "x", "--oformat=elf64-x86-64"]), "x");
        assert_eq!(output(&["-output=x"]), "utput=x");
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

    /// A compiler driver that gets a response file writes its own response file for the linker, by GNU's rules.
    #[test]
    fn strict_in_a_response_file() {
        let directory = std::env::temp_dir().join(format!("cfi2sframe-ld-strict-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("file");
        fs::write(&file, "'a b' --strict -o \\\"x\\\\ ''").expect("a file");
        let given = ["-Wl,-x,--strict,y", "--strict", "z"].map(OsString::from);
        let read = Arguments::read(&given).expect("nothing to write").expect("few files");
        assert!(read.is_strict && read.passed == ["-Wl,-x,y", "z"].map(OsString::from), "{read:?}");
        let given = [&given[..], &[format!("@{}", file.display()).into()]].concat();
        let read = Arguments::read(&given).expect("a response file").expect("few files");
        let argument = read.passed[0].to_str().expect("a name").to_owned();
        let passed = split(&fs::read(&argument[1..]).expect("the response file"));
        assert_eq!(passed, ["-Wl,-x,y", "z", "a b", "-o", "\"x\\", ""].map(OsString::from));
        assert!(read.is_strict && read.output == Path::new("\"x\\"), "{read:?}");
        drop(read);
        assert!(!Path::new(&argument[1..]).exists());
        fs::remove_dir_all(directory).expect("removed");
    }

    /// GNU ld 2.40 takes 1999 response files, and refuses 2000.
    #[test]
    fn too_many_response_files() {
        let directory = std::env::temp_dir().join(format!("cfi2sframe-ld-many-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let read_output = |file: &Path| {
            let read = Arguments::read(&[format!("@{}", file.display()).into()]).expect("nothing to write");
            read.map(|arguments| arguments.output)
        };
        let [empty, outer] = ["empty", "outer"].map(|name| directory.join(name));
        fs::write(&empty, "").expect("a file");
        for (count, expected) in [(1998, Some("x".into())), (1999, None)] {
            fs::write(&outer, format!("@{} ", empty.display()).repeat(count) + "-o x").expect("a file");
            assert_eq!(read_output(&outer), expected, "{count} and one");
        }
        // Each file contains the next file ten times, and the last file contains the first.
        let chain = |i: usize| directory.join((i % 10).to_string());
        for i in 0..10 {
            fs::write(chain(i), format!("@{} ", chain(i + 1).display()).repeat(10)).expect("a file");
        }
        assert_eq!(read_output(&chain(0)), None);
        fs::remove_file(chain(9)).expect("removed");
        assert_eq!(read_output(&chain(0)), None);
        fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn blanks_and_quotes() {
        let expected = ["a", "", "b c", "\\d"].map(OsString::from);
        assert_eq!(split(b" a '' \"b c\"\n\\\\d\\"), expected);
        assert_eq!(split(b" \n"), Vec::<OsString>::new());
    }
}
