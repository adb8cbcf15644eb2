//! Counts the personalities of a link, as a linker counts them.

use std::collections::BTreeSet;

use cfipack_container::{CompactUnwind, File};
use cfipack_edit::CompactUnwindEditor;
use cfipack_format::SectionOffset;
use cfipack_format::compact_unwind::{Entry as Row, Mode};
use cfipack_format::unwind_info::MAX_PERSONALITIES;
use cfipack_format::widen::ToU64;

use super::request::Request;
use crate::compact::personalities::symbols_by_field;

/// A personality. A local or private external symbol is another personality in each object, even if the name is the
/// same. For example, `ld -r` and `objcopy --localize-symbol` make such symbols.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Personality {
    /// The name of the symbol.
    pub name: String,
    /// The number of the only object that has the symbol, or `None` for a symbol that objects share.
    object: Option<u64>,
}

impl Personality {
    /// Identifies a symbol of an object by its index. Returns `None` if there is no such symbol.
    pub fn of_symbol(editor: &CompactUnwindEditor<'_, '_>, symbol: usize, object: u64) -> Option<Self> {
        let name = editor.symbol_name(symbol)?.into_owned();
        Some(Self { name, object: (!editor.is_shared(symbol)).then_some(object) })
    }
}

/// The personalities of the compact rows of a file. If the file is an archive, a link may need all of its members.
#[derive(Clone, Default, Debug)]
pub struct Personalities {
    /// The personalities of rows that were compact before.
    before: BTreeSet<Personality>,
    /// All personalities.
    all: BTreeSet<Personality>,
    /// The personalities of functions that stay in DWARF mode, because they would be a fourth.
    refused: BTreeSet<Personality>,
}

impl Personalities {
    /// Returns the personalities in the order of their names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.all.iter().map(|personality| &*personality.name)
    }

    /// Returns the personalities for which there is no room.
    pub fn refused(&self) -> impl Iterator<Item = &str> {
        self.refused.iter().map(|personality| &*personality.name)
    }

    /// Returns whether new rows have too many personalities. This happens if a later object had compact rows with
    /// others. Plan the file again then, with the [personalities of the old rows](Self::before).
    pub fn exceed(&self) -> bool {
        self.all.len() > MAX_PERSONALITIES.max(self.before.len())
    }

    /// Returns the personalities of the rows that were compact before.
    pub fn before(self) -> Self {
        Self { all: self.before.clone(), before: self.before, ..Self::default() }
    }

    /// Adds the personalities of another slice or file.
    pub fn absorb(&mut self, other: Self) {
        self.before.extend(other.before);
        self.all.extend(other.all);
        self.refused.extend(other.refused);
    }

    /// Adds the personalities of an object's compact rows that stay.
    pub fn add_rows(
        &mut self,
        file: &File<'_>,
        editor: &CompactUnwindEditor<'_, '_>,
        compact: &CompactUnwind<'_>,
        request: &Request<'_>,
    ) -> anyhow::Result<()> {
        let object = request.object;
        let symbols = symbols_by_field(file, compact.section.index)?;
        for row in &compact.rows {
            if row.encoding.mode(file.arch()) == Some(Mode::Dwarf) || request.faulty.contains(&row.function) {
                continue;
            }
            let field = SectionOffset(row.offset.0 + Row::personality_at(file.arch().pointer_size()));
            let found = match symbols.get(&field.0.to_u64()) {
                Some(symbol) => Personality::of_symbol(editor, *symbol, object),
                None => compact.referent(field).map(|referent| {
                    let name = referent.name.clone().into_owned();
                    Personality { name, object: Some(object) }
                }),
            };
            self.before.extend(found.clone());
            self.all.extend(found);
        }
        Ok(())
    }

    /// Adds the personality of a new row. Returns false, and adds nothing, if the personality would be a fourth.
    pub fn admit(&mut self, personality: Personality) -> bool {
        if self.all.contains(&personality) {
            return true;
        }
        let has_room = self.all.len() < MAX_PERSONALITIES;
        let list = if has_room { &mut self.all } else { &mut self.refused };
        list.insert(personality);
        has_room
    }
}
