//! The shapes of stubs, by name.

use crate::format::{Arch, Cfa, FunctionOffset, Register, Row, Rule};

/// A piece of code and its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Code<'r> {
    pub(super) size: u32,
    pub(super) rows: &'r [Row],
}

impl<'r> Code<'r> {
    /// No code.
    pub const NONE: Code<'static> = Code { size: 0, rows: &[] };

    /// Code of `size` bytes with rows of the caller's: starts count from its own start, the first is 0, each lies
    /// after the one before it and in the code.
    pub const fn new(size: u32, rows: &'r [Row]) -> Self {
        Self { size, rows }
    }

    /// Bytes.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The rows.
    pub const fn rows(&self) -> &'r [Row] {
        self.rows
    }
}

/// The shape of a section of stubs: a header, entries that are all alike, and a trailer. Each may be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Shape<'r> {
    pub(super) header: Code<'r>,
    pub(super) gap: u32,
    pub(super) entry: Code<'r>,
    pub(super) trailer: Code<'r>,
}

impl<'r> Shape<'r> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { header: Code::NONE, gap: 0, entry: Code::NONE, trailer: Code::NONE }
    }

    /// With this header, directly before the entries; [`Code::NONE`] for none, as of a PLT of `ifunc` symbols alone
    /// (`.iplt`).
    pub const fn with_header(mut self, header: Code<'r>) -> Self {
        self.header = header;
        self.gap = 0;
        self
    }

    /// With so many bytes of code between the header and the entries of which no row is true, and which have none.
    pub const fn with_gap(mut self, bytes: u32) -> Self {
        self.gap = bytes;
        self
    }

    /// With these entries.
    pub const fn with_entry(mut self, entry: Code<'r>) -> Self {
        self.entry = entry;
        self
    }

    /// With this code after the entries, such as a [TLS descriptor's](StubKind::Amd64TlsDesc).
    pub const fn with_trailer(mut self, trailer: Code<'r>) -> Self {
        self.trailer = trailer;
        self
    }

    /// With entries of another size, in bytes: the same code with other padding.
    pub const fn with_entry_size(mut self, size: u32) -> Self {
        self.entry.size = size;
        self
    }

    /// The code before the entries.
    pub const fn header(&self) -> Code<'r> {
        self.header
    }

    /// Bytes without a row between the header and the entries.
    pub const fn gap(&self) -> u32 {
        self.gap
    }

    /// One entry.
    pub const fn entry(&self) -> Code<'r> {
        self.entry
    }

    /// The code after the entries.
    pub const fn trailer(&self) -> Code<'r> {
        self.trailer
    }
}

/// Stubs that linkers write, by their code. Offsets are those of instructions in one entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StubKind {
    /// x86-64, what bfd, gold and lld write as `.plt`: a header of 16 bytes and entries of 16, `jmp *slot`, at 6
    /// `push index`, at 11 `jmp header`. Without its header lld's `.iplt`.
    Amd64LazyPlt,
    /// x86-64, what bfd (`-z ibtplt`) and lld (`-z force-ibt`) write as `.plt` beside a `.plt.sec`: the same header, and
    /// entries of 16 bytes: `endbr64`, at 4 `push index`, at 9 `jmp header`, with or without `bnd`.
    Amd64IbtPlt,
    /// x86-64, what bfd before 2.41 writes with `-z bndplt`: entries of 16 bytes: `push index`, at 5 `bnd jmp header`.
    Amd64BndPlt,
    /// x86-64, what mold writes as `.plt`: a header of 32 bytes, `endbr64`, at 4 `push %r11`, at 6 `push got+8`, at 12
    /// `jmp *got+16`, and entries of 16 bytes that load their index into `r11` and jump.
    Amd64MoldPlt,
    /// x86-64, what lld writes as `.plt` with `-z retpolineplt`: a header of 48 bytes, `push got+8`, at 6 a load and a
    /// call of the tail, which starts at 32 and has no row; and entries of 32 bytes: a load and a call of the tail, at
    /// 17 `push index`, at 22 `jmp header`. Without its header lld's `.iplt`.
    Amd64RetpolinePlt,
    /// x86-64, what lld writes as `.plt` with `-z retpolineplt -z now`: a header of 32 bytes that is all tail, `call`,
    /// at 16 what it calls, and entries of 16 bytes that load their slot and jump. Without its header lld's `.iplt`.
    Amd64RetpolineNowPlt,
    /// x86-64 stubs that only jump, be it after `endbr64` or with `bnd`, in 16 bytes: `.plt.sec`, `.plt.got`, wild's
    /// PLT, the PLT of a static program, thunks. Others have 8: see [`Shape::with_entry_size`].
    Amd64Jump,
    /// x86-64, 16 bytes after the entries of a `.plt`: `push got+8`, at 6 `jmp *resolver`. A call of a lazy TLS
    /// descriptor comes here.
    Amd64TlsDesc,
    /// TLS descriptors' stub after `endbr64`.
    Amd64IbtTlsDesc,
    /// AArch64, a header of 32 bytes that starts with `stp x16, x30, [sp, #-16]!`, and entries of 16 bytes that only
    /// jump. With pointer authentication entries have 24: see [`Shape::with_entry_size`].
    Aarch64Plt,
    /// AArch64, the same header after `bti c`, and entries of 24 bytes, with or without `autia1716`.
    Aarch64BtiPlt,
    /// AArch64 stubs that only jump, in 16 bytes: a PLT without header, `.plt.got`, thunks that calls and tail calls
    /// pass, of any size.
    Aarch64Jump,
    /// AArch64, 32 bytes after the entries of a `.plt`, `stp x2, x3, [sp, #-16]!` first. A call of a lazy TLS
    /// descriptor comes here.
    Aarch64TlsDesc,
    /// TLS descriptors' stub after `bti c`.
    Aarch64BtiTlsDesc,
    /// s390x, what bfd and lld write: a header and entries of 32 bytes, none of which changes the stack pointer.
    /// Without its header lld's `.iplt`.
    S390xPlt,
    /// s390x, what mold writes as `.plt`: a header of 48 bytes and entries of 16, none of which changes the stack
    /// pointer or `r14`.
    S390xMoldPlt,
    /// s390x stubs that only jump, in 16 bytes: mold's `.plt.got`.
    S390xJump,
}

