//! Compares compact encodings with CFI. Our decoder reads the encoding, gimli evaluates the CFI, and calls are found by
//! scanning the function's code.

use cfipack_decoder::compact_unwind::row;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, Arch, Cfa, Register, Row, Rule, Saved};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, RegisterRule, UnwindContext, UnwindSection,
    UnwindTableRow,
};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Counts of what was compared.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Judged {
    /// Calls. Encoding and CFI agree at each of them.
    pub calls: u64,
    /// Bytes of code at which encoding and CFI agree.
    pub equal: u64,
    /// Bytes of prologues and epilogues, at which they differ.
    pub different: u64,
}

/// An `.eh_frame`, whose FDEs are found by their offsets.
pub struct Judge<'a> {
    section: EhFrame<Slice<'a>>,
    bases: BaseAddresses,
    context: UnwindContext<usize>,
    arch: Arch,
}

impl<'a> Judge<'a> {
    /// Indexes a section at an address.
    pub fn new(bytes: &'a [u8], address: Address, arch: Arch) -> Self {
        let mut section = EhFrame::new(bytes, LittleEndian);
        section.set_address_size(arch.pointer_size());
        if !is_x86(arch) {
            section.set_vendor(gimli::Vendor::AArch64);
        }
        let bases = BaseAddresses::default().set_eh_frame(address.0);
        Self { section, bases, context: UnwindContext::new(), arch }
    }

    /// Compares an encoding with the FDE at an offset. An error names the difference.
    pub fn judge(&mut self, encoding: Encoding, fde: usize, code: &[u8]) -> Result<Judged, String> {
        let (unwound, saved) =
            row(encoding, self.arch, code).map_err(|error| error.to_string())?.ok_or("no rows")?;
        let fde = self
            .section
            .fde_from_offset(&self.bases, fde.into(), EhFrame::cie_from_offset)
            .map_err(|error| error.to_string())?;
        let calls = calls(self.arch, code);
        let mut calls = calls.iter().copied().peekable();
        let mut judged = Judged::default();
        let mut rows =
            fde.rows(&self.section, &self.bases, &mut self.context).map_err(|error| error.to_string())?;
        while let Some(cfi) = rows.next_row().map_err(|error| error.to_string())? {
            let start = cfi.start_address() - fde.initial_address();
            let end = (cfi.end_address() - fde.initial_address()).min(fde.len());
            let equal = restores(self.arch, cfi, &unwound, &saved);
            while let Some(call) = calls.next_if(|call| *call < end) {
                if !equal {
                    return Err(format!("{encoding}: call at {call:#x}, row at {start:#x}: {cfi:?}"));
                }
                judged.calls += 1;
            }
            let bytes = if equal { &mut judged.equal } else { &mut judged.different };
            *bytes += end.saturating_sub(start);
        }
        if judged.equal == 0 {
            return Err(format!("{encoding} is true nowhere"));
        }
        Ok(judged)
    }
}

impl std::fmt::Debug for Judge<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Judge")
    }
}

fn is_x86(arch: Arch) -> bool {
    matches!(arch, Arch::Amd64 | Arch::I386)
}

/// Returns whether gimli's row and the decoder's are equal for every register.
fn restores(arch: Arch, cfi: &UnwindTableRow<usize>, row: &Row, saved: &Saved) -> bool {
    let cfa = match *cfi.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            row.cfa == Cfa::Register { register: Register(register.0), offset }
        }
        CfaRule::Expression(_) => false,
    };
    // x86's call has pushed the return address, even if the CFI does not repeat it.
    let return_address = match cfi.register(gimli::Register(arch.return_address().0)) {
        None => row.return_address == Row::at_entry(arch).return_address,
        rule => places(rule) == place(row.return_address),
    };
    let frame_pointer =
        places(cfi.register(gimli::Register(arch.frame_pointer().0))) == place(row.frame_pointer);
    let named = [arch.return_address(), arch.frame_pointer(), arch.stack_pointer()];
    let others = (0..96).map(Register).filter(|register| !named.contains(register)).all(|register| {
        let rule = cfi.register(gimli::Register(register.0));
        match saved.offset_of(register) {
            Some(offset) => rule == Some(RegisterRule::Offset(offset.into())),
            None => matches!(rule, None | Some(RegisterRule::SameValue | RegisterRule::Undefined)),
        }
    });
    let stack_pointer = cfi.register(gimli::Register(arch.stack_pointer().0)).is_none();
    cfa && return_address && frame_pointer && others && stack_pointer
}

/// Returns where a register is saved: `Some(None)` for nowhere, an offset from the CFA, or `None` for anything else.
fn places(rule: Option<RegisterRule<usize>>) -> Option<Option<i64>> {
    match rule {
        None | Some(RegisterRule::SameValue) => Some(None),
        Some(RegisterRule::Offset(offset)) => Some(Some(offset)),
        Some(_) => None,
    }
}

fn place(rule: Rule) -> Option<Option<i64>> {
    match rule {
        Rule::SameValue => Some(None),
        Rule::Cfa(offset) => Some(Some(offset)),
        _ => Some(Some(i64::MIN)),
    }
}

/// Returns the starts of calls, in ascending order. Bytes that are no code are skipped.
fn calls(arch: Arch, code: &[u8]) -> Vec<u64> {
    if !is_x86(arch) {
        let words = code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        // BL, BLR, and BLRAAZ, BLRABZ, BLRAA and BLRAB. The last four differ from BLR in bits 24, 11 and 10.
        let is_call = |word: u32| word & 0xfc00_0000 == 0x9400_0000 || word & 0xfeff_f000 == 0xd63f_0000;
        return (0..).step_by(4).zip(words).filter(|(_, word)| is_call(*word)).map(|(at, _)| at).collect();
    }
    let decoder = Decoder::new(u32::from(arch.pointer_size()) * 8, code, DecoderOptions::NONE);
    let found = decoder.into_iter().filter(|instruction| instruction.mnemonic() == Mnemonic::Call);
    found.map(|instruction| instruction.ip()).collect()
}
