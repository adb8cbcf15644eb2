//! Disagreements between a function's rows and its code.

use crate::analysis::Analysis;

/// A kind of disagreement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The row at the function's entry does not describe the frame that a call leaves.
    Entry,
    /// The instruction changes the register that the CFA is based on, and no row follows.
    NoRow,
    /// A row changes the CFA, and the instruction before does not.
    NoInstruction,
    /// A row and the instruction before it change the CFA differently.
    Mismatch,
    /// The row at a branch's target has another CFA.
    Branch,
    /// The stack pointer is not where the call left it when the function returns.
    Return,
    /// A row starts inside the instruction.
    Boundary,
    /// The return address is not where the row has it.
    ReturnAddress,
    /// The return address is signed where the row has it unsigned, or unsigned where the row has it signed.
    Signature,
    /// A register of the caller is not where the row has it stored.
    SavedRegister,
    /// A register has another value than the caller's, and the row has it unchanged.
    LostRegister,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Entry,
        Self::NoRow,
        Self::NoInstruction,
        Self::Mismatch,
        Self::Branch,
        Self::Return,
        Self::Boundary,
        Self::ReturnAddress,
        Self::Signature,
        Self::SavedRegister,
        Self::LostRegister,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::NoRow => "no-row",
            Self::NoInstruction => "no-instruction",
            Self::Mismatch => "mismatch",
            Self::Branch => "branch",
            Self::Return => "return",
            Self::Boundary => "boundary",
            Self::ReturnAddress => "return-address",
            Self::Signature => "signature",
            Self::SavedRegister => "saved-register",
            Self::LostRegister => "lost-register",
        }
    }

    /// A sentence about it.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Entry => "The row at the function's entry does not describe the frame that a call leaves.",
            Self::NoRow => {
                "An instruction changes the register that the CFA is based on, and no row follows."
            }
            Self::NoInstruction => "A row changes the CFA, and the instruction before it does not.",
            Self::Mismatch => "A row and the instruction before it change the CFA differently.",
            Self::Branch => "The row at a branch's target has another CFA than the code.",
            Self::Return => "The stack pointer is not where the call left it when the function returns.",
            Self::Boundary => "A row starts inside an instruction.",
            Self::ReturnAddress => "The return address is not where the row has it.",
            Self::Signature => {
                "The return address is signed and the row has it unsigned, or the other way round."
            }
            Self::SavedRegister => "A register of the caller is not where the row has it stored.",
            Self::LostRegister => {
                "A register has another value than the caller's, and the row has it unchanged."
            }
        }
    }
}

/// A disagreement.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The index of the instruction that it is about.
    pub index: usize,
    /// Offsets from the function's start of the code for which the row is wrong: from its first instruction to the end of the
    /// last one without a gap.
    pub wrong: (u32, u32),
    /// The kind.
    pub kind: Kind,
    /// One sentence: what the row has and what the code does.
    pub words: String,
    /// True if a row was wrong before it already: the disagreement changes or ends.
    pub continues: bool,
    /// The index of the call after which a row starts that is wrong: it may not return.
    pub(crate) after_call: Option<usize>,
}

/// The judgement about a function.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Judgement {
    /// The disagreements, by instruction.
    pub findings: Vec<Finding>,
    /// Instructions, but for padding, about which nothing can be decided: no way leads there, or the CFA is not known.
    pub undecided: u64,
    /// The offset of the first of them.
    pub first_undecided: Option<u32>,
    /// Instructions whose row is right.
    pub right: u64,
    /// True if there are more disagreements than are kept: [`MAX_FINDINGS`](Self::MAX_FINDINGS).
    pub is_cut: bool,
}

impl Judgement {
    /// The most disagreements of a function that are kept.
    pub const MAX_FINDINGS: usize = 1 << 12;

    /// Offsets of calls after which a row starts that is wrong, and nothing shows that they return: code of another way to
    /// come there, which is not known.
    pub fn unconfirmed_calls(&self, analysis: &Analysis<'_>) -> impl Iterator<Item = u32> {
        let mut calls: Vec<_> = self.findings.iter().filter_map(|finding| finding.after_call).collect();
        calls.sort_unstable();
        calls.dedup();
        // Each costs a search through the function.
        calls.truncate(MAX_CALLS);
        let returns =
            |call: &usize| analysis.after_padding(*call).is_some_and(|next| analysis.returns_from(next));
        let offset = |call: usize| analysis.instructions().as_slice()[call].offset;
        calls.into_iter().filter(move |call| !returns(call)).map(offset)
    }
}

/// The most calls of a function that are looked at at once.
const MAX_CALLS: usize = 16;
