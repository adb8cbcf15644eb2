//! Differences of a changed file, as reports list them in JSON.

use std::borrow::Cow;

use cfipack_edit::{Piece, Rewrite};
use serde::{Serialize, Serializer};

/// Bytes of a changed file that are new, or have moved.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// The offset in the new file.
    #[serde(serialize_with = "hexadecimal")]
    #[cfg_attr(test, schemars(with = "String"))]
    offset: usize,
    size: usize,
    what: Cow<'static, str>,
    /// The offset of the bytes in the old file, if they have moved.
    #[serde(serialize_with = "known_hexadecimal", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    from: Option<usize>,
}

/// Lists all changes. All other bytes of the changed file are bytes of the old file.
pub fn changes(new: &Rewrite<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (offset, piece) in new.pieces() {
        let (what, from) = match piece {
            Piece::New { what, .. } | Piece::Zeros { what, .. } => (what.clone(), None),
            Piece::Old(range) if range.start != offset => ("moved bytes".into(), Some(range.start)),
            _ => continue,
        };
        changes.push(Change { offset, size: piece.len(), what, from });
    }
    changes
}

fn hexadecimal<S: Serializer>(offset: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{offset:#x}"))
}

fn known_hexadecimal<S: Serializer>(offset: &Option<usize>, serializer: S) -> Result<S::Ok, S::Error> {
    hexadecimal(&offset.unwrap_or_default(), serializer)
}
