//! Checks whether the rows of a table's function can be read, and finds how many bytes they take.
//!
//! The merger looks once at every row of every input, so this must be fast. Nearly all rows belong to default FDEs,
//! and for these a lookup table of info bytes suffices. For all other rows, and for errors, the decoder reads the
//! function.

use cfipack_format::widen::ToUsize;

use super::table::{RowBytes, Table};
use crate::decoder::sframe::Error;
use crate::format::Arch;
use crate::format::sframe::{Abi, FdeInfo, FreInfo, FreType, Version};

/// The number of bytes of a default FDE's FRE after its start, by info byte. It is 0 if the decoder must read the
/// FRE.
#[derive(Clone, Debug)]
pub(crate) struct FreLens([u8; 256]);

/// The rows of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    pub(crate) rows: RowBytes,
    pub(crate) num_fres: u32,
    /// The start of the first row that cannot be interpreted.
    pub(crate) malformed: Option<u32>,
}

impl FreLens {
    /// Returns the lengths for an architecture.
    pub(crate) fn new(arch: Arch) -> &'static Self {
        static AMD64: FreLens = FreLens::of(Abi::Amd64);
        static AARCH64: FreLens = FreLens::of(Abi::Aarch64);
        static S390X: FreLens = FreLens::of(Abi::S390x);
        match Abi::for_arch(arch) {
            Some(Abi::Amd64) => &AMD64,
            Some(Abi::Aarch64 | Abi::Aarch64Be) => &AARCH64,
            // There is no merger without an ABI.
            Some(Abi::S390x) | None => &S390X,
        }
    }

    const fn of(abi: Abi) -> Self {
        let most = if abi.fixed_ra_offset() != 0 { 2 } else { 3 };
        let (mut lens, mut byte) = ([0; 256], 0);
        while byte < lens.len() {
            let info = FreInfo(byte as u8);
            let has_words = info.count() >= 1 && info.count() <= most;
            let means_something = has_words && (!info.signed() || abi.arch().is_aarch64());
            if (means_something || info.0 == FreInfo::OUTERMOST.0)
                && let Some(len) = info.fre_len()
            {
                lens[byte] = len as u8;
            }
            byte += 1;
        }
        Self(lens)
    }

    /// Finds the rows of a function.
    ///
    /// # Errors
    /// Returns an error if the end of the function's rows is not known.
    #[inline]
    pub(crate) fn check(&self, table: &Table<'_>, index: usize) -> Result<Rows, Error> {
        match self.quick(table, index) {
            Some(rows) => Ok(rows),
            None => by_decoder(table, index),
        }
    }

    #[inline]
    fn quick(&self, table: &Table<'_>, index: usize) -> Option<Rows> {
        let head = table.head(index)?;
        let is_mask = head.info.contains(FdeInfo::PC_MASK);
        let needs_a_closer_look = match table.version() {
            Version::V1 => is_mask,
            // Data words may be register numbers.
            version @ Version::V2 => table.section.abi().has_register_words(version),
            Version::V3 => head.is_flex(),
        };
        let limit = if is_mask { head.rep_size.into() } else { head.size };
        if needs_a_closer_look || is_mask && limit == 0 {
            return None;
        }
        let (bytes, endian) = (table.fres.get(head.first.to_usize()..)?, table.endian());
        let len = match head.info.fre_type()? {
            FreType::Addr1 => self.walk(bytes, head.num_fres, limit, |&[start]: &[u8; 1]| start.into()),
            FreType::Addr2 => {
                self.walk(bytes, head.num_fres, limit, |start: &[u8; 2]| endian.u16(*start).into())
            }
            FreType::Addr4 => self.walk(bytes, head.num_fres, limit, |start: &[u8; 4]| endian.u32(*start)),
        }?;
        let rows = RowBytes { start: head.first, len: len as u32 };
        Some(Rows { rows, num_fres: head.num_fres, malformed: None })
    }

    /// Returns the number of bytes of `count` FREs, or `None` if anything is wrong with an FRE.
    #[inline(always)]
    fn walk<const WIDTH: usize>(
        &self,
        bytes: &[u8],
        count: u32,
        limit: u32,
        start_of: impl Fn(&[u8; WIDTH]) -> u32,
    ) -> Option<usize> {
        let (mut rest, mut previous) = (bytes, 0);
        for _ in 0..count {
            let (start, tail) = rest.split_first_chunk::<WIDTH>()?;
            let start = start_of(start);
            let len = self.0[usize::from(*tail.first()?)];
            if len == 0 || start < previous || start > limit {
                return None;
            }
            previous = start;
            rest = tail.get(len.into()..)?;
        }
        Some(bytes.len() - rest.len())
    }
}

