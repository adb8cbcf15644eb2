//! [`Addresses`]: where functions, LSDAs and FDEs lie in the output.

use alloc::vec::Vec;
use core::cell::RefCell;

use cfipack_encoder::unwind_info as encoder;
use cfipack_format::compact_unwind::{DWARF_OFFSET_MAX, Encoding};
use cfipack_format::widen::ToUsize;
use cfipack_format::{ImageOffset, Key, LsdaKey};

use super::range::Range;
use super::{Fde, Section, Warning};

/// The places of functions, LSDAs and FDEs in the output. A linker implements this trait once it has laid out its
/// output.
pub trait Addresses {
    /// Returns the image offset of a function: its address minus the address of the Mach-O header. Return `None` if
    /// the function has no address, or lies 4 GiB or more after the header; the table then omits it.
    fn function(&self, function: Key) -> Option<ImageOffset>;

    /// Returns the image offset of an LSDA, or `None` if the LSDA has no address.
    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset>;

    /// Returns the offset of an FDE in the output's `__eh_frame`, or `None` if the FDE is not there. This is only
    /// called for the FDEs of [`Section::fdes`].
    fn fde(&self, fde: Fde) -> Option<u32>;
}

/// The final places of a section's ranges.
pub(super) struct FinalPlaces<'a, A> {
    section: &'a Section,
    addresses: &'a A,
    /// The image offset of each range's function.
    functions: Vec<Option<ImageOffset>>,
    warnings: RefCell<Vec<Warning>>,
}

impl<'a, A: Addresses> FinalPlaces<'a, A> {
    /// Asks for the address of each function.
    pub(super) fn new(section: &'a Section, addresses: &'a A) -> Self {
        let mut warnings = Vec::new();
        let functions = section.ranges.iter().map(|range| {
            let at = addresses.function(range.function);
            if at.is_none() && range.has_information() {
                warnings.push(Warning::Unaddressed { function: range.function });
            }
            at
        });
        let mut functions: Vec<_> = functions.collect();
        if section.layout == encoder::Layout::Small {
            omit_symbols_inside(&section.ranges, &mut functions);
        }
        Self { section, addresses, functions, warnings: RefCell::new(warnings) }
    }

    pub(super) fn into_warnings(self) -> Vec<Warning> {
        self.warnings.into_inner()
    }
}

/// Omits symbols inside described functions: labels and alternative entries. An entry for such a symbol would end the
/// function's own entry.
fn omit_symbols_inside(ranges: &[Range], functions: &mut [Option<ImageOffset>]) {
    let is_symbol = |range: &Range| !range.has_information() && range.length == 0;
    if !ranges.iter().any(is_symbol) {
        return;
    }
    let placed = ranges.iter().zip(&*functions);
    let described = placed.filter(|(range, at)| range.has_information() && at.is_some());
    let mut described: Vec<_> =
        described.map(|(range, at)| (*at, at.map(|at| at.0.saturating_add(range.length)))).collect();
    described.sort_unstable();
    for (range, at) in ranges.iter().zip(functions) {
        let before = described.partition_point(|function| function.0 < *at);
        if is_symbol(range) && before > 0 && *at < described[before - 1].1.map(ImageOffset) {
            *at = None;
        }
    }
}

impl<A: Addresses> encoder::Places for FinalPlaces<'_, A> {
    #[inline]
    fn function(&self, range: Key) -> Option<ImageOffset> {
        self.functions[range.0.to_usize()]
    }

    #[inline]
    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        let at = self.addresses.lsda(lsda);
        if at.is_none() {
            self.warnings.borrow_mut().push(Warning::LsdaUnaddressed { lsda });
        }
        at
    }

    fn dwarf(&self, range: Key, encoding: Encoding) -> Encoding {
        let range = &self.section.ranges[range.0.to_usize()];
        let (function, Some(fde)) = (range.function, range.fde) else { return Encoding::NONE };
        let mut warnings = self.warnings.borrow_mut();
        match self.addresses.fde(fde) {
            Some(offset @ ..=DWARF_OFFSET_MAX) => Encoding(encoding.0 | offset),
            Some(offset) => {
                warnings.push(Warning::FdeOutOfReach { function, fde, offset });
                encoding
            }
            None => {
                warnings.push(Warning::FdeUnplaced { function, fde });
                Encoding::NONE
            }
        }
    }
}
