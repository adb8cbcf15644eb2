//! Names in string tables.

use std::borrow::Cow;

use cfipack_format::widen::ToUsize;

/// The longest name that is read, in bytes. Many symbols may have names that start at successive bytes of a
/// long name. Read to the end, these names would have a total length quadratic in the size of the file.
pub(crate) const MAX_NAME_LEN: usize = 4096;

/// Returns the name at an offset in a string table. It ends before a zero or at the end of the table. A name
/// that is too long is cut one byte after the maximum, so that [`text`] recognizes it.
pub(crate) fn at(strings: &[u8], offset: u32) -> &[u8] {
    let rest = strings.get(offset.to_usize()..).unwrap_or_default();
    let rest = &rest[..rest.len().min(MAX_NAME_LEN + 1)];
    let end = rest.iter().position(|&byte| byte == 0);
    &rest[..end.unwrap_or(rest.len())]
}

/// Returns a name as text. Bytes that are not UTF-8 are replaced, and `…` ends a name that was cut.
pub(crate) fn text(name: &[u8]) -> Cow<'_, str> {
    match name.get(..MAX_NAME_LEN) {
        Some(start) if name.len() > MAX_NAME_LEN => {
            Cow::Owned(String::from_utf8_lossy(start).into_owned() + "…")
        }
        _ => String::from_utf8_lossy(name),
    }
}
