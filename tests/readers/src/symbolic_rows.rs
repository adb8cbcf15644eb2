//! Prints the rows of a file as symbolic converts them for Breakpad.

use symbolic_cfi::AsciiCfiWriter;
use symbolic_debuginfo::Object;

/// Takes the file.
pub fn run(words: &[String]) -> Result<String, String> {
    let file = std::fs::read(&words[0]).expect("a file");
    let object = Object::parse(&file).map_err(|error| error.to_string())?;
    let mut writer = AsciiCfiWriter::new(Vec::new());
    let result = writer.process(&object);
    let text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    result.map(|()| text).map_err(|error| {
        let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
        causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
    })
}
