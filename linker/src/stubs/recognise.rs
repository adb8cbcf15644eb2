//! Recognises finished stubs from their bytes.

use alloc::vec::Vec;

use cfipack_format::widen::ToUsize;

use super::{Code, Shape, StubKind};
use crate::decoder::sframe::Function;
use crate::format::{Address, Arch, Row};

/// A section of stubs that was recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Recognised {
    /// The shape, with the sizes that the parts have in these bytes.
    pub shape: Shape<'static>,
    /// The number of entries.
    pub entries: u32,
}

impl Recognised {
    /// Returns the row at an offset from the start of the code, in bytes. Returns `None` if no row is true there, and
    /// after the end.
    pub fn row(&self, offset: u64) -> Option<&'static Row> {
        let Shape { header, gap, entry, trailer } = self.shape;
        let entries = u64::from(entry.size()) * u64::from(self.entries);
        let in_entries = offset.checked_sub(u64::from(header.size()) + u64::from(gap));
        let (code, offset) = match in_entries {
            None => (header, offset),
            Some(offset) if offset < entries => (entry, offset % u64::from(entry.size())),
            Some(offset) => (trailer, offset - entries),
        };
        let is_inside = offset < u64::from(code.size());
        code.rows().iter().rfind(|row| is_inside && u64::from(row.start.0) <= offset)
    }

    /// Returns whether a function of a table has the rows of these stubs wherever it has rows. `start` is the address of
    /// the stubs.
    pub fn has_rows_of(&self, function: &Function<'_>, start: Address) -> bool {
        let period = if function.is_pc_mask() { function.rep_size().into() } else { function.size() };
        let Ok(rows) = function.rows().collect::<Result<Vec<Row>, _>>() else { return false };
        let Ok(from) = u64::try_from(function.start().distance_from(start)) else { return false };
        if period == 0 || function.is_signal_frame() || !rows.is_sorted_by(|a, b| a.start < b.start) {
            return false;
        }
        (0..function.size()).all(|offset| {
            let after = rows.partition_point(|row| row.start.0 <= offset % period);
            let Some(row) = after.checked_sub(1).map(|last| rows[last]) else { return true };
            self.row(from + u64::from(offset)).is_some_and(|stub| stub.unwinds_as(&row))
        })
    }
}

/// Recognises the code of a whole section of stubs, such as `.plt` or `.plt.sec`, in a linked file. Use it to find
/// the true rows of stubs that another linker has written. A linker describes its own stubs with [`StubKind`]
/// instead.
///
/// A mixture of stubs that only jump, such as thunks of AArch64, is recognised as a single header without
/// entries. Returns `None` for other code, for a mixture of other stubs, and for an empty section.
pub fn recognise(arch: Arch, bytes: &[u8]) -> Option<Recognised> {
    let patterns = match arch {
        Arch::Amd64 => AMD64,
        Arch::Aarch64 => AARCH64,
        Arch::S390x => S390X,
        Arch::Aarch64Be | Arch::I386 | Arch::Arm64_32 | Arch::Riscv64 => return None,
    };
    let headers = patterns.iter().filter(|pattern| pattern.part == Part::Header && pattern.is_at(bytes));
    // Try without a header last. Some headers have the same code as a trailer, and a trailer may stand alone.
    let kinds = headers.map(|pattern| Some(pattern.kind)).chain([None]);
    for kind in kinds {
        let shape = kind.map_or(Shape::new(), |kind| kind.shape().with_entry(Code::NONE));
        let Some(rest) = bytes.get(shape.header().size().to_usize() + shape.gap().to_usize()..) else {
            continue;
        };
        if let Some(found) = recognise_after_header(patterns, shape, kind, rest) {
            return Some(found);
        }
    }
    recognise_jumps(patterns, bytes)
}

/// Recognises a mixture of stubs and padding, if all of the stubs only jump.
fn recognise_jumps(patterns: &'static [Pattern], bytes: &[u8]) -> Option<Recognised> {
    let (mut rest, mut has_jump) = (bytes, false);
    while !rest.is_empty() {
        let mut pieces = patterns.iter().filter(|pattern| pattern.kind.is_jump());
        let found = pieces.find(|pattern| pattern.is_at(rest))?;
        has_jump |= found.part != Part::Padding;
        rest = rest.get(found.sizes.first()?.to_usize()..)?;
    }
    let size = u32::try_from(bytes.len()).ok()?;
    let kind = patterns.iter().map(|pattern| pattern.kind).find(|kind| kind.is_jump())?;
    let shape = Shape::new().with_header(Code::new(size, kind.entry().rows()));
    has_jump.then_some(Recognised { shape, entries: 0 })
}

