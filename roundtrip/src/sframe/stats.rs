//! Counts how a table uses its bytes, and statistics of its functions.

use cfipack_decoder::sframe::{self, Function, Section};
use cfipack_format::sframe::{FdeType, FreInfo, Header, Version, WordSize};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, Register, Row};

/// Bytes, functions and rows of a table.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Stats {
    /// The sizes of the table's parts in bytes.
    pub bytes: Bytes,
    /// The number of functions.
    pub functions: u64,
    /// The number of functions by the width of their FREs' starts: 1, 2 and 4 bytes.
    pub functions_by_start_width: [u64; 3],
    /// The number of flex functions.
    pub flex: u64,
    /// The number of PC-mask functions.
    pub pc_mask: u64,
    /// The number of functions that are signal frames.
    pub signal_frames: u64,
    /// The number of functions whose return addresses are signed with key B.
    pub key_b: u64,
    /// The number of functions with a row that can only unwind an innermost frame. See
    /// [`Row::innermost_register`](cfipack_format::Row::innermost_register).
    pub innermost_only: u64,
    /// The number of functions without rows.
    pub without_rows: u64,
    /// The number of functions that cannot be read to their end.
    pub malformed: u64,
    /// The size of the code of all functions in bytes.
    pub code: u64,
    /// The number of rows. A row in a shared block counts for each function that has the block.
    pub rows: u64,
    /// The number of rows that the table stores. A row in a shared block counts once.
    pub rows_stored: u64,
    /// The number of stored rows of outermost frames.
    pub outermost: u64,
    /// The number of stored rows by the width of their data words: 1, 2 and 4 bytes. Rows of outermost frames do not
    /// count.
    pub rows_by_word_width: [u64; WordSize::ALL.len()],
    /// The number of functions that share their block of rows with another function.
    pub sharing: u64,
    /// The number of blocks of rows that several functions share.
    pub shared_blocks: u64,
    /// The number of functions by their number of rows. Item 0 counts the functions with 0 or 1 rows, item 1 with 2
    /// rows, item 2 with 3 or 4 rows, and item `k` with 2^(k-1) + 1 to 2^k rows.
    pub rows_per_function: Vec<u64>,
    /// The number of rows of the function with the most rows.
    pub most_rows: u32,
}

/// The sizes of a table's parts in bytes. `total` is the sum of the parts, without `saved_by_sharing`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Bytes {
    /// The size of the whole table, without padding after it.
    pub total: u64,
    /// The header and the auxiliary header.
    pub header: u64,
    /// The function index.
    pub index: u64,
    /// The attributes, which only version 3 has.
    pub attributes: u64,
    /// The starts of the FREs.
    pub starts: u64,
    /// The info bytes of the FREs.
    pub infos: u64,
    /// The data words of the FREs.
    pub data_words: u64,
    /// Bytes that no function refers to, or that cannot be read. This is 0 if the blocks of functions overlap.
    pub other: u64,
    /// The bytes that the table would grow by if each function had its own block. They are not part of `total`.
    pub saved_by_sharing: u64,
}

/// Counts a table's bytes, functions and rows. This takes 8 bytes of memory for each function.
pub fn stats(section: &Section<'_>) -> Stats {
    let header = section.header();
    let mut stats = Stats::default();
    let mut blocks: Vec<(u32, u32)> = Vec::with_capacity(section.num_functions());
    for (index, function) in section.functions().enumerate() {
        match function {
            Ok(function) => {
                stats.count_function(&function);
                blocks.push((function.fde().fre_off, index as u32));
            }
            Err(_) => stats.malformed += 1,
        }
    }
    stats.functions += stats.malformed;
    blocks.sort_unstable();
    for sharing in blocks.chunk_by(|a, b| a.0 == b.0) {
        let Some(function) = section.function(sharing[0].1.to_usize()) else { continue };
        let before = stats.bytes.blocks();
        if function.as_ref().is_ok_and(|function| innermost(section.arch(), function).is_some()) {
            stats.innermost_only += sharing.len().to_u64();
        }
        if function.and_then(|function| stats.count_block(&function, section.version())).is_err() {
            stats.malformed += 1;
        }
        if let [_, others @ ..] = sharing
            && !others.is_empty()
        {
            stats.sharing += sharing.len().to_u64();
            stats.shared_blocks += 1;
            stats.bytes.saved_by_sharing += (stats.bytes.blocks() - before) * others.len().to_u64();
        }
    }
    let bytes = &mut stats.bytes;
    let headers = (Header::SIZE + usize::from(header.auxhdr_len)).to_u64();
    bytes.header = headers;
    bytes.index = (section.num_functions() * section.version().fde_size()).to_u64();
    bytes.total = headers + u64::from(header.fre_off) + u64::from(header.fre_len);
    bytes.other = bytes.total.saturating_sub(bytes.header + bytes.index + bytes.blocks());
    stats
}

/// Returns the first row of a function by which only an innermost frame can be unwound, with the register that causes
/// it.
pub fn innermost(arch: Arch, function: &Function<'_>) -> Option<(Row, Register)> {
    // Rows of functions that are not flex use only the stack pointer and the frame pointer.
    if function.fde_type() != FdeType::Flex {
        return None;
    }
    function.rows().flatten().find_map(|row| Some((row, row.innermost_register(arch)?)))
}

impl Bytes {
    /// Returns the bytes of attributes and FREs.
    pub fn blocks(&self) -> u64 {
        self.attributes + self.starts + self.infos + self.data_words
    }
}

impl Stats {
    fn count_function(&mut self, function: &Function<'_>) {
        self.functions += 1;
        self.code += u64::from(function.size());
        self.rows += u64::from(function.num_fres());
        self.functions_by_start_width[function.fre_type() as usize] += 1;
        self.flex += u64::from(function.fde_type() == FdeType::Flex);
        self.pc_mask += u64::from(function.is_pc_mask());
        self.signal_frames += u64::from(function.is_signal_frame());
        self.key_b += u64::from(function.has_pauth_key_b());
        self.without_rows += u64::from(function.num_fres() == 0);
        self.most_rows = self.most_rows.max(function.num_fres());
        let bucket = function.num_fres().max(1).next_power_of_two().trailing_zeros().to_usize();
        if self.rows_per_function.len() <= bucket {
            self.rows_per_function.resize(bucket + 1, 0);
        }
        self.rows_per_function[bucket] += 1;
    }

    fn count_block(&mut self, function: &Function<'_>, version: Version) -> Result<(), sframe::Error> {
        self.bytes.attributes += version.attribute_size().to_u64();
        for fre in function.fres() {
            let fre = fre?;
            self.rows_stored += 1;
            self.bytes.starts += function.fre_type().width().to_u64();
            self.bytes.infos += 1;
            self.bytes.data_words += fre.word_size.len_of(fre.info.count().into()).to_u64();
            if fre.info == FreInfo::OUTERMOST {
                self.outermost += 1;
            } else {
                self.rows_by_word_width[fre.word_size as usize] += 1;
            }
        }
        Ok(())
    }
}
