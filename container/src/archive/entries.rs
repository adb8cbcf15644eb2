//! The entries of an archive as they lie in the file: the members, and the tables that describe the members.

use std::ops::Range;

use cfipack_format::widen::ToU64;
use object::archive::{MAGIC, TERMINATOR, THIN_MAGIC};

use crate::error::Error;
use crate::names::MAX_NAME_LEN;

/// The size of an entry's header in bytes.
pub const HEADER_LEN: usize = 60;

/// The place of the decimal size in an entry's header.
pub const SIZE_FIELD: Range<usize> = 48..58;

/// The kind of an archive's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A file.
    Member,
    /// The symbol index, in one of two forms.
    SymbolIndex(IndexKind),
    /// The table of long names in a GNU archive.
    Names,
    /// An entry that only Microsoft's archives have: a second symbol index in another form, or a map for hybrid code.
    Foreign,
}

/// The form of a symbol index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// The entry `/` or `/SYM64/`: a count, then so many offsets of members, all in big-endian order.
    Gnu {
        /// The size of each number in bytes: 4, or 8 in `/SYM64/`.
        width: usize,
    },
    /// The entry `__.SYMDEF` or `__.SYMDEF_64`: the size of a list in bytes, then the list of pairs (name, offset of
    /// a member). Numbers have the byte order of the machine.
    Bsd {
        /// The size of each number in bytes: 4, or 8 in `__.SYMDEF_64`.
        width: usize,
    },
}

/// An entry of an archive.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The offset of the entry's header in the archive.
    pub header: usize,
    /// The name, without the padding or `/` at its end.
    pub name: &'a [u8],
    /// In a thin archive, if the name leads to another archive: the offset of the member's header in that archive.
    pub nested: Option<u64>,
    /// The place of the contents in the archive. A BSD-style name (`#1/length`) before the contents is not part of
    /// them. In a thin archive the range of a member is empty.
    pub data: Range<usize>,
    /// The size that the header states in bytes. It includes a BSD-style name before the contents.
    pub size: u64,
    /// The offset of the next entry. If there is a byte of padding, the offset is after it.
    pub end: usize,
}

/// Iterates over the entries of an archive in file order. After an error the iterator ends.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    is_thin: bool,
    names: &'a [u8],
    next: usize,
}

impl<'a> Entries<'a> {
    /// Returns the entries of an ordinary or thin archive, or `None` if the bytes do not start with an archive's
    /// magic.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let is_thin = bytes.starts_with(&THIN_MAGIC);
        let is_archive = is_thin || bytes.starts_with(&MAGIC);
        is_archive.then_some(Self { bytes, is_thin, names: &[], next: MAGIC.len() })
    }

    fn read(&mut self) -> Option<Entry<'a>> {
        let header = self.next;
        let after = header.checked_add(HEADER_LEN)?;
        let fields = self.bytes.get(header..after)?;
        if fields[58..] != TERMINATOR {
            return None;
        }
        let size = decimal(fields[SIZE_FIELD].trim_ascii_end())?;
        let short_name = fields[..16].trim_ascii_end();
        let gnu = match short_name {
            b"/" => Some(EntryKind::SymbolIndex(IndexKind::Gnu { width: 4 })),
            b"/SYM64/" => Some(EntryKind::SymbolIndex(IndexKind::Gnu { width: 8 })),
            b"//" => Some(EntryKind::Names),
            _ if short_name.starts_with(b"/<") => Some(EntryKind::Foreign),
            _ => None,
        };
        let is_elsewhere = self.is_thin && gnu.is_none();
        let end = after.checked_add(if is_elsewhere { 0 } else { usize::try_from(size).ok()? })?;
        let mut entry = Entry {
            kind: gnu.unwrap_or(EntryKind::Member),
            header,
            name: short_name,
            nested: None,
            data: after..end,
            size,
            end,
        };
        self.bytes.get(entry.data.clone())?;
        // The padding after the last entry may be missing.
        entry.end = (end + (end & 1)).min(self.bytes.len());
        match gnu {
            None => self.find_name(&mut entry)?,
            Some(EntryKind::Names) => self.names = &self.bytes[entry.data.clone()],
            Some(_) => {}
        }
        let is_first = header == MAGIC.len();
        if matches!(entry.kind, EntryKind::SymbolIndex(_)) && !is_first {
            entry.kind = EntryKind::Foreign;
        }
        self.next = entry.end;
        Some(entry)
    }

    /// If the name in a member's header refers to a long name, replaces it with the long name.
    fn find_name(&self, entry: &mut Entry<'a>) -> Option<()> {
        if let Some(length) = entry.name.strip_prefix(b"#1/") {
            let length = usize::try_from(decimal(length)?).ok()?;
            let data = entry.data.start.checked_add(length).filter(|&start| start <= entry.data.end)?;
            let name = &self.bytes[entry.data.start..data];
            let padding = name.iter().rev().take_while(|&&byte| byte == 0).count();
            entry.name = &name[..name.len() - padding];
            entry.data.start = data;
        } else if let Some(place) = entry.name.strip_prefix(b"/").filter(|place| !place.is_empty()) {
            let colon = place.iter().position(|&byte| byte == b':');
            let (place, nested) = match colon {
                Some(colon) if self.is_thin => (&place[..colon], Some(decimal(&place[colon + 1..])?)),
                _ => (place, None),
            };
            let name = self.names.get(usize::try_from(decimal(place)?).ok()?..)?;
            let end = name.iter().take(MAX_NAME_LEN).position(|byte| matches!(byte, b'\n' | 0))?;
            entry.name = &name[..end];
            entry.nested = nested;
        }
        let is_first = entry.header == MAGIC.len();
        if let (true, Some(kind)) = (is_first, bsd_index(entry.name)) {
            entry.kind = EntryKind::SymbolIndex(kind);
        }
        entry.name = entry.name.strip_suffix(b"/").unwrap_or(entry.name);
        (entry.name.len() <= MAX_NAME_LEN).then_some(())
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.bytes.len() {
            return None;
        }
        let offset = self.next.to_u64();
        let entry = self.read();
        if entry.is_none() {
            self.next = self.bytes.len();
        }
        Some(entry.ok_or(Error::Archive { offset }))
    }
}

/// Returns the form of the symbol index, if an archive of the BSDs or Darwin calls its index by this name.
fn bsd_index(name: &[u8]) -> Option<IndexKind> {
    match name {
        b"__.SYMDEF" | b"__.SYMDEF SORTED" => Some(IndexKind::Bsd { width: 4 }),
        b"__.SYMDEF_64" | b"__.SYMDEF_64 SORTED" => Some(IndexKind::Bsd { width: 8 }),
        _ => None,
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(digits).ok()?.parse().ok()
}
