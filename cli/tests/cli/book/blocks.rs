//! The parts of a page that are made: blocks of code, by their language or by the comment in the line before.

/// A block that can be made again.
pub enum Block<'a> {
    /// ```` ```console ````: commands after `$ `, and what they print.
    Console(&'a str),
    /// ```` ```text ```` after `<!-- bytes of FILE -->`: the file's bytes, field by field.
    Bytes(&'a str),
    /// Any block after `<!-- from FILE -->`: lines of the file.
    Source { file: &'a str, text: &'a str },
}

/// The page with the text of each such block replaced.
pub fn replace(page: &str, mut make: impl FnMut(Block<'_>) -> String) -> String {
    let mut made = String::new();
    let mut before = "";
    let mut rest = page;
    while let Some(line) = take_line(&mut rest) {
        made += line;
        if let Some(language) = line.strip_prefix("```") {
            let end = rest.find("```\n").expect("the end of a block");
            let (text, after) = rest.split_at(end);
            let comment = |start| before.strip_prefix(start)?.strip_suffix(" -->\n");
            let block = match (comment("<!-- bytes of "), comment("<!-- from "), language.trim_end()) {
                (Some(file), ..) => Some(Block::Bytes(file)),
                (_, Some(file), _) => Some(Block::Source { file, text }),
                (.., "console") => Some(Block::Console(text)),
                _ => None,
            };
            made += &block.map_or_else(|| text.to_owned(), &mut make);
            made += "```\n";
            rest = &after["```\n".len()..];
        }
        before = line;
    }
    made
}

/// The next line with its end.
fn take_line<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
    let (line, after) = rest.split_at(end);
    *rest = after;
    (!line.is_empty()).then_some(line)
}
