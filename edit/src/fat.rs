//! Rebuilds a fat file around changed slices.

use std::ops::Range;

use cfipack_container::raw::fat;
use cfipack_container::{Error, Member};
use cfipack_format::widen::{ToU64, ToUsize};
use object::macho::{self, FatArch32, FatArch64, FatHeader};
use object::read::macho::{FatArch, MachOFatFile};

use crate::rewrite::{Patch, Rewrite};

/// The largest alignment of a slice, as a power of 2. It is the limit of Apple's tools.
const MAX_ALIGN: u32 = 15;

/// A slice, and the fields that describe it.
struct Slice {
    range: Range<usize>,
    align: usize,
    /// The offset of the entry in the header.
    entry: usize,
    index: usize,
}

/// Rebuilds a fat file. It calls `rewrite` for each slice, in the order of the header, and puts the result in the place
/// of the slice. `None`, or the same bytes, leaves a slice as it is. Slices keep their order and their alignment in the
/// file. Returns `None` if the file is not a fat file.
///
/// # Errors
/// Returns the errors of `rewrite`, [`Error::Table`] for a damaged header and for slices that overlap or no longer fit
/// into the file, and [`Error::Unsupported`] for an alignment of more than 32 KiB.
pub fn rewrite_slices<'a, E: From<Error>>(
    bytes: &'a [u8],
    mut rewrite: impl FnMut(&Member<'a>) -> Result<Option<Rewrite<'a>>, E>,
) -> Result<Option<Rewrite<'a>>, E> {
    match bytes.first_chunk().map(|magic| u32::from_be_bytes(*magic)) {
        Some(macho::FAT_MAGIC) => rewrite_width::<FatArch32, E>(bytes, &mut rewrite, 4).map(Some),
        Some(macho::FAT_MAGIC_64) => rewrite_width::<FatArch64, E>(bytes, &mut rewrite, 8).map(Some),
        _ => Ok(None),
    }
}

fn rewrite_width<'a, Arch: FatArch, E: From<Error>>(
    bytes: &'a [u8],
    rewrite: &mut impl FnMut(&Member<'a>) -> Result<Option<Rewrite<'a>>, E>,
    width: usize,
) -> Result<Rewrite<'a>, E> {
    let known = fat::read::<Arch>(bytes)?;
    let file = MachOFatFile::<Arch>::parse(bytes).map_err(|_| damaged(0, bytes.len()))?;
    let (mut slices, mut changed) = (Vec::new(), Vec::new());
    for (index, (arch, slice)) in file.arches().iter().zip(&known).enumerate() {
        let entry = size_of::<FatHeader>() + index * size_of::<Arch>();
        let start = arch.file_range().0.to_usize();
        if arch.align() > MAX_ALIGN {
            let (offset, value) = (entry.to_u64(), arch.align().into());
            return Err(Error::Unsupported { what: "alignment of a slice", offset, value, name: None }.into());
        }
        slices.push(Slice {
            range: start..start + slice.bytes.len(),
            align: 1 << arch.align(),
            entry,
            index,
        });
        let rewrite = rewrite(&slice.member())?;
        changed.push(rewrite.filter(|rewrite| !rewrite.is_unchanged(slice.bytes)));
    }
    if changed.iter().all(Option::is_none) {
        return Ok(Rewrite::unchanged(bytes.len()));
    }
    Ok(assemble(bytes, slices, changed, width)?)
}

