//! The shapes and rows of known stubs.

use crate::format::{Arch, Cfa, FunctionOffset, Register, Row, Rule};

/// A piece of code with its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Code<'r> {
    pub(super) size: u32,
    pub(super) rows: &'r [Row],
}

impl<'r> Code<'r> {
    /// No code.
    pub const NONE: Code<'static> = Code { size: 0, rows: &[] };

    /// Creates code of `size` bytes with your rows. Starts of rows count from the start of the code. The first row
    /// starts at 0, starts ascend, and every row starts inside the code.
    pub const fn new(size: u32, rows: &'r [Row]) -> Self {
        Self { size, rows }
    }

    /// Returns the size in bytes.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Returns the rows.
    pub const fn rows(&self) -> &'r [Row] {
        self.rows
    }
}

/// The shape of a section of stubs: a header, identical entries, and a trailer. Each part may be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Shape<'r> {
    pub(super) header: Code<'r>,
    pub(super) gap: u32,
    pub(super) entry: Code<'r>,
    pub(super) trailer: Code<'r>,
}

impl<'r> Shape<'r> {
    /// Creates an empty shape.
    pub const fn new() -> Self {
        Self { header: Code::NONE, gap: 0, entry: Code::NONE, trailer: Code::NONE }
    }

    /// Sets the header, directly before the entries, and removes the gap. Pass [`Code::NONE`] for a PLT without a
    /// header, for example a PLT of `ifunc` symbols alone (`.iplt`).
    pub const fn with_header(mut self, header: Code<'r>) -> Self {
        self.header = header;
        self.gap = 0;
        self
    }

    /// Sets the number of bytes between the header and the entries that have no row, because no row is true for them.
    pub const fn with_gap(mut self, bytes: u32) -> Self {
        self.gap = bytes;
        self
    }

    /// Sets the code of an entry.
    pub const fn with_entry(mut self, entry: Code<'r>) -> Self {
        self.entry = entry;
        self
    }

    /// Sets the code after the entries, for example for [TLS descriptors](StubKind::Amd64TlsDesc).
    pub const fn with_trailer(mut self, trailer: Code<'r>) -> Self {
        self.trailer = trailer;
        self
    }

    /// Changes the size of an entry, in bytes. Use this for the same code with other padding.
    pub const fn with_entry_size(mut self, size: u32) -> Self {
        self.entry.size = size;
        self
    }

    /// Returns the code before the entries.
    pub const fn header(&self) -> Code<'r> {
        self.header
    }

    /// Returns the number of bytes without a row between the header and the entries.
    pub const fn gap(&self) -> u32 {
        self.gap
    }

    /// Returns the code of an entry.
    pub const fn entry(&self) -> Code<'r> {
        self.entry
    }

    /// Returns the code after the entries.
    pub const fn trailer(&self) -> Code<'r> {
        self.trailer
    }
}

