//! Decides which functions share a CIE.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use cfipack_format::{Key, Register};

use crate::assembly::{Assembly, Function};
use crate::cfi::SectionKind;

/// The CIEs of a section so far. Each CIE has a value by which the caller identifies it.
pub(crate) struct Cies<'a, T> {
    list: Vec<SharedCie<'a, T>>,
    /// Older CIEs by their contents, if there are many CIEs.
    index: BTreeMap<(Properties, &'a [u8]), usize>,
    /// The sizes of the instructions of the CIEs in `index`.
    sizes: BTreeSet<usize>,
    /// The number of CIEs in the index.
    indexed: usize,
}

struct SharedCie<'a, T> {
    properties: Properties,
    instructions: &'a [u8],
    id: T,
}

/// The number of newest CIEs that are compared without the index.
const FEW: usize = 16;

/// The properties that the functions of a CIE share, without the instructions. The fields are in the order in
/// which llvm-mc sorts CIEs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Properties {
    pub(crate) personality: Option<(Key, u8)>,
    pub(crate) lsda_encoding: Option<u8>,
    pub(crate) is_signal_frame: bool,
    /// Only LLVM's dialects use this, because gas compares instructions.
    pub(crate) is_simple: bool,
    pub(crate) return_column: Register,
    pub(crate) is_b_key_frame: bool,
    pub(crate) is_mte_tagged_frame: bool,
}

impl Properties {
    pub(crate) fn new(assembly: &Assembly, kind: SectionKind, function: &Function) -> Self {
        let frame = &function.frame;
        let is_llvm = assembly.dialect.is_llvm();
        // `.debug_frame` has no pointers, and LLVM writes no augmentation letters into it.
        let has_pointers = kind == SectionKind::EhFrame;
        let has_letters = has_pointers || !is_llvm;
        let personality = frame.personality.filter(|_| has_pointers);
        Self {
            personality: personality.map(|(encoding, routine)| (routine, encoding.0)),
            lsda_encoding: frame.lsda.filter(|_| has_pointers).map(|(encoding, _)| encoding.0),
            is_signal_frame: frame.is_signal_frame && has_letters,
            is_simple: is_llvm && function.is_simple,
            return_column: match frame.return_column {
                None if is_llvm => Register(u16::MAX),
                column => column.unwrap_or(assembly.arch.return_address()),
            },
            is_b_key_frame: frame.is_b_key_frame && has_letters,
            is_mte_tagged_frame: frame.is_mte_tagged_frame && has_letters,
        }
    }
}

impl<'a, T: Copy> Cies<'a, T> {
    pub(crate) const fn new() -> Self {
        Self { list: Vec::new(), index: BTreeMap::new(), sizes: BTreeSet::new(), indexed: 0 }
    }

    /// Finds a CIE for a function. Also returns how many bytes of the function's instructions the CIE has.
    pub(crate) fn find(
        &self,
        assembly: &'a Assembly,
        properties: &Properties,
        function: &Function,
    ) -> Option<(T, usize)> {
        let leading = &assembly.bytes[function.leading()];
        // gas searches from the newest CIE on.
        let mut newest = self.list[self.indexed..].iter();
        let mut found =
            newest.rfind(|cie| cie.properties == *properties && leading.starts_with(cie.instructions));
        if found.is_none() {
            let sizes = self.sizes.range(..=leading.len());
            let numbers = sizes.filter_map(|&size| self.index.get(&(*properties, &leading[..size])));
            found = numbers.max().map(|&number| &self.list[number]);
        }
        found.map(|cie| (cie.id, cie.instructions.len()))
    }

    /// Adds a CIE with all instructions of the function that a CIE can have. Also returns their size.
    pub(crate) fn push(
        &mut self,
        assembly: &'a Assembly,
        properties: Properties,
        function: &Function,
        id: T,
    ) -> (T, usize) {
        let instructions = &assembly.bytes[function.leading()];
        self.list.push(SharedCie { properties, instructions, id });
        if self.list.len() - self.indexed > FEW {
            let oldest = &self.list[self.indexed];
            self.index.insert((oldest.properties, oldest.instructions), self.indexed);
            self.sizes.insert(oldest.instructions.len());
            self.indexed += 1;
        }
        (id, instructions.len())
    }
}
