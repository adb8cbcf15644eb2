//! Encodes a region's rows as words, which are written once and then only read.
//!
//! ```text
//! block:    bytes of code | number of functions | functions ... | rows ... | rules ...
//! function: offset in the region | bytes of code | place of its rows << 32 | signal frame << 31 | number of rows
//! row:      start << 32 | place of its rules
//! rules:    kinds and registers | offsets: in one word if they fit, otherwise in three
//! ```
//!
//! Functions are in ascending order, and so are the rows of a function. Places count from the block's start.

use alloc::vec::Vec;

use cfipack_decoder::sframe::Frame;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Cfa, FunctionOffset, Register, Row, Rule};

use super::sync::{AtomicU64, Ordering};

const HEADER: usize = 2;
const FUNCTION: usize = 3;
/// A bit in a function's last word.
const SIGNAL_FRAME: u64 = 1 << 31;
/// The number of recent rules that a new row's rules are compared with.
const RECENT: usize = 8;

/// A block under construction. Its memory is used again for the next block.
#[derive(Default, Debug)]
pub(super) struct Block {
    words: Vec<u64>,
    functions: Vec<u64>,
    /// The rows. They refer to their rules by the number of words from the first rule.
    rows: Vec<u64>,
    rules: Vec<u64>,
    recent: [Option<(Rules, u32)>; RECENT],
    /// The slot in `recent` for the next rule.
    oldest: usize,
}

impl Block {
    pub(super) fn clear(&mut self) {
        self.functions.clear();
        self.rows.clear();
        self.rules.clear();
        self.recent = [None; RECENT];
    }