#[cold]
fn by_decoder(table: &Table<'_>, index: usize) -> Result<Rows, Error> {
    let function = table.section.function(index).ok_or(Error::NoFunction { index })??;
    let width = function.fre_type().width();
    let (mut len, mut malformed) = (0, None);
    for fre in function.fres() {
        let fre = fre?;
        if malformed.is_none() && fre.row(&function).is_err() {
            malformed = Some(fre.start.0);
        }
        len += width + fre.info.fre_len().unwrap_or(1);
    }
    // The rows lie within the sub-section, and its length has 32 bits.
    let start = table.head(index).map_or(0, |head| head.first);
    Ok(Rows { rows: RowBytes { start, len: len as u32 }, num_fres: function.num_fres(), malformed })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::decoder::sframe::Section;
    use crate::format::sframe::{Attribute, Fde, Flags, Header};
    use crate::format::{Address, Endian, SectionOffset};

    /// A table with a single function of 9 bytes.
    fn table(abi: Abi, version: Version, info: FdeInfo, fres: &[u8], num_fres: u32) -> Vec<u8> {
        let endian = abi.arch().endian();
        let mut rows = Vec::new();
        if version.has_attributes() {
            let num_fres = num_fres as u16;
            rows.extend(Attribute { num_fres, info, info2: 0, rep_size: 4 }.write(endian));
        }
        rows.extend(fres);
        let header = Header {
            version: version as u8,
            flags: Flags::empty(),
            abi: abi as u8,
            fixed_fp_offset: 0,
            fixed_ra_offset: abi.fixed_ra_offset(),
            auxhdr_len: 0,
            num_fdes: 1,
            num_fres,
            fre_len: rows.len() as u32,
            fde_off: 0,
            fre_off: version.fde_size() as u32,
        };
        let fde = Fde { start: 0, size: 9, fre_off: 0, num_fres, info, rep_size: 4 };
        let mut bytes = header.write(endian).to_vec();
        bytes.extend(&fde.write(version, endian)[..version.fde_size()]);
        bytes.extend(rows);
        bytes
    }

    /// For every info byte, start and width, the table of info bytes agrees with the decoder.
    #[test]
    fn quick_is_what_the_decoder_says() {
        let (mut quick, mut slow) = (0, 0);
        for abi in Arch::ALL.into_iter().filter_map(Abi::for_arch) {
            let (arch, lens) = (abi.arch(), FreLens::new(abi.arch()));
            for version in [Version::V2, Version::V3] {
                for (width, flags) in (0..3).flat_map(|width| [(width, 0), (width, 0x10)]) {
                    let info = FdeInfo::from_bits_retain(width | flags);
                    for (fre, second) in
                        (0..=255).flat_map(|fre| [0u8, 3, 5, 9, 10].map(|start| (fre, start)))
                    {
                        let start = |value: u8| {
                            let mut start = [0; 4];
                            let width = 1 << width;
                            start[if arch.endian() == Endian::Little { 0 } else { width - 1 }] = value;
                            start[..width].to_vec()
                        };
                        let single = [start(3), [&[fre][..], &[8; 60]].concat()].concat();
                        let len = 1 + FreInfo(fre).fre_len().unwrap_or(20);
                        let fres = [&single[..(1 << width) + len - 1], &start(second), &[3, 16]].concat();
                        for cut in [0, 1, 2] {
                            let fres = &fres[..fres.len() - cut];
                            let bytes = table(abi, version, info, fres, 2);
                            let section = Section::parse(&bytes, Address(0)).expect("a header");
                            let table = Table::new(section, &bytes, SectionOffset(0));
                            let expected = by_decoder(&table, 0);
                            assert_eq!(lens.check(&table, 0), expected);
                            let found = lens.quick(&table, 0);
                            if (arch, version) != (Arch::S390x, Version::V2) {
                                let is_right = expected.is_ok_and(|rows| rows.malformed.is_none());
                                assert_eq!(found.is_some(), is_right, "{fres:x?}");
                            }
                            if found.is_some() { quick += 1 } else { slow += 1 }
                        }
                    }
                }
            }
        }
        assert!(quick > 1000 && slow > 1000, "{quick} {slow}");
    }
}
