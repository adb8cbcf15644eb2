//! The disagreements between a function's rows and its code.

use crate::analysis::Analysis;

/// The kind of a disagreement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The row at the function's entry does not describe the frame that a call leaves.
    Entry,
    /// The instruction changes the register that the CFA is based on, and no row follows.
    NoRow,
    /// A row changes the CFA, and the instruction before it does not.
    NoInstruction,
    /// A row and the instruction before it change the CFA differently.
    Mismatch,
    /// The row at a branch's target has another CFA than the code.
    Branch,
    /// The stack pointer is not where the call left it when the function returns.
    Return,
    /// A row starts inside the instruction.
    Boundary,
    /// The return address is not where the row has it.
    ReturnAddress,
    /// The return address is signed where the row has it unsigned, or unsigned where the row has it signed.
    Signature,
    /// The row at a call has another CFA than the code.
    Call,
    /// A register of the caller is not where the row has it stored.
    SavedRegister,
    /// A register has another value than the caller's, and the row has it unchanged.
    LostRegister,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Entry,
        Self::NoRow,
        Self::NoInstruction,
        Self::Mismatch,
        Self::Branch,
        Self::Return,
        Self::Boundary,
        Self::ReturnAddress,
        Self::Signature,
        Self::Call,
        Self::SavedRegister,
        Self::LostRegister,
    ];

    /// Returns the name in reports, for example `no-row`.
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
            Self::Call => "call",
            Self::SavedRegister => "saved-register",
            Self::LostRegister => "lost-register",
        }
    }

    /// Returns a sentence that describes the kind.
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
                "The return address is signed and the row has it unsigned, or the other way round, or the CIE has another key."
            }
            Self::Call => "The row at a call has another CFA than the code.",
            Self::SavedRegister => "A register of the caller is not where the row has it stored.",
            Self::LostRegister => {
                "A register has another value than the caller's, and the row has it unchanged."
            }
        }
    }
}

/// A disagreement between a row and the code.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The index of the instruction that the finding is about.
    pub index: usize,
    /// The range of code with the wrong row, as offsets from the function's start. The second offset is exclusive.
    pub wrong: (u32, u32),
    /// The kind of the disagreement.
    pub kind: Kind,
    /// A sentence that says where the row and the code differ.
    pub words: String,
    /// True if the rows before this instruction were wrong already. Then the disagreement changes or ends here.
    pub continues: bool,
    /// The index of a call before the wrong row. The call may not return, and then the row is about something else.
    pub(crate) after_call: Option<usize>,
}

impl Finding {
    pub(super) fn new(index: usize, wrong: (u32, u32), kind: Kind, words: String) -> Self {
        Self { index, wrong, kind, words, continues: false, after_call: None }
    }
}

/// The result of comparing a function's rows with its code.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Judgement {
    /// The disagreements, ascending by instruction.
    pub findings: Vec<Finding>,
    /// The number of instructions that could not be checked, not counting padding: no path leads to them, or the CFA
    /// or the value of a rule is not known.
    pub undecided: u64,
    /// The offset of the first instruction that could not be checked.
    pub first_undecided: Option<u32>,
    /// The number of instructions with a right row.
    pub right: u64,
    /// True if there are more disagreements than [`MAX_FINDINGS`](Self::MAX_FINDINGS).
    pub is_cut: bool,
}

impl Judgement {
    /// The most disagreements of a function that are kept.
    pub const MAX_FINDINGS: usize = 1 << 12;

    /// Returns the offsets of calls before a wrong row that may never return, as `abort` does: no path from them reaches a
    /// proper return. Then the code after the call belongs to another, unknown path, and the row is not a fault. Run the
    /// analysis again with these offsets in [`Ways::noreturn`](crate::Ways::noreturn), and judge once more.
    ///
    /// Set `is_closed` if the analysis has all ways into the function. Then a call returns if there is no other way to the
    /// wrong row.
    pub fn unconfirmed_calls(&self, analysis: &Analysis<'_>, is_closed: bool) -> Vec<u32> {
        let calls = self.findings.iter().filter_map(|finding| {
            let call = finding.after_call?;
            (!is_closed || analysis.is_reached_without(call, finding.index)).then_some(call)
        });
        let mut calls: Vec<_> = calls.collect();
        calls.sort_unstable();
        calls.dedup();
        let returning = if calls.is_empty() { Vec::new() } else { analysis.returning() };
        calls.retain(|call| !analysis.returns_to(*call).is_some_and(|next| returning[next]));
        calls.into_iter().map(|call| analysis.instructions().offset(call)).collect()
    }
}
