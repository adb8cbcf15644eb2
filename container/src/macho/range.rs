//! Ranges of a file.

/// Returns `size` bytes at an offset, or `None` if they end beyond the file.
pub(super) fn range(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
}
