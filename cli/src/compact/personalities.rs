//! Numbers the personalities of a table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;

use cfipack_cfi::{Cie, Functions};
use cfipack_container::{CallFrameSection, CompactUnwind, File, Kind};
use cfipack_format::compact_unwind::{Entry as Row, Mode};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, SectionOffset};
use cfipack_roundtrip::unwind_info::Fault;

/// The identity of a personality.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Personality {
    /// In an object: the number of the symbol that a relocation names.
    Symbol(usize),
    /// In a linked file, the address of the pointer to the personality. In an object without a symbol for it, its own
    /// address.
    Address(Address),
}

/// Numbers for personalities, in the order of their first use.
#[derive(Debug, Default)]
pub struct Personalities {
    numbers: HashMap<Personality, NonZeroU32>,
    known: Vec<Personality>,
}

impl Personalities {
    /// Returns the number of a personality, and adds the personality if it is new.
    pub fn number(&mut self, personality: Personality) -> NonZeroU32 {
        *self.numbers.entry(personality).or_insert_with(|| {
            self.known.push(personality);
            NonZeroU32::MIN.saturating_add(self.known.len() as u32 - 1)
        })
    }

    /// Returns the address of the pointer to a personality of a linked file.
    pub fn pointer(&self, number: NonZeroU32) -> Option<Address> {
        match *self.known.get(number.get().to_usize() - 1)? {
            Personality::Address(address) => Some(address),
            Personality::Symbol(_) => None,
        }
    }
}

/// Checks the pointers of an object's rows. Returns the faults, each with the offset of its row. Rows in DWARF mode are not
/// checked, because the FDE gives the personality and the LSDA.
pub fn faults_of_pointers(
    file: &File<'_>,
    compact: &CompactUnwind<'_>,
) -> anyhow::Result<Vec<(SectionOffset, Fault)>> {
    let pointer_size = file.arch().pointer_size();
    let symbols = symbols_by_field(file, compact.section.index)?;
    let mut of_cies: HashMap<Address, BTreeSet<Option<Personality>>> = HashMap::new();
    for section in file.call_frame_sections()? {
        let named = PersonalitiesOfCies::read(file, &section)?;
        for function in Functions::new(&section.cfi()).flatten() {
            let personality = named.personality(&function.cie);
            of_cies.entry(function.key.address()).or_default().insert(personality);
        }
    }
    let mut faults: Vec<_> = compact.strays.iter().map(|&row| (row, Fault::RowStray)).collect();
    for row in compact.rows.iter().filter(|row| row.encoding.mode(file.arch()) != Some(Mode::Dwarf)) {
        let at = |field: usize| SectionOffset(row.offset.0 + field);
        let stored = Row::read(&compact.section.bytes[row.offset.0..], pointer_size);
        let personality_at = at(Row::personality_at(pointer_size));
        let lsda_at = at(Row::lsda_at(pointer_size));
        let has =
            |field, value: Option<u64>| value.is_some_and(|it| it != 0) && compact.referent(field).is_none();
        if has(lsda_at, stored.map(|it| it.lsda)) {
            faults.push((row.offset, Fault::RowPointer { is_lsda: true }));
        }
        if has(personality_at, stored.map(|it| it.personality)) {
            faults.push((row.offset, Fault::RowPointer { is_lsda: false }));
            continue;
        }
        let personality = match symbols.get(&personality_at.0.to_u64()) {
            Some(symbol) => Some(Personality::Symbol(*symbol)),
            None if compact.referent(personality_at).is_none() => None,
            // This field leads to a local symbol's address, and a CIE's to its pointer.
            None => continue,
        };
        // A personality without an LSDA has no effect.
        let is_other = of_cies.get(&row.function).is_some_and(|known| !known.contains(&personality));
        if row.lsda.is_some() && is_other {
            faults.push((row.offset, Fault::RowOtherPersonality));
        }
    }
    Ok(faults)
}

/// Returns the symbols that the relocations of a section name, by the offset of the field.
pub fn symbols_by_field(file: &File<'_>, section: Option<usize>) -> anyhow::Result<BTreeMap<u64, usize>> {
    let relocations = section.map(|index| file.relocations(index)).transpose()?.unwrap_or_default();
    let named =
        relocations.into_iter().filter_map(|relocation| Some((relocation.offset, relocation.symbol?)));
    Ok(named.collect())
}

/// Finds the personalities of a section's CIEs.
#[derive(Debug)]
pub struct PersonalitiesOfCies {
    symbols: BTreeMap<u64, usize>,
}

impl PersonalitiesOfCies {
    /// Reads the relocations of a section, which name the personalities in an object.
    pub fn read(file: &File<'_>, section: &CallFrameSection<'_>) -> anyhow::Result<Self> {
        let index = section.section.index.filter(|_| file.kind() == Kind::Relocatable);
        Ok(Self { symbols: symbols_by_field(file, index)? })
    }

    /// Returns the personality of a CIE, if the CIE has a personality.
    pub fn personality(&self, cie: &Cie<'_>) -> Option<Personality> {
        let personality = cie.personality?;
        match self.symbols.get(&personality.field.0.to_u64()) {
            Some(symbol) => Some(Personality::Symbol(*symbol)),
            None => personality.address.map(Personality::Address),
        }
    }
}
