//! Marks of instructions where code and CFI disagree.

use std::collections::BTreeMap;

use cfipack_format::Address;
use cfipack_lint::Found;
use serde::Serialize;

/// A disagreement between code, CFI and table at an instruction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mark {
    // The name of a kind of findings, or `TABLE`.
    #[cfg_attr(test, schemars(with = "Kind"))]
    pub kind: &'static str,
    /// The description, as one sentence.
    pub words: String,
}

/// The kind of a mark where the row of the file's table differs.
pub const TABLE: &str = "table";

/// Returns the marks for findings, by the address of the instruction.
pub fn by_instruction(findings: Vec<Found>) -> BTreeMap<Address, Vec<Mark>> {
    let mut marks = BTreeMap::<_, Vec<Mark>>::new();
    for Found { pc, finding, .. } in findings {
        let mark = Mark { kind: finding.kind.name(), words: finding.words };
        marks.entry(pc).or_default().push(mark);
    }
    marks
}

/// The schema of [`Mark::kind`].
#[cfg(test)]
enum Kind {}

#[cfg(test)]
impl schemars::JsonSchema for Kind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let kinds = cfipack_code::Kind::ALL.map(|kind| (kind.name(), kind.sentence()));
        let kinds = kinds.into_iter().chain([(TABLE, "The row of the file's table differs.")]);
        let kinds = kinds.map(|(name, sentence)| {
            serde_json::json!({ "const": name, "description": sentence, "type": "string" })
        });
        schemars::json_schema!({
            "description": "A kind of disagreement.",
            "oneOf": kinds.collect::<Vec<_>>(),
        })
    }
}
