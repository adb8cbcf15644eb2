//! Names in tables of strings.

use std::borrow::Cow;

use cfipack_format::widen::ToUsize;

/// Bytes of the longest name that is read. The names of symbols, sections and members may start at successive bytes of
/// one long name: read to their ends, they would have as many bytes as the square of the file.
pub(crate) const MAX_NAME_LEN: usize = 4096;

/// The name at an offset of a table of strings: up to a zero or the end of the table. One that is too long is cut after
/// its first byte too many.
pub(crate) fn at(strings: &[u8], offset: u32) -> &[u8] {
    let rest = strings.get(offset.to_usize()..).unwrap_or_default();
    let rest = &rest[..rest.len().min(MAX_NAME_LEN + 1)];
    let end = rest.iter().position(|&byte| byte == 0);
    &rest[..end.unwrap_or(rest.len())]
}

/// A name as text: what is not UTF-8 is replaced, and `…` ends one that was cut.
pub(crate) fn text(name: &[u8]) -> Cow<'_, str> {
    match name.get(..MAX_NAME_LEN) {
        Some(start) if name.len() > MAX_NAME_LEN => {
            Cow::Owned(String::from_utf8_lossy(start).into_owned() + "…")
        }
        _ => String::from_utf8_lossy(name),
    }
}
