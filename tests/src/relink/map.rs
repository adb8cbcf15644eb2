//! Reads the map of `ld -Map`: which files were linked, and where their sections are.

use std::collections::HashSet;

/// A map file.
#[derive(Debug, Default)]
pub struct Map {
    /// The files of the command line in order. An archive stands for its members.
    pub loaded: Vec<Loaded>,
    /// The archive members that were linked, in order.
    pub members: Vec<Member>,
    /// The output sections in the map's order. Some have no header in the output.
    pub outputs: Vec<Output>,
    /// Input sections that are in the output.
    pub placed: Vec<Input>,
    /// Input sections that are not in the output.
    pub discarded: Vec<Input>,
    /// Bytes of `ld`'s own tables for PLTs, one number for each PLT section. 0 if `ld` made none.
    pub plt_tables: Vec<u64>,
}

/// A file of the command line.
#[derive(Debug)]
pub struct Loaded {
    /// The path that the linker was given.
    pub file: String,
    /// The number of the first file of its group, or its own number without a group. Groups are searched repeatedly.
    group: usize,
}

/// A member of an archive.
#[derive(Debug)]
pub struct Member {
    /// `ARCHIVE(MEMBER)`.
    pub file: String,
    /// The file that needs the member: `FILE (SYMBOL)`, `(SYMBOL)` or `(--whole-archive)`. Empty while it is not known.
    pub referrer: String,
}

/// An output section.
#[derive(Debug)]
pub struct Output {
    /// The name.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
}

/// An input section.
#[derive(Clone, Debug)]
pub struct Input {
    /// The name.
    pub name: String,
    /// The address in the output. In relocatable output it counts from the output section, unless a script gives it an
    /// address.
    pub address: u64,
    /// The size in bytes.
    pub size: u64,
    /// The path that the linker was given. For members `ARCHIVE(MEMBER)`.
    pub file: String,
    /// The number of its output section.
    pub output: usize,
    /// Global symbols that it defines.
    pub symbols: Vec<String>,
}

/// The part of the file that a line is in.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Members,
    Discarded,
    Other,
    Placed,
}

impl Map {
    /// Reads a map in English (`LC_ALL=C`). Returns `None` if it is no map.
    pub fn parse(text: &str) -> Option<Self> {
        let mut map = Self::default();
        let (mut part, mut name_alone, mut group) = (Part::Other, None::<&str>, None);
        for line in text.lines() {
            let heading = [
                ("Archive member included", Part::Members),
                ("Discarded input sections", Part::Discarded),
                ("Linker script and memory map", Part::Placed),
                ("As-needed library included", Part::Other),
                ("Merging program properties", Part::Other),
                ("There are no discarded input sections", Part::Other),
                ("Memory Configuration", Part::Other),
                ("Cross Reference Table", Part::Other),
            ];
            if let Some((_, next)) = heading.iter().find(|(heading, _)| line.starts_with(heading)) {
                if part == Part::Placed {
                    break;
                }
                part = *next;
                continue;
            }
            match part {
                Part::Members => map.add_member(line),
                _ if line == "START GROUP" => group = Some(map.loaded.len()),
                _ if line == "END GROUP" => group = None,
                _ if line.starts_with("LOAD ") => {
                    let group = group.unwrap_or(map.loaded.len());
                    map.loaded.push(Loaded { file: line[5..].to_owned(), group });
                }
                Part::Discarded | Part::Placed => {
                    // If a name is too long for its column, the rest is on the next line.
                    let joined = name_alone.take().filter(|_| line.starts_with("                0x"));
                    let joined = joined.map(|name| format!("{name} {}", line.trim_start()));
                    let whole = joined.as_deref().unwrap_or(line);
                    if !map.add_line(whole, part) && !line.trim().is_empty() && !line.starts_with("  ") {
                        name_alone = Some(line);
                    }
                }
                _ => {}
            }
        }
        (part == Part::Placed).then_some(map)
    }