/// The stubs of known linkers, named by their code. Offsets in these descriptions count from the start of the header
/// or the entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StubKind {
    /// x86-64: the `.plt` of bfd, gold and lld. The header has 16 bytes. An entry has 16 bytes: `jmp *slot`, at 6
    /// `push index`, at 11 `jmp header`. Without its header this is lld's `.iplt`.
    Amd64LazyPlt,
    /// x86-64: the `.plt` of bfd (`-z ibtplt`) and lld (`-z force-ibt`) beside a `.plt.sec`. It has the header of
    /// [`Self::Amd64LazyPlt`]. An entry has 16 bytes: `endbr64`, at 4 `push index`, at 9 `jmp header`, with or
    /// without `bnd`.
    Amd64IbtPlt,
    /// x86-64: the `.plt` of bfd before 2.41 with `-z bndplt`. An entry has 16 bytes: `push index`, at 5
    /// `bnd jmp header`.
    Amd64BndPlt,
    /// x86-64: the `.plt` of mold. The header has 32 bytes: `endbr64`, at 4 `push %r11`, at 6 `push got+8`, at 12
    /// `jmp *got+16`. An entry has 16 bytes: it loads its index into `r11` and jumps.
    Amd64MoldPlt,
    /// x86-64: the `.plt` of lld with `-z retpolineplt`. The header has 48 bytes: `push got+8`, and at 6 a load and a
    /// call of the tail. The tail starts at 32 and has no row. An entry has 32 bytes: a load and a call of the tail,
    /// at 17 `push index`, at 22 `jmp header`. Without its header this is lld's `.iplt`.
    Amd64RetpolinePlt,
    /// x86-64: the `.plt` of lld with `-z retpolineplt -z now`. The header has 32 bytes and is all tail: `call`, and
    /// at 16 the code that it calls. An entry has 16 bytes: it loads its slot and jumps. Without its header this is
    /// lld's `.iplt`.
    Amd64RetpolineNowPlt,
    /// x86-64: stubs of 16 bytes that only jump, also after `endbr64` or with `bnd`. Examples are `.plt.sec`,
    /// `.plt.got`, the PLT of wild, the PLT of a static program, and thunks. Some of these stubs have 8 bytes: see
    /// [`Shape::with_entry_size`].
    Amd64Jump,
    /// x86-64: 16 bytes after the entries of a `.plt`: `push got+8`, at 6 `jmp *resolver`. Calls of lazy TLS
    /// descriptors come here.
    Amd64TlsDesc,
    /// x86-64: like [`Self::Amd64TlsDesc`], but after `endbr64`.
    Amd64IbtTlsDesc,
    /// AArch64: a header of 32 bytes that starts with `stp x16, x30, [sp, #-16]!`, and entries of 16 bytes that only
    /// jump. With pointer authentication an entry has 24 bytes: see [`Shape::with_entry_size`].
    Aarch64Plt,
    /// AArch64: the header of [`Self::Aarch64Plt`] after `bti c`, and entries of 24 bytes, with or without
    /// `autia1716`.
    Aarch64BtiPlt,
    /// AArch64: stubs of 16 bytes that only jump. Examples are a PLT without a header, `.plt.got`, and thunks of any
    /// size for calls and tail calls.
    Aarch64Jump,
    /// AArch64: 32 bytes after the entries of a `.plt` that start with `stp x2, x3, [sp, #-16]!`. Calls of lazy TLS
    /// descriptors come here.
    Aarch64TlsDesc,
    /// AArch64: like [`Self::Aarch64TlsDesc`], but after `bti c`.
    Aarch64BtiTlsDesc,
    /// s390x: the PLT of bfd and lld. Header and entries have 32 bytes and do not change the stack pointer. Without
    /// its header this is lld's `.iplt`.
    S390xPlt,
    /// s390x: the `.plt` of mold. The header has 48 bytes, an entry has 16 bytes. They change neither the stack
    /// pointer nor `r14`.
    S390xMoldPlt,
    /// s390x: stubs of 16 bytes that only jump, such as mold's `.plt.got`.
    S390xJump,
}

impl StubKind {
    /// All kinds of stubs.
    pub const ALL: [Self; 17] = [
        Self::Amd64LazyPlt,
        Self::Amd64IbtPlt,
        Self::Amd64BndPlt,
        Self::Amd64MoldPlt,
        Self::Amd64RetpolinePlt,
        Self::Amd64RetpolineNowPlt,
        Self::Amd64Jump,
        Self::Amd64TlsDesc,
        Self::Amd64IbtTlsDesc,
        Self::Aarch64Plt,
        Self::Aarch64BtiPlt,
        Self::Aarch64Jump,
        Self::Aarch64TlsDesc,
        Self::Aarch64BtiTlsDesc,
        Self::S390xPlt,
        Self::S390xMoldPlt,
        Self::S390xJump,
    ];

    /// Returns the architecture of the code.
    pub const fn arch(self) -> Arch {
        match self {
            Self::Amd64LazyPlt
            | Self::Amd64IbtPlt
            | Self::Amd64BndPlt
            | Self::Amd64MoldPlt
            | Self::Amd64RetpolinePlt
            | Self::Amd64RetpolineNowPlt
            | Self::Amd64Jump
            | Self::Amd64TlsDesc
            | Self::Amd64IbtTlsDesc => Arch::Amd64,
            Self::Aarch64Plt
            | Self::Aarch64BtiPlt
            | Self::Aarch64Jump
            | Self::Aarch64TlsDesc
            | Self::Aarch64BtiTlsDesc => Arch::Aarch64,
            Self::S390xPlt | Self::S390xMoldPlt | Self::S390xJump => Arch::S390x,
        }
    }

