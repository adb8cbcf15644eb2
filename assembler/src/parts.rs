//! Passes functions to the encoders directly, without records of CFI.

use alloc::vec::Vec;
use core::ops::Range;

use crate::assembly::{Assembly, Function};
use crate::call_frames::{Cies, Properties};
use crate::cfi::{self, Cie, SectionKind};
use crate::instructions::{MarkKind, alignment};

/// Divides the instructions of an assembly's functions between CIEs and FDEs, as the `.eh_frame` does.
pub(crate) struct Parts<'a> {
    assembly: &'a Assembly,
    cies: Cies<'a, ()>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(assembly: &'a Assembly) -> Self {
        Self { assembly, cies: Cies::new() }
    }

    /// Returns a function. Call this in the order of the functions in the `.eh_frame`. `own` replaces the
    /// function's instructions, if the encoder needs other instructions than the FDE has.
    pub(crate) fn function(&mut self, function: &Function, own: Option<&'a [u8]>) -> cfi::Function<'a> {
        let assembly = self.assembly;
        let properties = Properties::new(assembly, SectionKind::EhFrame, function);
        let found = self.cies.find(assembly, &properties, function);
        let ((), in_cie) = found.unwrap_or_else(|| self.cies.push(assembly, properties, function, ()));
        let Range { start, end } = function.instructions.bytes;
        let (code, data) = alignment(assembly.dialect, assembly.arch);
        let column = function.frame.return_column.unwrap_or(assembly.arch.return_address());
        let mut cie = Cie::from_parts(code, data, column, &assembly.bytes[start..start + in_cie]);
        cie.signal_frame = function.frame.is_signal_frame;
        cie.pauth_key_b = function.frame.is_b_key_frame;
        cie.tagged = function.frame.is_mte_tagged_frame;
        let own = match own {
            Some(all) => &all[in_cie..],
            None => &assembly.bytes[start + in_cie..end],
        };
        cfi::Function::from_parts(assembly.arch, function.key, function.size, cie, own)
    }
}

impl Assembly {
    /// Returns the instructions of each function with its advances by nothing. The entry is `None` for a
    /// function without such advances, and for a function that gas omits: nothing may come between an escape's
    /// bytes and the bytes that complete them. The list is empty if no function has such advances.
    pub(crate) fn with_zero_advances(&self) -> Vec<Option<Vec<u8>>> {
        if !self.marks.iter().any(|mark| mark.kind == MarkKind::ZeroAdvance) {
            return Vec::new();
        }
        self.functions.iter().map(|function| self.bytes_with_zero_advances(function)).collect()
    }

    fn bytes_with_zero_advances(&self, function: &Function) -> Option<Vec<u8>> {
        let marks = self.marks_of(function);
        if marks.is_empty() || marks.iter().any(|mark| mark.kind != MarkKind::ZeroAdvance) {
            return None;
        }
        let Range { start: mut from, end } = function.instructions.bytes;
        let mut result = Vec::with_capacity(end - from + marks.len());
        for mark in marks {
            result.extend_from_slice(&self.bytes[from..mark.at]);
            result.push(0x40);
            from = mark.at;
        }
        result.extend_from_slice(&self.bytes[from..end]);
        Some(result)
    }
}