    /// Reads a line `ARCHIVE(MEMBER)   REFERRER`. A long name is alone on its line.
    fn add_member(&mut self, line: &str) {
        if line.starts_with(' ') {
            self.members.last_mut().into_iter().for_each(|member| member.referrer = line.trim().to_owned());
        } else if let Some(end) = line.find(")  ").or(line.rfind(')')) {
            let (file, referrer) = line.split_at(end + 1);
            self.members.push(Member { file: file.to_owned(), referrer: referrer.trim().to_owned() });
        }
    }

    /// Reads a line. Returns false if the line has no effect.
    fn add_line(&mut self, line: &str, part: Part) -> bool {
        let is_input = line.starts_with(' ');
        let mut words = line.trim_start().splitn(2, ' ');
        let (Some(name), Some(rest)) = (words.next(), words.next()) else { return false };
        if line.starts_with("  ") {
            // `ADDRESS   SYMBOL`, or an assignment.
            let mut words = rest.split_whitespace();
            if let (Some(input), Some(symbol), None) = (self.placed.last_mut(), words.next(), words.next())
                && name.starts_with("0x")
            {
                input.symbols.push(symbol.to_owned());
            }
            return false;
        }
        if name.starts_with('*') {
            return false;
        }
        let Some((address, rest)) = number(rest) else { return false };
        let Some((size, file)) = number(rest) else { return false };
        let (name, file) = (name.to_owned(), file.trim().to_owned());
        if !is_input {
            self.outputs.push(Output { name, size });
        } else if file == "linker stubs" {
            if name == ".sframe" {
                self.plt_tables.push(size);
            }
        } else {
            let output = self.outputs.len().wrapping_sub(1);
            let inputs = if part == Part::Placed { &mut self.placed } else { &mut self.discarded };
            inputs.push(Input { name, address, size, file, output, symbols: Vec::new() });
        }
        true
    }

    /// Returns whether no table of an object is in the output. `ld --discard-sframe` writes tables without bytes, and
    /// with `--gc-sections` the map does not have the tables at all.
    pub fn has_no_tables(&self) -> bool {
        self.placed.iter().filter(|input| input.name == ".sframe").all(|input| input.size == 0)
    }

    /// Returns the files with sections, each once, in the order in which they were linked.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut members = self.members.iter().peekable();
        for (number, loaded) in self.loaded.iter().enumerate() {
            files.push(loaded.file.clone());
            // Archives of a group are searched again after later ones. A file that needs a member comes first.
            let searched = &self.loaded[loaded.group..=number];
            while let Some(member) = members.peek()
                && searched.iter().any(|loaded| loaded.file == archive(&member.file))
                && member.referrer_file().is_none_or(|referrer| files.iter().any(|file| file == referrer))
            {
                files.push(member.file.clone());
                members.next();
            }
        }
        files.extend(members.map(|member| member.file.clone()));
        files.extend(self.placed.iter().chain(&self.discarded).map(|input| input.file.clone()));
        let has_sections: HashSet<_> =
            self.placed.iter().chain(&self.discarded).map(|input| input.file.as_str()).collect();
        let mut seen = HashSet::new();
        files.retain(|file| has_sections.contains(file.as_str()) && seen.insert(file.clone()));
        files
    }
}

impl Member {
    /// Returns the file that needs the member.
    fn referrer_file(&self) -> Option<&str> {
        self.referrer.rsplit_once(" (").map(|(file, _)| file)
    }
}

/// Returns the archive of `ARCHIVE(MEMBER)`, or the file itself.
pub fn archive(file: &str) -> &str {
    member(file).map_or(file, |(archive, _)| archive)
}

/// Splits `ARCHIVE(MEMBER)`.
pub fn member(file: &str) -> Option<(&str, &str)> {
    file.strip_suffix(')')?.rsplit_once('(')
}

/// Splits off a hexadecimal number at the start of a text.
fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.trim_start().strip_prefix("0x")?;
    let (digits, rest) = digits.split_at(digits.find(' ').unwrap_or(digits.len()));
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}
