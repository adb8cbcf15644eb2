//! The entries of an archive as they lie in the file: its members and the tables that describe them.

use std::ops::Range;

use cfipack_format::widen::ToU64;
use object::archive::{MAGIC, TERMINATOR, THIN_MAGIC};

use crate::error::Error;
use crate::names::MAX_NAME_LEN;

/// Bytes of an entry's header.
pub const HEADER_LEN: usize = 60;

/// The decimal size in a header.
pub const SIZE_FIELD: Range<usize> = 48..58;

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A file.
    Member,
    /// The symbol index, with what its numbers look like.
    SymbolIndex(IndexKind),
    /// The long names of a GNU archive.
    Names,
    /// An entry that only Microsoft's archives have: a second symbol index, of another form, and maps for hybrid code.
    Foreign,
}

/// A form of the symbol index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexKind {
    /// `/`, or `/SYM64/` with 8 bytes a number: a count and as many offsets, big-endian.
    Gnu {
        /// Bytes of a number.
        width: usize,
    },
    /// `__.SYMDEF`, or `__.SYMDEF_64`: the bytes of pairs of name and offset, in the byte order of the machine.
    Bsd {
        /// Bytes of a number.
        width: usize,
    },
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The start of its header.
    pub header: usize,
    /// The name, without what only ends it.
    pub name: &'a [u8],
    /// In a thin archive, where the member starts in the archive that the name leads to.
    pub nested: Option<u64>,
    /// The bytes in the file, after a name that stands before them; none for a member of a thin archive.
    pub data: Range<usize>,
    /// The size that the header states, which contains that of a name before the bytes.
    pub size: u64,
    /// The start of the next entry: after a byte of padding, if there is one.
    pub end: usize,
}

/// The entries of an archive, in its order.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    is_thin: bool,
    names: &'a [u8],
    next: usize,
}

impl<'a> Entries<'a> {
    /// The entries of an archive or a thin one; none of what is neither.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
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
        let size = decimal(trimmed(&fields[SIZE_FIELD]))?;
        let short_name = trimmed(&fields[..16]);
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
        // The padding of the last one may be missing.
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

    /// Finds a member's name where the header states that it is.
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

/// The form of the symbol index with this name in archives of the BSDs and of Darwin.
fn bsd_index(name: &[u8]) -> Option<IndexKind> {
    match name {
        b"__.SYMDEF" | b"__.SYMDEF SORTED" => Some(IndexKind::Bsd { width: 4 }),
        b"__.SYMDEF_64" | b"__.SYMDEF_64 SORTED" => Some(IndexKind::Bsd { width: 8 }),
        _ => None,
    }
}

/// A field without the spaces that fill it.
fn trimmed(field: &[u8]) -> &[u8] {
    field.trim_ascii_end()
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}
