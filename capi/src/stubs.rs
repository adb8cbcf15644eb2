//! The stubs that a linker writes itself: by name, or by rows of the caller's.

use cfipack_format::Key;
use cfipack_linker::stubs::{Code, Shape, StubKind, Stubs};

use crate::arguments::{array, reference, write};
use crate::cfipack_row;
use crate::cfipack_status::{self, InvalidArgument, NotFound, Refused};
use crate::handle::{self, Failure};
use crate::merger::cfipack_merger;

/// A piece of a linker's stubs: its size, and its rows, whose starts count from its own; the first is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_stub_code {
    /// The rows.
    pub rows: *const cfipack_row,
    /// The number of rows.
    pub num_rows: usize,
    /// Bytes; 0 if there is no such piece.
    pub size: u32,
    /// 0.
    pub reserved: u32,
}

/// A section of stubs: a header, entries that are all alike, and a trailer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_stubs {
    /// The key of its first byte.
    pub key: u64,
    /// The number of entries.
    pub num_entries: usize,
    /// The code before the entries.
    pub header: cfipack_stub_code,
    /// One entry.
    pub entry: cfipack_stub_code,
    /// The code after the entries.
    pub trailer: cfipack_stub_code,
}

/// Adds the rows of stubs, such as a PLT, that `cfipack_merger_push_known_stubs` does not have.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_push_stubs(
    merger: *mut cfipack_merger,
    stubs: *const cfipack_stubs,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(merger, |merging| {
            let stubs = reference(stubs)?;
            let rows = |code: &cfipack_stub_code| -> Result<Vec<_>, cfipack_status> {
                array(code.rows, code.num_rows)?.iter().map(cfipack_row::get).collect()
            };
            let (header, entry, trailer) = (rows(&stubs.header)?, rows(&stubs.entry)?, rows(&stubs.trailer)?);
            let shape = Shape::new()
                .with_header(Code::new(stubs.header.size, &header))
                .with_entry(Code::new(stubs.entry.size, &entry))
                .with_trailer(Code::new(stubs.trailer.size, &trailer));
            let stubs = Stubs::keyed(Key(stubs.key), shape).with_entries(entries(stubs.num_entries)?);
            merging.merger.push_stubs(&stubs).map_err(|error| Failure::new(Refused, &error))
        })
    }
}

/// Gets the row at `offset` bytes from the start of a function that has been pushed; its start counts from the function's.
/// `CFIPACK_STATUS_NOT_FOUND` without one. With a start of 0 it is the row of a veneer that has the instruction of that
/// place, or of a thunk between two parts of the function, for `cfipack_merger_push_stubs`.
///
/// # Safety
/// `merger` is null or a merger, `out` null or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_row_at(
    merger: *mut cfipack_merger,
    key: u64,
    offset: u32,
    out: *mut cfipack_row,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(merger, |merging| {
            let frame = merging.merger.frame_at(Key(key), offset).ok_or(NotFound)?;
            Ok(write(out, cfipack_row::new(&frame.row, frame.is_signal_frame))?)
        })
    }
}

/// A number of entries. No section has as many as do not fit.
fn entries(count: usize) -> Result<u32, cfipack_status> {
    u32::try_from(count).map_err(|_| InvalidArgument)
}