impl StubKind {
    /// All of them.
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

    /// The architecture of the code.
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

    /// Sizes and rows.
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
        // The retpoline's tail, where the link map may be on the stack, or not.
        let gap = if matches!(self, Self::Amd64RetpolinePlt) { 16 } else { 0 };
        Shape::new().with_header(header).with_gap(gap).with_entry(entry)
    }

    /// Returns whether it is stubs that only jump, whatever their form.
    pub(super) const fn is_jump(self) -> bool {
        matches!(self, Self::Amd64Jump | Self::Aarch64Jump | Self::S390xJump)
    }

    /// One entry of it.
    pub const fn entry(self) -> Code<'static> {
        self.shape().entry
    }
}

impl From<StubKind> for Shape<'static> {
    fn from(kind: StubKind) -> Self {
        kind.shape()
    }
}

/// An entry has pushed its index when it comes here; at 6 the header has pushed the link map.
const AMD64_HEADER: Code<'static> = Code::new(16, &[amd64(0, 16), amd64(6, 24)]);
/// An entry has pushed nothing; `r11` is pushed up to 6, the link map up to 12.
const AMD64_MOLD_HEADER: Code<'static> = Code::new(32, &[amd64(0, 8), amd64(6, 16), amd64(12, 24)]);
/// The header of a lazy retpoline PLT: the rows of [`AMD64_HEADER`] up to its tail.
const AMD64_RETPOLINE_HEADER: Code<'static> = Code::new(32, AMD64_HEADER.rows);
const AMD64_JUMP: Code<'static> = Code::new(16, &[amd64(0, 8)]);

/// Code that is called, and whose CFA is `pushed` bytes above the stack pointer from an offset on.
const fn amd64_pushes(from: u32, pushed: i64) -> [Row; 2] {
    [amd64(0, 8), amd64(from, pushed)]
}

/// The row of code that has the return address just below the CFA.
const fn amd64(start: u32, offset: i64) -> Row {
    row(start, Register(7), offset, Rule::Cfa(-8))
}

/// Code that is jumped to with the caller's return address in `x30`, and stores `x16` and it up to an offset.
const fn aarch64_header(stored: u32) -> [Row; 2] {
    [AARCH64_ENTRY, row(stored, Register(31), 16, Rule::Cfa(-8))]
}

/// Code that is called, and stores two registers, up to an offset, that no row describes.
const fn aarch64_tls_desc(stored: u32) -> [Row; 2] {
    [AARCH64_ENTRY, row(stored, Register(31), 16, Rule::SameValue)]
}

const AARCH64_ENTRY: Row = row(0, Register(31), 0, Rule::SameValue);
/// By the ABI the CFA is 160 bytes above the stack pointer of a function that has saved nothing.
const S390X_ENTRY: Row = row(0, Register(15), 160, Rule::SameValue);

const fn row(start: u32, register: Register, offset: i64, return_address: Rule) -> Row {
    let cfa = Cfa::Register { register, offset };
    let start = FunctionOffset(start);
    Row { start, cfa, return_address, frame_pointer: Rule::SameValue, signed: false }
}
