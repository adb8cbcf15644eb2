//! Makes random functions as assembler text: a little code, and many `.cfi_*` directives.
//!
//! Functions of [`Mode::Clean`] have only directives that gas translates rightly and `.eh_frame` can carry
//! (docs/gnu-exceptions.md). So gas's `.sframe` is the right answer to the byte. [`Mode::Directives`] adds directives
//! that `.eh_frame` does not carry. [`Mode::Wild`] has everything that gas assembles.

mod function;
mod state;

use cfipack_format::Arch;
use cfipack_testkit::random::Random;

use function::Writer;

/// The directives that a generated function may contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Only what gas translates rightly.
    Clean,
    /// Also directives that `.eh_frame` does not carry: alignments that may add no byte, all kinds of escapes, labels.
    Directives,
    /// Everything.
    Wild,
}

/// A target of the assembler.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The architecture.
    pub arch: Arch,
    /// The assembler's command.
    pub assembler: &'static str,
    /// Registers whose saving `.sframe` does not represent.
    callee_saved: &'static [u16],
    /// Registers that may contain the frame pointer, the return address or the CFA.
    scratch: &'static [u16],
    /// The length of every instruction is a multiple of this number of bytes.
    unit: u64,
}

/// The targets that gas writes `.sframe` for.
pub const TARGETS: [Target; 3] = [
    Target {
        arch: Arch::Amd64,
        assembler: "as",
        callee_saved: &[3, 12, 13, 14, 15],
        scratch: &[0, 1, 2, 8, 9, 10, 11, 17, 31, 32, 130, 145],
        unit: 1,
    },
    Target {
        arch: Arch::Aarch64,
        assembler: "aarch64-linux-gnu-as",
        callee_saved: &[19, 20, 21, 28, 72, 79],
        scratch: &[9, 10, 16, 17],
        unit: 4,
    },
    Target {
        arch: Arch::S390x,
        assembler: "s390x-linux-gnu-as",
        callee_saved: &[6, 7, 12, 13, 24],
        scratch: &[1, 2, 16, 17, 18, 32, 68],
        unit: 2,
    },
];

/// A file of functions, in the order of `.cfi_startproc`. Both sections have this order.
#[derive(Clone, Debug)]
pub struct File {
    /// The text of each function, its section directive included.
    pub functions: Vec<String>,
}

impl File {
    /// A file of `count` functions.
    pub fn random(random: &mut Random, target: Target, mode: Mode, count: usize) -> Self {
        let functions = (0..count).map(|number| Writer::function(random, target, mode, number)).collect();
        Self { functions }
    }

    /// The whole text.
    pub fn text(&self) -> String {
        let lsda = "\t.section .gcc_except_table,\"a\"\nlsda:\n\t.byte 0\n";
        format!("\t.text\n{}{lsda}", self.functions.concat())
    }
}
