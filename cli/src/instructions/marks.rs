//! Marks of instructions where code and CFI disagree.

use std::collections::BTreeMap;

use cfipack_code::Finding;
use serde::Serialize;

/// A disagreement between code, CFI and table at an instruction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mark {
    pub kind: Kind,
    /// The description, as one sentence.
    pub words: String,
}

/// A kind of disagreement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
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
    /// At a return, the stack pointer is not where the call left it.
    Return,
    /// A row starts inside the instruction.
    Boundary,
    /// The return address is not where the row has it.
    ReturnAddress,
    /// The return address is signed and the row has it unsigned, or the other way round.
    Signature,
    /// A register of the caller is not where the row has it stored.
    SavedRegister,
    /// A register has another value than the caller's, and the row has it unchanged.
    LostRegister,
    /// The row of the file's table differs.
    Table,
}

/// Returns the marks for findings, by the index of the instruction.
pub fn by_instruction(findings: Vec<Finding>) -> BTreeMap<usize, Vec<Mark>> {
    let mut marks = BTreeMap::<_, Vec<Mark>>::new();
    for finding in findings {
        let mark = Mark { kind: Kind::from_code(finding.kind), words: finding.words };
        marks.entry(finding.index).or_default().push(mark);
    }
    marks
}

impl Kind {
    fn from_code(kind: cfipack_code::Kind) -> Self {
        use cfipack_code::Kind as Code;
        match kind {
            Code::Entry => Self::Entry,
            Code::NoRow => Self::NoRow,
            Code::NoInstruction => Self::NoInstruction,
            Code::Mismatch => Self::Mismatch,
            Code::Branch => Self::Branch,
            Code::Return => Self::Return,
            Code::Boundary => Self::Boundary,
            Code::ReturnAddress => Self::ReturnAddress,
            Code::Signature => Self::Signature,
            Code::SavedRegister => Self::SavedRegister,
            Code::LostRegister => Self::LostRegister,
        }
    }
}