/// Puts the slices into the new file in their order.
fn assemble<'a>(
    bytes: &'a [u8],
    mut slices: Vec<Slice>,
    mut changed: Vec<Option<Rewrite<'a>>>,
    width: usize,
) -> Result<Rewrite<'a>, Error> {
    slices.sort_by_key(|slice| (slice.range.start, slice.range.end));
    let end_of_header = slices.iter().map(|slice| slice.entry).max().unwrap_or(0) + 2 * width + 12;
    let first = slices.first().map_or(bytes.len(), |slice| slice.range.start);
    if first < end_of_header.min(bytes.len()) {
        return Err(damaged(0, first));
    }
    let (mut new, mut patches) = (Rewrite::new(), Vec::new());
    new.old(0..first);
    let mut done = first;
    for Slice { range, align, entry, index } in slices {
        if range.start < done {
            return Err(damaged(entry, range.len()));
        }
        // Bytes between slices are padding. It stays as long as no slice has moved.
        if new.len() == done && range.start % align == 0 {
            new.old(done..range.start);
        } else {
            new.align(align);
        }
        let start = new.len();
        match changed.get_mut(index).and_then(Option::take) {
            Some(slice) => new.append(slice, range.start),
            None => new.old(range.clone()),
        }
        for (field, value) in [(8, start), (8 + width, new.len() - start)] {
            let number = value.to_be_bytes();
            let fits = width == 8 || u32::try_from(value).is_ok();
            if !fits {
                return Err(damaged(entry, value));
            }
            let (offset, bytes) = (entry + field, number[number.len() - width..].to_vec());
            patches.push(Patch { offset, what: "fat header: offset and size of a slice".into(), bytes });
        }
        done = range.end;
    }
    new.old(done..bytes.len());
    Ok(new.patch(patches))
}

fn damaged(offset: usize, value: usize) -> Error {
    Error::Table { what: "slice of a fat file", offset: offset.to_u64(), value: value.to_u64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a fat file with slices at these offsets. The fields are big-endian, as in `mach-o/fat.h`.
    fn fat(slices: &[(u32, &[u8])], align: u32) -> Vec<u8> {
        let mut bytes = [macho::FAT_MAGIC, slices.len() as u32].map(u32::to_be_bytes).concat();
        for (number, (offset, slice)) in (0..).zip(slices) {
            let cpu = [macho::CPU_TYPE_X86_64.0, macho::CPU_TYPE_ARM64.0][number % 2];
            bytes.extend([cpu, 3, *offset, slice.len() as u32, align].map(u32::to_be_bytes).concat());
        }
        for (offset, slice) in slices {
            let end = (*offset).to_usize() + slice.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[(*offset).to_usize()..end].copy_from_slice(slice);
        }
        bytes
    }

    /// Appends `more` bytes to the first slice of a fat file.
    fn longer(bytes: &[u8], more: usize) -> Result<Vec<u8>, Error> {
        let mut number = 0;
        let rewrite = rewrite_slices(bytes, |slice| {
            number += 1;
            let mut rewrite = Rewrite::unchanged(slice.bytes.len());
            rewrite.bytes("more", vec![b'+'; more]);
            Ok::<_, Error>(Some(rewrite).filter(|_| number == 1))
        });
        Ok(rewrite?.expect("a fat file").to_vec(bytes))
    }

    #[test]
    fn slices_keep_their_order_and_alignment() {
        let old = fat(&[(0x50, b"first"), (0x60, b"second")], 4);
        assert_eq!(longer(&old, 0).unwrap(), old);
        assert_eq!(longer(&old, 3).unwrap(), fat(&[(0x50, b"first+++"), (0x60, b"second")], 4));
        let new = longer(&old, 12).unwrap();
        assert_eq!(new, fat(&[(0x50, b"first++++++++++++"), (0x70, b"second")], 4));
        // `object` reads the result. Then the header lists the slices in the other order.
        let file = MachOFatFile::<FatArch32>::parse(&*new).unwrap();
        assert_eq!(file.arches()[1].data(&*new).unwrap(), b"second");
        let old = fat(&[(0x60, b"second"), (0x50, b"first")], 4);
        assert_eq!(longer(&old, 1).unwrap(), fat(&[(0x60, b"second+"), (0x50, b"first")], 4));
        assert!(rewrite_slices(b"!<arch>\n", |_| Ok::<_, Error>(None)).unwrap().is_none());
    }

    #[test]
    fn damaged_fat_files_are_refused() {
        let overlapping = fat(&[(0x50, b"first"), (0x52, b"second")], 1);
        assert!(matches!(longer(&overlapping, 1), Err(Error::Table { .. })));
        let in_header = fat(&[(0x10, b"first"), (0x60, b"second")], 4);
        assert!(matches!(longer(&in_header, 1), Err(Error::Table { .. })));
        let aligned = fat(&[(0x50, b"first"), (0x60, b"second")], 16);
        let refused = Error::Unsupported { what: "alignment of a slice", offset: 8, value: 16, name: None };
        assert_eq!(longer(&aligned, 1), Err(refused));
    }
}