/// x86-64, what bfd, gold and lld write as `.plt`: a header of 16 bytes and entries of 16, `jmp *slot`, at 6 `push index`,
/// at 11 `jmp header`.
pub const CFIPACK_STUBS_AMD64_LAZY_PLT: u32 = 1;
/// x86-64, the `.plt` beside a `.plt.sec`: the same header, and entries of 16 bytes: `endbr64`, at 4 `push index`, at 9
/// `jmp header`, with or without `bnd`.
pub const CFIPACK_STUBS_AMD64_IBT_PLT: u32 = 2;
/// x86-64, what bfd before 2.41 writes with `-z bndplt`: the same header, and entries of 16 bytes: `push index`, at 5
/// `bnd jmp header`.
pub const CFIPACK_STUBS_AMD64_BND_PLT: u32 = 3;
/// x86-64, what mold writes as `.plt`: a header of 32 bytes, `endbr64`, at 4 `push %r11`, at 6 `push got+8`, at 12
/// `jmp *got+16`, and entries of 16 bytes that load their index into `r11` and jump.
pub const CFIPACK_STUBS_AMD64_MOLD_PLT: u32 = 4;
/// x86-64 stubs that only jump, in 16 bytes: `.plt.sec`, `.plt.got`, the PLT of a static program, thunks.
pub const CFIPACK_STUBS_AMD64_JUMP: u32 = 5;
/// x86-64, what follows the entries of a `.plt` for lazy TLS descriptors: `push got+8`, at 6 `jmp *resolver`.
pub const CFIPACK_STUBS_AMD64_TLS_DESC: u32 = 6;
/// TLS descriptors' stub after `endbr64`.
pub const CFIPACK_STUBS_AMD64_IBT_TLS_DESC: u32 = 7;
/// AArch64, a header of 32 bytes that starts with `stp x16, x30, [sp, #-16]!`, and entries of 16 bytes that only jump.
/// With pointer authentication entries have 24.
pub const CFIPACK_STUBS_AARCH64_PLT: u32 = 8;
/// AArch64, the same header after `bti c`, and entries of 24 bytes, with or without `autia1716`.
pub const CFIPACK_STUBS_AARCH64_BTI_PLT: u32 = 9;
/// AArch64 stubs that only jump, in 16 bytes: a PLT without header, `.plt.got`, thunks that calls and tail calls pass, of
/// any size.
pub const CFIPACK_STUBS_AARCH64_JUMP: u32 = 10;
/// AArch64, what follows the entries of a `.plt` for lazy TLS descriptors, in 32 bytes: `stp x2, x3, [sp, #-16]!` first.
pub const CFIPACK_STUBS_AARCH64_TLS_DESC: u32 = 11;
/// TLS descriptors' stub after `bti c`.
pub const CFIPACK_STUBS_AARCH64_BTI_TLS_DESC: u32 = 12;
/// s390x, what bfd and lld write: a header and entries of 32 bytes, none of which changes the stack pointer.
pub const CFIPACK_STUBS_S390X_PLT: u32 = 13;
/// x86-64, what lld writes with `-z retpolineplt`: a header of 48 bytes, whose last 16, the tail that all share, have no
/// row, and entries of 32.
pub const CFIPACK_STUBS_AMD64_RETPOLINE_PLT: u32 = 14;
/// x86-64, what lld writes with `-z retpolineplt -z now`: a header of 32 bytes and entries of 16.
pub const CFIPACK_STUBS_AMD64_RETPOLINE_NOW_PLT: u32 = 15;
/// s390x, what mold writes as `.plt`: a header of 48 bytes and entries of 16, none of which changes the stack pointer.
pub const CFIPACK_STUBS_S390X_MOLD_PLT: u32 = 16;
/// s390x stubs that only jump, in 16 bytes: mold's `.plt.got`.
pub const CFIPACK_STUBS_S390X_JUMP: u32 = 17;
/// Added to one of `CFIPACK_STUBS_...`: its entries without the header, as in lld's `.iplt`.
pub const CFIPACK_STUBS_NO_HEADER: u32 = 0x100;

/// Stubs by their number.
fn stub_kind(number: u32) -> Result<StubKind, cfipack_status> {
    Ok(match number {
        CFIPACK_STUBS_AMD64_LAZY_PLT => StubKind::Amd64LazyPlt,
        CFIPACK_STUBS_AMD64_IBT_PLT => StubKind::Amd64IbtPlt,
        CFIPACK_STUBS_AMD64_BND_PLT => StubKind::Amd64BndPlt,
        CFIPACK_STUBS_AMD64_MOLD_PLT => StubKind::Amd64MoldPlt,
        CFIPACK_STUBS_AMD64_JUMP => StubKind::Amd64Jump,
        CFIPACK_STUBS_AMD64_TLS_DESC => StubKind::Amd64TlsDesc,
        CFIPACK_STUBS_AMD64_IBT_TLS_DESC => StubKind::Amd64IbtTlsDesc,
        CFIPACK_STUBS_AARCH64_PLT => StubKind::Aarch64Plt,
        CFIPACK_STUBS_AARCH64_BTI_PLT => StubKind::Aarch64BtiPlt,
        CFIPACK_STUBS_AARCH64_JUMP => StubKind::Aarch64Jump,
        CFIPACK_STUBS_AARCH64_TLS_DESC => StubKind::Aarch64TlsDesc,
        CFIPACK_STUBS_AARCH64_BTI_TLS_DESC => StubKind::Aarch64BtiTlsDesc,
        CFIPACK_STUBS_S390X_PLT => StubKind::S390xPlt,
        CFIPACK_STUBS_AMD64_RETPOLINE_PLT => StubKind::Amd64RetpolinePlt,
        CFIPACK_STUBS_AMD64_RETPOLINE_NOW_PLT => StubKind::Amd64RetpolineNowPlt,
        CFIPACK_STUBS_S390X_MOLD_PLT => StubKind::S390xMoldPlt,
        CFIPACK_STUBS_S390X_JUMP => StubKind::S390xJump,
        _ => return Err(InvalidArgument),
    })
}

/// Adds the rows of stubs that linkers write, by their code: `kind` is `CFIPACK_STUBS_...`, with `CFIPACK_STUBS_NO_HEADER`
/// added where there are only entries, and `key` that of the first byte, of the header where there is one. `entry_size` is the bytes of an entry, where the same code has other padding;
/// 0 for those of the kind.
///
/// # Safety
/// `merger` is null or a merger.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merger_push_known_stubs(
    merger: *mut cfipack_merger,
    key: u64,
    kind: u32,
    num_entries: usize,
    entry_size: u32,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(merger, |merging| {
            let shape = stub_kind(kind & !CFIPACK_STUBS_NO_HEADER)?.shape();
            let shape = match kind & CFIPACK_STUBS_NO_HEADER {
                0 => shape,
                _ => shape.with_header(Code::NONE),
            };
            let shape = match entry_size {
                0 => shape,
                size => shape.with_entry_size(size),
            };
            let stubs = Stubs::keyed(Key(key), shape).with_entries(entries(num_entries)?);
            merging.merger.push_stubs(&stubs).map_err(|error| Failure::new(Refused, &error))
        })
    }
}
