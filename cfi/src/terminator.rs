//! Finds the end of an `.eh_frame` in memory.

use cfipack_format::{Address, Arch};

use crate::record::Records;
use crate::{Error, Section, SectionKind};

/// Returns the length of an `.eh_frame` in bytes, including the zero length at its end. Use this function if
/// you know only the start of the section.
///
/// For example, a running process gives you only the start: `.eh_frame_hdr` (found by `PT_GNU_EH_FRAME`) and
/// `__register_frame` have no length. Pass the bytes from the start of the section to any place at or after its
/// end, such as the end of its segment. The bytes after the zero length are other data, so do not include them
/// in a [`Section`].
///
/// Unwinders end a section at the same place (Linux Standard Base 5.0, "Exception Frames"). If the bytes end
/// after a record without a zero length, this function returns the length of all records. It reads the length
/// of each record, and nothing else.
///
/// ```
/// use cfipack_cfi::{Functions, Section, SectionKind, eh_frame_len};
/// use cfipack_format::{Address, Arch};
///
/// let rest_of_segment = [
///     // CIE: "zR", pcrel sdata4; def_cfa rsp+8, offset rip -8
///     20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
///     // FDE: one byte of code at 0x1000
///     16, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0x0f, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
///     // the zero that ends the section, and another section
///     0, 0, 0, 0, 0xff, 0x9b, 0x15, 0x01, 0x0c, 0x04, 0x00, 0x00,
/// ];
/// let len = eh_frame_len(&rest_of_segment, Arch::Amd64)?;
/// assert_eq!(len, 24 + 20 + 4);
/// let section = Section::new(SectionKind::EhFrame, &rest_of_segment[..len], Address(0), Arch::Amd64);
/// assert!(Functions::new(&section).all(|function| function.is_ok()));
/// # Ok::<(), cfipack_cfi::Error>(())
/// ```
///
/// # Errors
/// [`Error::Length`] or [`Error::Truncated`]: a record reaches beyond the bytes. The [offset](Error::offset) of
/// the error is the length of the records before it. These records are readable.
pub fn eh_frame_len(bytes: &[u8], arch: Arch) -> Result<usize, Error> {
    let records = Records::new(&Section::new(SectionKind::EhFrame, bytes, Address(0), arch), true);
    let mut at = 0;
    while let Some([a, b, c, d, ..]) = bytes.get(at..) {
        if [a, b, c, d] == [&0; 4] {
            return Ok(at + 4);
        }
        at = records.end(at)?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use cfipack_format::{Address, Arch, SectionOffset};

    use super::eh_frame_len;
    use crate::write::{Cie, Writer};
    use crate::{Error, SectionKind};

    /// A CIE and two FDEs, and the offset of each record.
    fn records(arch: Arch) -> (Vec<u8>, Vec<usize>) {
        let mut writer = Writer::new(SectionKind::EhFrame, arch, Address(0));
        let cie = writer.cie(&Cie::new(arch, &[])).unwrap();
        let mut offsets = alloc::vec![0];
        for start in [0x1000, 0x2000] {
            offsets.push(writer.offset().0);
            writer.fde(&cie, Address(start), 16, None, &[]).unwrap();
        }
        (writer.into_bytes(), offsets)
    }

    /// gimli also ends a section at the zero, and finds the same number of entries.
    #[test]
    fn a_section_ends_at_its_zero_whatever_follows() {
        use gimli::UnwindSection;
        for arch in [Arch::Amd64, Arch::S390x] {
            let (mut bytes, _) = records(arch);
            let len = bytes.len();
            assert_eq!(eh_frame_len(&bytes, arch), Ok(len));
            assert_eq!(eh_frame_len(&[&bytes[..], &[0; 3]].concat(), arch), Ok(len));
            bytes.extend([0; 4]);
            for after in [&[][..], &[0], &[0; 64], &[0xff; 64], &bytes.clone()] {
                let more = [&bytes[..], after].concat();
                assert_eq!(eh_frame_len(&more, arch), Ok(len + 4));
                let big = arch == Arch::S390x;
                let endian = if big { gimli::RunTimeEndian::Big } else { gimli::RunTimeEndian::Little };
                let (section, bases) = (gimli::EhFrame::new(&more, endian), gimli::BaseAddresses::default());
                let mut entries = section.entries(&bases);
                let mut count = 0;
                while entries.next().unwrap().is_some() {
                    count += 1;
                }
                assert_eq!(count, 3);
            }
        }
        assert_eq!(eh_frame_len(&[], Arch::Amd64), Ok(0));
    }

    #[test]
    fn a_record_beyond_the_bytes_keeps_those_before_it() {
        let (bytes, offsets) = records(Arch::Amd64);
        for &offset in &offsets {
            let mut long = bytes.clone();
            long[offset..offset + 4].copy_from_slice(&0x7fff_0000_u32.to_le_bytes());
            let offset = SectionOffset(offset);
            assert_eq!(eh_frame_len(&long, Arch::Amd64), Err(Error::Length { offset, length: 0x7fff_0000 }));
            // The 64-bit form, cut off in its length, and as long as it can be.
            long[offset.0..].fill(0xff);
            let error = eh_frame_len(&long, Arch::Amd64).unwrap_err();
            assert_eq!((error.offset(), error), (offset, Error::Length { offset, length: u64::MAX }));
            assert_eq!(eh_frame_len(&long[..offset.0 + 7], Arch::Amd64), Err(Error::Truncated { offset }));
        }
    }
}