    /// Returns the sizes and rows of these stubs.
    pub const fn shape(self) -> Shape<'static> {
        let (header, entry) = match self {
            Self::Amd64LazyPlt => (AMD64_HEADER, Code::new(16, const { &amd64_pushes(11, 16) })),
            Self::Amd64IbtPlt => (AMD64_HEADER, Code::new(16, const { &amd64_pushes(9, 16) })),
            Self::Amd64BndPlt => (AMD64_HEADER, Code::new(16, const { &amd64_pushes(5, 16) })),
            Self::Amd64MoldPlt => (AMD64_MOLD_HEADER, AMD64_JUMP),
            Self::Amd64RetpolinePlt => {
                (AMD64_RETPOLINE_HEADER, Code::new(32, const { &amd64_pushes(22, 16) }))
            }
            Self::Amd64RetpolineNowPlt => (Code::new(32, const { &amd64_pushes(16, 16) }), AMD64_JUMP),
            Self::Amd64Jump => (Code::NONE, AMD64_JUMP),
            Self::Amd64TlsDesc => (Code::NONE, Code::new(16, const { &amd64_pushes(6, 16) })),
            Self::Amd64IbtTlsDesc => (Code::NONE, Code::new(16, const { &amd64_pushes(10, 16) })),
            Self::Aarch64Plt => {
                (Code::new(32, const { &aarch64_header(4) }), Code::new(16, &[AARCH64_ENTRY]))
            }
            Self::Aarch64BtiPlt => {
                (Code::new(32, const { &aarch64_header(8) }), Code::new(24, &[AARCH64_ENTRY]))
            }
            Self::Aarch64Jump => (Code::NONE, Code::new(16, &[AARCH64_ENTRY])),
            Self::Aarch64TlsDesc => (Code::NONE, Code::new(32, const { &aarch64_tls_desc(4) })),
            Self::Aarch64BtiTlsDesc => (Code::NONE, Code::new(32, const { &aarch64_tls_desc(8) })),
            Self::S390xPlt => (Code::new(32, &[S390X_ENTRY]), Code::new(32, &[S390X_ENTRY])),
            Self::S390xMoldPlt => (Code::new(48, &[S390X_ENTRY]), Code::new(16, &[S390X_ENTRY])),
            Self::S390xJump => (Code::NONE, Code::new(16, &[S390X_ENTRY])),
        };
        // In the retpoline's tail the link map may be on the stack or not, so no row is true.
        let gap = if matches!(self, Self::Amd64RetpolinePlt) { 16 } else { 0 };
        Shape::new().with_header(header).with_gap(gap).with_entry(entry)
    }

    /// Returns whether these stubs only jump.
    pub(super) const fn is_jump(self) -> bool {
        matches!(self, Self::Amd64Jump | Self::Aarch64Jump | Self::S390xJump)
    }

    /// Returns the code of an entry.
    pub const fn entry(self) -> Code<'static> {
        self.shape().entry
    }
}

impl From<StubKind> for Shape<'static> {
    fn from(kind: StubKind) -> Self {
        kind.shape()
    }
}

/// The header of a lazy PLT. The entry has pushed its index before it jumps here; at 6 the header has pushed the link
/// map.
const AMD64_HEADER: Code<'static> = Code::new(16, &[amd64(0, 16), amd64(6, 24)]);
/// The header of mold's PLT. The entry has pushed nothing. `r11` is pushed before 6, and the link map before 12.
const AMD64_MOLD_HEADER: Code<'static> = Code::new(32, &[amd64(0, 8), amd64(6, 16), amd64(12, 24)]);
/// The header of a lazy retpoline PLT up to its tail. Its rows are the rows of [`AMD64_HEADER`].
const AMD64_RETPOLINE_HEADER: Code<'static> = Code::new(32, AMD64_HEADER.rows);
const AMD64_JUMP: Code<'static> = Code::new(16, &[amd64(0, 8)]);

/// Rows of called code: from offset `from` on, the CFA is `pushed` bytes above the stack pointer.
const fn amd64_pushes(from: u32, pushed: i64) -> [Row; 2] {
    [amd64(0, 8), amd64(from, pushed)]
}

/// A row with the return address just below the CFA.
const fn amd64(start: u32, offset: i64) -> Row {
    row(start, Register(7), offset, Rule::Cfa(-8))
}

/// Rows of code that is entered by a jump, with the caller's return address in `x30`. Before offset `stored` it
/// stores `x16` and `x30`.
const fn aarch64_header(stored: u32) -> [Row; 2] {
    [AARCH64_ENTRY, row(stored, Register(31), 16, Rule::Cfa(-8))]
}

/// Rows of called code that stores two registers before offset `stored`. No row describes these two registers.
const fn aarch64_tls_desc(stored: u32) -> [Row; 2] {
    [AARCH64_ENTRY, row(stored, Register(31), 16, Rule::SameValue)]
}

const AARCH64_ENTRY: Row = row(0, Register(31), 0, Rule::SameValue);
/// The ABI puts the CFA 160 bytes above the stack pointer of a function that has saved nothing.
const S390X_ENTRY: Row = row(0, Register(15), 160, Rule::SameValue);

const fn row(start: u32, register: Register, offset: i64, return_address: Rule) -> Row {
    let cfa = Cfa::Register { register, offset };
    let start = FunctionOffset(start);
    Row { start, cfa, return_address, frame_pointer: Rule::SameValue, signed: false }
}