/// Recognises entries and a trailer, or nothing after a header.
fn recognise_after_header(
    patterns: &'static [Pattern],
    shape: Shape<'static>,
    header_of: Option<StubKind>,
    rest: &[u8],
) -> Option<Recognised> {
    if rest.is_empty() {
        return header_of.map(|_| Recognised { shape, entries: 0 });
    }
    for pattern in patterns.iter().filter(|pattern| pattern.part == Part::Entry) {
        if header_of.is_some_and(|kind| kind.shape().header() != pattern.kind.shape().header()) {
            continue;
        }
        for &size in pattern.sizes {
            let entries = rest.chunks_exact(size.to_usize());
            let count = entries.take_while(|entry| pattern.is_at(entry)).count();
            let Some(trailer) = recognise_trailer(patterns, &rest[count * size.to_usize()..]) else {
                continue;
            };
            if count != 0 {
                let entry = Code::new(size, pattern.kind.entry().rows());
                let shape = shape.with_entry(entry).with_trailer(trailer);
                return Some(Recognised { shape, entries: count as u32 });
            }
        }
    }
    None
}

/// Recognises the code after the entries. Returns [`Code::NONE`] if there is no code, and `None` for unknown code.
fn recognise_trailer(patterns: &'static [Pattern], after: &[u8]) -> Option<Code<'static>> {
    if after.is_empty() {
        return Some(Code::NONE);
    }
    let mut trailers = patterns.iter().filter(|pattern| pattern.part == Part::Trailer);
    let found = trailers
        .find(|pattern| pattern.kind.entry().size().to_usize() == after.len() && pattern.is_at(after))?;
    Some(found.kind.entry())
}

/// The part of a shape that a pattern describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Header,
    Entry,
    Trailer,
    /// A stub that only jumps, in a form that only occurs among other stubs.
    Jump,
    /// Padding between stubs.
    Padding,
}

/// The first bytes of a part's code.
#[derive(Debug)]
struct Pattern {
    part: Part,
    kind: StubKind,
    /// The possible sizes of an entry, jump or padding in bytes, ascending.
    sizes: &'static [u32],
    /// Two hexadecimal digits per byte; `..` matches any byte.
    code: &'static [u8],
}

impl Pattern {
    fn is_at(&self, bytes: &[u8]) -> bool {
        let (pairs, _) = self.code.as_chunks::<2>();
        bytes.len() >= pairs.len() && pairs.iter().zip(bytes).all(|(pair, &byte)| matches(*pair, byte))
    }
}

fn matches(pair: [u8; 2], byte: u8) -> bool {
    is_digit(pair[0], byte >> 4) && is_digit(pair[1], byte & 15)
}

/// Returns whether a digit of a pattern allows four bits of the code.
fn is_digit(digit: u8, nibble: u8) -> bool {
    digit == b'.' || (digit as char).to_digit(16) == Some(nibble.into())
}

const fn header(kind: StubKind, code: &'static str) -> Pattern {
    Pattern { part: Part::Header, kind, sizes: &[], code: code.as_bytes() }
}

const fn entry(kind: StubKind, sizes: &'static [u32], code: &'static str) -> Pattern {
    Pattern { part: Part::Entry, kind, sizes, code: code.as_bytes() }
}

const fn trailer_of(kind: StubKind, code: &'static str) -> Pattern {
    Pattern { part: Part::Trailer, kind, sizes: &[], code: code.as_bytes() }
}

const fn jump(kind: StubKind, sizes: &'static [u32], code: &'static str) -> Pattern {
    Pattern { part: Part::Jump, kind, sizes, code: code.as_bytes() }
}

const fn padding(kind: StubKind, sizes: &'static [u32], code: &'static str) -> Pattern {
    Pattern { part: Part::Padding, kind, sizes, code: code.as_bytes() }
}

/// A pattern comes before its own prefixes.
const AMD64: &[Pattern] = &[
    // push got+8; [bnd] jmp *got+16
    header(StubKind::Amd64LazyPlt, "ff35........ff25"),
    header(StubKind::Amd64LazyPlt, "ff35........f2ff25"),
    // endbr64; push %r11; push got+8; jmp *got+16
    header(StubKind::Amd64MoldPlt, "f30f1efa4153ff35........ff25"),
    // push got+8; mov got+16, %r11; call tail
    header(StubKind::Amd64RetpolinePlt, "ff35........4c8b1d........e80e000000"),
    // call 16; pause
    header(StubKind::Amd64RetpolineNowPlt, "e80b000000f390"),
    // jmp *slot; push index; jmp header
    entry(StubKind::Amd64LazyPlt, &[16], "ff25........68........e9"),
    // endbr64; push index; [bnd] jmp header
    entry(StubKind::Amd64IbtPlt, &[16], "f30f1efa68........e9"),
    entry(StubKind::Amd64IbtPlt, &[16], "f30f1efa68........f2e9"),
    // push index; bnd jmp header
    entry(StubKind::Amd64BndPlt, &[16], "68........f2e9"),
    // [endbr64;] mov index, %r11d; jmp *slot
    entry(StubKind::Amd64MoldPlt, &[16], "41bb........ff25"),
    entry(StubKind::Amd64MoldPlt, &[16], "f30f1efa41bb........ff25"),
    // mov slot, %r11; call tail; jmp tail; push index; jmp header
    entry(StubKind::Amd64RetpolinePlt, &[32], "4c8b1d........e8........e9........68........e9"),
    // mov slot, %r11; jmp tail
    entry(StubKind::Amd64RetpolineNowPlt, &[16], "4c8b1d........e9........cccccccc"),
    // [endbr64;] [bnd] jmp *slot
    entry(StubKind::Amd64Jump, &[16], "f30f1efaff25"),
    entry(StubKind::Amd64Jump, &[16], "f30f1efaf2ff25"),
    entry(StubKind::Amd64Jump, &[8, 16], "ff25........"),
    entry(StubKind::Amd64Jump, &[8, 16], "f2ff25........"),
    // [endbr64;] push got+8; jmp *resolver
    trailer_of(StubKind::Amd64TlsDesc, "ff35........ff25"),
    trailer_of(StubKind::Amd64IbtTlsDesc, "f30f1efaff35........ff25"),
];

