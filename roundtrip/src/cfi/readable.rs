//! Rewrites the CIEs that runtimes read and gimli 0.34 refuses.

use std::borrow::Cow;

use cfipack_format::Arch;
use cfipack_format::cfi::{Section, SectionKind};
use cfipack_format::widen::ToU64;
use gimli::{
    DW_EH_PE_absptr, DW_EH_PE_aligned, DW_EH_PE_omit, DW_EH_PE_sdata2, DW_EH_PE_sdata4, DW_EH_PE_sdata8,
    DW_EH_PE_udata2, DW_EH_PE_udata4, DW_EH_PE_udata8, DwEhPe, EndianSlice, LittleEndian, Reader as _,
};

use super::about::Changed;
use super::record::Record;

/// Returns the section with every CIE in a form that gimli 0.34 reads, and the CIEs that have another form now.
///
/// gimli refuses these CIEs, and this function removes the bytes that gimli refuses:
///
/// - The letters `B` (key B) and `G` (memory tagging), which have no data.
/// - The augmentation `eh` of gcc before 3.0, which has a pointer as data.
/// - Version 4 in `.eh_frame`: gas writes it with `--gdwarf-cie-version=4`, and libgcc reads it. Without its two sizes
///   the CIE is one of version 3.
/// - The letter `L` with the encoding 0xff: the FDEs have no LSDA. V8 writes it.
///
/// `DW_CFA_nop` fills the end of the record. Only the CIE's own data change their place: a PC-relative personality
/// pointer moves with them.
pub(super) fn readable<'a>(section: &Section<'a>, cies: &[Record]) -> (Cow<'a, [u8]>, Vec<Changed>) {
    let mut bytes = Cow::Borrowed(section.bytes);
    let mut all = Vec::new();
    for record in cies {
        let Some(old) = section.bytes.get(record.body..record.end) else { continue };
        let Some(form) = Form::read(section, old) else { continue };
        let mut new = vec![form.version];
        new.extend(form.letters.iter().filter(|&letter| !b"BG".contains(letter)));
        new.push(0);
        new.extend_from_slice(&form.data);
        if new == old {
            continue;
        }
        let removed = (old.len() - new.len()).to_u64() - form.removed_after_personality;
        all.push(Changed { cie: record.offset, key_b: form.letters.contains(&b'B'), removed });
        new.resize(old.len(), 0);
        bytes.to_mut()[record.body..record.end].copy_from_slice(&new);
    }
    (bytes, all)
}

/// A CIE from its version on.
struct Form<'a> {
    version: u8,
    /// The letters of the augmentation.
    letters: Cow<'a, [u8]>,
    /// The bytes after the augmentation string.
    data: Cow<'a, [u8]>,
    /// The number of bytes that were removed behind the personality pointer.
    removed_after_personality: u64,
}

impl<'a> Form<'a> {
    fn read(section: &Section<'_>, cie: &'a [u8]) -> Option<Self> {
        let (&version, text) = cie.split_first()?;
        let length = text.iter().position(|&byte| byte == 0)?;
        let pointer = section.arch.pointer_size();
        let (mut letters, mut data) = (&text[..length], &text[length + 1..]);
        if letters == b"eh" {
            letters = &[];
            data = data.get(pointer.into()..)?;
        }
        let mut form = Self {
            version,
            letters: Cow::Borrowed(letters),
            data: Cow::Borrowed(data),
            removed_after_personality: 0,
        };
        if version == 4 && section.kind == SectionKind::EhFrame {
            // The size of an address and of a segment selector.
            form.data = Cow::Borrowed(data.strip_prefix(&[pointer, 0])?);
            form.version = 3;
        }
        form.remove_omitted_lsda(section.arch);
        Some(form)
    }

    /// Removes the letter `L` and its encoding, if the encoding says that the FDEs have no LSDA.
    fn remove_omitted_lsda(&mut self, arch: Arch) {
        let Some(lsda) = self.omitted_lsda(arch) else { return };
        self.letters.to_mut().remove(lsda.letter);
        let data = self.data.to_mut();
        data.remove(lsda.encoding);
        data[lsda.length] -= 1;
        self.removed_after_personality = lsda.is_after_personality.into();
    }

    /// Finds the letter `L` with the encoding 0xff. Returns `None` if there is no such letter.
    fn omitted_lsda(&self, arch: Arch) -> Option<OmittedLsda> {
        let (b'z', letters) = self.letters.split_first()? else { return None };
        let mut rest = EndianSlice::new(&self.data, LittleEndian);
        rest.read_uleb128().ok()?;
        rest.read_sleb128().ok()?;
        if self.version == 1 {
            rest.read_u8().ok()?;
        } else {
            rest.read_uleb128().ok()?;
        }
        let length = self.data.len() - rest.len();
        // A longer length would lose a byte itself. Real ones are below 20.
        rest.read_u8().ok().filter(|length| (1..0x80).contains(length))?;
        let mut is_after_personality = false;
        for (place, letter) in letters.iter().enumerate() {
            match letter {
                b'L' => {
                    let encoding = self.data.len() - rest.len();
                    let is_omitted = rest.read_u8().ok()? == DW_EH_PE_omit.0;
                    return is_omitted.then_some(OmittedLsda {
                        letter: 1 + place,
                        encoding,
                        length,
                        is_after_personality,
                    });
                }
                b'P' => {
                    let encoding = DwEhPe(rest.read_u8().ok()?);
                    rest.skip(pointer_len(encoding, arch)?).ok()?;
                    is_after_personality = true;
                }
                b'R' => rest.skip(1).ok()?,
                b'S' | b'B' | b'G' => {}
                _ => return None,
            }
        }
        None
    }
}

/// The places of a letter `L` with the encoding 0xff.
struct OmittedLsda {
    /// The letter in the augmentation.
    letter: usize,
    /// The encoding in the data.
    encoding: usize,
    /// The length of the augmentation data in the data: a single byte.
    length: usize,
    /// True if the personality pointer comes before the encoding.
    is_after_personality: bool,
}

/// Returns the number of bytes of a pointer, or `None` for an encoding whose length depends on the value or the place.
#[expect(non_upper_case_globals, reason = "gimli names its constants as DWARF does")]
fn pointer_len(encoding: DwEhPe, arch: Arch) -> Option<usize> {
    if encoding == DW_EH_PE_omit || encoding.application() == DW_EH_PE_aligned {
        return None;
    }
    match encoding.format() {
        DW_EH_PE_absptr => Some(arch.pointer_size().into()),
        DW_EH_PE_udata2 | DW_EH_PE_sdata2 => Some(2),
        DW_EH_PE_udata4 | DW_EH_PE_sdata4 => Some(4),
        DW_EH_PE_udata8 | DW_EH_PE_sdata8 => Some(8),
        _ => None,
    }
}