    /// Returns the number of rows so far.
    pub(super) fn num_rows(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row to the function that is [ended](Self::end_function) next.
    pub(super) fn push_row(&mut self, row: &Row) {
        let rules = Rules::new(row);
        let known = self.recent.iter().flatten().find(|(other, _)| *other == rules);
        let at = match known {
            Some(&(_, at)) => at,
            None => {
                let at = self.rules.len() as u32;
                self.rules.extend(rules.words());
                self.recent[self.oldest] = Some((rules, at));
                self.oldest = (self.oldest + 1) % RECENT;
                at
            }
        };
        self.rows.push(u64::from(row.start.0) << 32 | u64::from(at));
    }

    /// Removes the rows from number `from` on.
    pub(super) fn drop_rows(&mut self, from: usize) {
        self.rows.truncate(from);
    }

    /// Ends a function. Its rows are the rows from number `from` on.
    pub(super) fn end_function(&mut self, offset: u64, size: u64, is_signal_frame: bool, from: usize) {
        let signal_frame = if is_signal_frame { SIGNAL_FRAME } else { 0 };
        let count = (self.rows.len() - from).to_u64();
        self.functions.extend([offset, size, from.to_u64() << 32 | signal_frame | count]);
    }

    /// Ends the block of a region with `length` bytes of code. Returns `None` if places do not fit their bits.
    pub(super) fn end(&mut self, length: u64) -> Option<()> {
        let rows_at = HEADER + self.functions.len();
        let rules_at = rows_at + self.rows.len();
        // Numbers of rows have 31 bits.
        i32::try_from(rules_at + self.rules.len()).ok()?;
        self.words.clear();
        self.words.extend([length, (self.functions.len() / FUNCTION).to_u64()]);
        for function in self.functions.chunks_exact(FUNCTION) {
            self.words.extend([function[0], function[1], function[2] + (rows_at.to_u64() << 32)]);
        }
        self.words.extend(self.rows.iter().map(|row| row + rules_at.to_u64()));
        self.words.extend_from_slice(&self.rules);
        Some(())
    }

    /// Returns the words of the block, after [`end`](Self::end).
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

/// Makes a block that readers may use answer for no PC.
pub(super) fn end(block: &AtomicU64) {
    block.store(0, Ordering::Release);
}

/// Finds the frame for a PC, in bytes from the region's start. `words` begin with the block. Every place in them is
/// checked, because they may change under a reader of older memory.
pub(super) fn lookup(words: &[AtomicU64], pc: u64) -> Option<Frame> {
    let word = |at: usize| Some(words.get(at)?.load(Ordering::Relaxed));
    if pc >= word(0)? {
        return None;
    }
    let count = word(1)?.to_usize();
    let functions = words.get(HEADER..)?.get(..FUNCTION.checked_mul(count)?)?;
    let (functions, _) = functions.as_chunks::<FUNCTION>();
    let after = functions.partition_point(|[offset, ..]| offset.load(Ordering::Relaxed) <= pc);
    let [offset, size, rows] = functions.get(after.checked_sub(1)?)?;
    let offset = pc.checked_sub(offset.load(Ordering::Relaxed))?;
    if offset >= size.load(Ordering::Relaxed) {
        return None;
    }
    let place = rows.load(Ordering::Relaxed);
    let count = (place as u32 & !(SIGNAL_FRAME as u32)).to_usize();
    let rows = words.get((place >> 32).to_usize()..)?.get(..count)?;
    let after = rows.partition_point(|row| row.load(Ordering::Relaxed) >> 32 <= offset);
    let row = rows.get(after.checked_sub(1)?)?.load(Ordering::Relaxed);
    let rules = words.get((row as u32).to_usize()..)?;
    let word = |at: usize| Some(rules.get(at)?.load(Ordering::Relaxed));
    let mut rules = Rules { first: word(0)?, rest: [word(1)?, 0, 0] };
    if rules.is_wide() {
        rules.rest = [rules.rest[0], word(2)?, word(3)?];
    }
    let row = rules.row(FunctionOffset((row >> 32) as u32))?;
    Some(Frame::new(row, place & SIGNAL_FRAME != 0))
}

/// The rules of a row for the CFA, the return address and the frame pointer.
///
/// The first word has 4 bits for each rule's kind, for the signature and for the width. From bit 16 on it has
/// 16 bits for each rule's register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rules {
    first: u64,
    rest: [u64; 3],
}

const SIGNED: u64 = 1 << 12;
const WIDE: u64 = 1 << 13;

impl Rules {
    fn new(row: &Row) -> Self {
        let (cfa, cfa_register, cfa_offset) = match row.cfa {
            Cfa::Undefined => (0, 0, 0),
            Cfa::Register { register, offset } => (1, register.0, offset),
            Cfa::Memory { register, offset } => (2, register.0, offset),
            Cfa::Expression => (3, 0, 0),
        };
        let parts = |rule| match rule {
            Rule::Undefined => (0, 0, 0),
            Rule::SameValue => (1, 0, 0),
            Rule::Cfa(offset) => (2, 0, offset),
            Rule::ValCfa(offset) => (3, 0, offset),
            Rule::Register { register, offset } => (4, register.0, offset),
            Rule::Memory { register, offset } => (5, register.0, offset),
            Rule::Expression => (6, 0, 0),
        };
        let (ra, ra_register, ra_offset) = parts(row.return_address);
        let (fp, fp_register, fp_offset) = parts(row.frame_pointer);
        let registers = [cfa_register, ra_register, fp_register].map(u64::from);
        let first = cfa | ra << 4 | fp << 8 | registers[0] << 16 | registers[1] << 32 | registers[2] << 48;
        let first = first | if row.signed { SIGNED } else { 0 };
        let narrow = (i32::try_from(cfa_offset), i16::try_from(ra_offset), i16::try_from(fp_offset));
        match narrow {
            (Ok(cfa), Ok(ra), Ok(fp)) => {
                let offsets = u64::from(cfa as u32) << 32 | u64::from(ra as u16) << 16 | u64::from(fp as u16);
                Self { first, rest: [offsets, 0, 0] }
            }
            _ => {
                let rest = [cfa_offset, ra_offset, fp_offset].map(|offset| offset as u64);
                Self { first: first | WIDE, rest }
            }
        }
    }

    fn is_wide(&self) -> bool {
        self.first & WIDE != 0
    }

    /// Returns the words that are stored.
    fn words(&self) -> impl Iterator<Item = u64> {
        let count = if self.is_wide() { 3 } else { 1 };
        core::iter::once(self.first).chain(self.rest).take(1 + count)
    }

    fn row(self, start: FunctionOffset) -> Option<Row> {
        let [offsets, ..] = self.rest;
        let [cfa, ra, fp] = if self.is_wide() {
            self.rest.map(|offset| offset as i64)
        } else {
            [(offsets >> 32) as i32 as i64, (offsets >> 16) as i16 as i64, offsets as i16 as i64]
        };
        let register = |shift: u32| Register((self.first >> shift) as u16);
        let cfa = match self.first & 0xf {
            0 => Cfa::Undefined,
            1 => Cfa::Register { register: register(16), offset: cfa },
            2 => Cfa::Memory { register: register(16), offset: cfa },
            _ => return None,
        };
        let rule = |kind: u64, register, offset| {
            Some(match kind & 0xf {
                0 => Rule::Undefined,
                1 => Rule::SameValue,
                2 => Rule::Cfa(offset),
                4 => Rule::Register { register, offset },
                5 => Rule::Memory { register, offset },
                _ => return None,
            })
        };
        Some(Row {
            start,
            cfa,
            return_address: rule(self.first >> 4, register(32), ra)?,
            frame_pointer: rule(self.first >> 8, register(48), fp)?,
            signed: self.first & SIGNED != 0,
        })
    }
}