const AARCH64: &[Pattern] = &[
    // stp x16, x30, [sp, #-16]!
    header(StubKind::Aarch64Plt, "f07bbfa9"),
    header(StubKind::Aarch64BtiPlt, "5f2403d5f07bbfa9"),
    // [bti c;] adrp x16, slot; ldr x17, [x16, slot]; add x16, x16, slot, or a nop; [autia1716;] br x17
    entry(StubKind::Aarch64Plt, &[16, 24], ".0.....011....f9........20021fd6"),
    entry(StubKind::Aarch64Plt, &[24], ".0.....011....f9........9f2103d520021fd6"),
    entry(StubKind::Aarch64BtiPlt, &[16, 24], ".0.....011....f9........20021fd6"),
    entry(StubKind::Aarch64BtiPlt, &[24], ".0.....011....f9........9f2103d520021fd6"),
    entry(StubKind::Aarch64BtiPlt, &[24], "5f2403d5.0.....011....f9........20021fd6"),
    entry(StubKind::Aarch64BtiPlt, &[24], "5f2403d5.0.....011....f9........9f2103d520021fd6"),
    // adrp x16, slot; ldr x17, [x16, slot]; br x17
    entry(StubKind::Aarch64Jump, &[12, 16], ".0.....011....f920021fd6"),
    // adrp x16, target; add x16, x16, target, or a nop; br x16
    entry(StubKind::Aarch64Jump, &[12, 16], ".0.....010....9100021fd6"),
    entry(StubKind::Aarch64Jump, &[12, 16], ".0.....01f2003d500021fd6"),
    // ldr x16, address; br x16; address
    entry(StubKind::Aarch64Jump, &[16], "5000005800021fd6"),
    // ldr x16, distance; adr x17, .; add x16, x16, x17; br x16; distance
    entry(StubKind::Aarch64Jump, &[24], "90000058110000101002118b00021fd6"),
    // movz x16, address, in four parts; br x16
    entry(StubKind::Aarch64Jump, &[20], ".0....d2.0....f2.0....f2.0....f200021fd6"),
    // b target
    jump(StubKind::Aarch64Jump, &[4], "......14"),
    jump(StubKind::Aarch64Jump, &[4], "......15"),
    jump(StubKind::Aarch64Jump, &[4], "......16"),
    jump(StubKind::Aarch64Jump, &[4], "......17"),
    // bti c, before a target or before a branch to a target.
    jump(StubKind::Aarch64Jump, &[4], "5f2403d5"),
    // nop; udf #0; brk #1000
    padding(StubKind::Aarch64Jump, &[4], "1f2003d5"),
    padding(StubKind::Aarch64Jump, &[4], "00000000"),
    padding(StubKind::Aarch64Jump, &[4], "007d20d4"),
    // stp x2, x3, [sp, #-16]!
    trailer_of(StubKind::Aarch64TlsDesc, "e20fbfa9"),
    trailer_of(StubKind::Aarch64BtiTlsDesc, "5f2403d5e20fbfa9"),
];

const S390X: &[Pattern] = &[
    // stg %r1, 56(%r15); larl %r1, got
    header(StubKind::S390xPlt, "e310f0380024c010"),
    // sgr %r0, %r1; aghi %r0, -62; srlg %r1, %r0, 1; agr %r0, %r1; stg %r0, 56(%r15); larl %r1, got
    header(StubKind::S390xMoldPlt, "b9090001a70bffc2eb100001000cb9080001e300f0380024c010"),
    // larl %r1, slot; lg %r1, 0(%r1); br %r1; basr %r1, %r0; lgf %r1, 12(%r1); jg header
    entry(StubKind::S390xPlt, &[32], "c010........e3101000000407f10d10e310100c0014c0f4"),
    // larl %r1, slot; lg %r1, 0(%r1); basr %r0, %r1
    entry(StubKind::S390xMoldPlt, &[16], "c010........e310100000040d01"),
    // larl %r1, slot; lg %r1, 0(%r1); br %r1
    entry(StubKind::S390xJump, &[16], "c010........e3101000000407f1"),
];

#[cfg(test)]
mod tests;
