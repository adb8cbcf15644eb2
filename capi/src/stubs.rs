//! Stubs that a linker writes itself, by name or with rows of the caller.

use cfipack_format::Key;
use cfipack_linker::stubs::{Code, Shape, StubKind, Stubs};

use crate::arguments::{array, reference, write};
use crate::cfipack_row;
use crate::cfipack_status::{self, InvalidArgument, NotFound, Refused};
use crate::handle::{self, Failure};
use crate::merger::cfipack_merger;

/// A piece of code in a section of stubs. Starts of rows count from the start of the piece, and the first row starts
/// at 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_stub_code {
    /// The rows.
    pub rows: *const cfipack_row,
    /// The number of rows.
    pub num_rows: usize,
    /// The size in bytes; 0 if this piece is missing.
    pub size: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// A section of stubs: a header, identical entries, and a trailer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_stubs {
    /// The key of the first byte.
    pub key: u64,
    /// The number of entries.
    pub num_entries: usize,
    /// The code before the entries.
    pub header: cfipack_stub_code,
    /// The code of an entry.
    pub entry: cfipack_stub_code,
    /// The code after the entries.
    pub trailer: cfipack_stub_code,
}

/// Adds the rows of stubs, such as a PLT, that `cfipack_merger_push_known_stubs` does not know.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
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

/// Gets the row at `offset` bytes from the start of a function that has been pushed. The start of the row counts from
/// the function's start. Returns `CFIPACK_STATUS_NOT_FOUND` if there is no row. Use it for code that runs in the
/// function's frame. For example, a veneer may contain the instruction of that place, or a thunk may lie between two
/// parts of the function. Set the start of the row to 0 and pass it to `cfipack_merger_push_stubs`.
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

/// Converts a number of entries. No real section has more entries than fit into 32 bits.
fn entries(count: usize) -> Result<u32, cfipack_status> {
    u32::try_from(count).map_err(|_| InvalidArgument)
}

/// x86-64: the `.plt` of bfd, gold and lld. The header has 16 bytes. An entry has 16 bytes: `jmp *slot`, at 6
/// `push index`, at 11 `jmp header`.
pub const CFIPACK_STUBS_AMD64_LAZY_PLT: u32 = 1;
/// x86-64: the `.plt` beside a `.plt.sec`. It has the header of the lazy PLT. An entry has 16 bytes: `endbr64`, at 4
/// `push index`, at 9 `jmp header`, with or without `bnd`.
pub const CFIPACK_STUBS_AMD64_IBT_PLT: u32 = 2;
/// x86-64: the `.plt` of bfd before 2.41 with `-z bndplt`. It has the header of the lazy PLT. An entry has 16 bytes:
/// `push index`, at 5 `bnd jmp header`.
pub const CFIPACK_STUBS_AMD64_BND_PLT: u32 = 3;
/// x86-64: the `.plt` of mold. The header has 32 bytes: `endbr64`, at 4 `push %r11`, at 6 `push got+8`, at 12
/// `jmp *got+16`. An entry has 16 bytes: it loads its index into `r11` and jumps.
pub const CFIPACK_STUBS_AMD64_MOLD_PLT: u32 = 4;
/// x86-64: stubs of 16 bytes that only jump, for example `.plt.sec`, `.plt.got`, the PLT of a static program, and
/// thunks.
pub const CFIPACK_STUBS_AMD64_JUMP: u32 = 5;
/// x86-64: the code after the entries of a `.plt` for lazy TLS descriptors: `push got+8`, at 6 `jmp *resolver`.
pub const CFIPACK_STUBS_AMD64_TLS_DESC: u32 = 6;
/// x86-64: the code for lazy TLS descriptors, after `endbr64`.
pub const CFIPACK_STUBS_AMD64_IBT_TLS_DESC: u32 = 7;
/// AArch64: a header of 32 bytes that starts with `stp x16, x30, [sp, #-16]!`, and entries of 16 bytes that only
/// jump. With pointer authentication an entry has 24 bytes.
pub const CFIPACK_STUBS_AARCH64_PLT: u32 = 8;
/// AArch64: the same header after `bti c`, and entries of 24 bytes, with or without `autia1716`.
pub const CFIPACK_STUBS_AARCH64_BTI_PLT: u32 = 9;
/// AArch64: stubs of 16 bytes that only jump, for example a PLT without a header, `.plt.got`, and thunks of any size
/// for calls and tail calls.
pub const CFIPACK_STUBS_AARCH64_JUMP: u32 = 10;
/// AArch64: 32 bytes after the entries of a `.plt` for lazy TLS descriptors, which start with `stp x2, x3, [sp,
/// #-16]!`.
pub const CFIPACK_STUBS_AARCH64_TLS_DESC: u32 = 11;
/// AArch64: the code for lazy TLS descriptors, after `bti c`.
pub const CFIPACK_STUBS_AARCH64_BTI_TLS_DESC: u32 = 12;
/// s390x: the PLT of bfd and lld. Header and entries have 32 bytes and do not change the stack pointer.
pub const CFIPACK_STUBS_S390X_PLT: u32 = 13;
/// x86-64: the `.plt` of lld with `-z retpolineplt`. The header has 48 bytes, and its last 16 bytes have no row: they
/// are the tail that all entries share. An entry has 32 bytes.
pub const CFIPACK_STUBS_AMD64_RETPOLINE_PLT: u32 = 14;
/// x86-64: the `.plt` of lld with `-z retpolineplt -z now`. The header has 32 bytes, an entry has 16 bytes.
pub const CFIPACK_STUBS_AMD64_RETPOLINE_NOW_PLT: u32 = 15;
/// s390x: the `.plt` of mold. The header has 48 bytes, an entry has 16 bytes. They do not change the stack pointer.
pub const CFIPACK_STUBS_S390X_MOLD_PLT: u32 = 16;
/// s390x: stubs of 16 bytes that only jump, such as mold's `.plt.got`.
pub const CFIPACK_STUBS_S390X_JUMP: u32 = 17;
/// A flag to add to a `CFIPACK_STUBS_...` number: the entries without the header, as in lld's `.iplt`.
pub const CFIPACK_STUBS_NO_HEADER: u32 = 0x100;

/// Returns the stubs with a `CFIPACK_STUBS_...` number.
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

/// Adds the rows of known stubs. `kind` is `CFIPACK_STUBS_...`; add `CFIPACK_STUBS_NO_HEADER` if there are only
/// entries. `key` is the key of the first byte, which is the header's if there is a header. `entry_size` is the size
/// of an entry in bytes, if its padding differs from the kind's, or 0 for the kind's size.
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
