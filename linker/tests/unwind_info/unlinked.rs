//! Makes unwind information of objects without relocations. Keys are addresses in the object.

use std::collections::{HashMap, HashSet};

use cfipack_cfi::write::{Cie, Writer};
use cfipack_cfi::{PointerEncoding, SectionKind};
use cfipack_format::compact_unwind::{Encoding, Entry as Row};
use cfipack_format::{Address, Arch, ImageOffset, Key, LsdaKey, PersonalityKey};
use cfipack_linker::unwind_info::{Addresses, Builder, Fde, Field, Input, Resolve};

/// The address of `__eh_frame` in an object.
pub const EH_FRAME: Address = Address(0x10_0000);

/// The key of an LSDA that has no address in the output.
pub const NO_LSDA: u64 = 0x8000;

/// An object for x86-64.
#[derive(Clone, Debug, Default)]
pub struct Unlinked {
    /// The object's number.
    pub number: u32,
    /// `__compact_unwind`.
    pub rows: Vec<u8>,
    /// `__eh_frame`.
    pub eh_frame: Vec<u8>,
    /// Functions that are dead.
    pub dead: HashSet<u64>,
    /// Functions that were folded, with the functions that replace them.
    pub folded: HashMap<u64, Key>,
}

/// Returns the key of a function in an object.
pub fn key(object: u32, function: u64) -> Key {
    Key(u64::from(object) << 32 | function)
}

impl Unlinked {
    /// Makes an empty object.
    pub fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    /// Adds a row. Numbers identify personalities and LSDAs; 0 means none.
    pub fn row(&mut self, function: u64, length: u32, encoding: u32, personality: u64, lsda: u64) {
        let row = Row { function, length, encoding: Encoding(encoding), personality, lsda };
        self.rows.extend_from_slice(&row.write(8)[..Row::size(8)]);
    }

    /// Adds FDEs (start, length, LSDA) to `__eh_frame`, below a CIE with a personality.
    pub fn fdes(&mut self, personality: u64, fdes: &[(u64, u64, u64)]) {
        let mut writer =
            Writer::after(SectionKind::EhFrame, Arch::Amd64, EH_FRAME, std::mem::take(&mut self.eh_frame));
        // The personality is at offset 19 in the CIE, as an absolute pointer.
        let mut data = vec![10, 0];
        data.extend(personality.to_le_bytes());
        data.extend([0x10, 0x10]);
        data[0] = data.len() as u8 - 1;
        let cie = Cie::new(Arch::Amd64, &[0x0c, 7, 8, 0x90, 1])
            .with_augmentation(b"zPLR")
            .with_fde_encoding(PointerEncoding(0x10))
            .with_augmentation_data(&data);
        let cie = writer.cie(&cie).unwrap();
        for &(start, size, lsda) in fdes {
            let distance = lsda.wrapping_sub(EH_FRAME.0 + writer.offset().0 as u64 + 25);
            let mut data = vec![8];
            data.extend(if lsda == 0 { 0 } else { distance }.to_le_bytes());
            writer.fde_with_augmentation_data(&cie, Address(start), size, &data, &[]).unwrap();
        }
        self.eh_frame = writer.into_bytes();
    }

    /// Pushes the object.
    pub fn push(&mut self, builder: &mut Builder) {
        let (rows, eh_frame) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.eh_frame));
        let input = Input::new(self.number).with_compact_unwind(&rows).with_eh_frame(&eh_frame, EH_FRAME);
        builder.push(&input, self);
        (self.rows, self.eh_frame) = (rows, eh_frame);
    }
}

impl Resolve for Unlinked {
    fn function(&mut self, field: Field) -> Option<Key> {
        let function = field.target?.0;
        let own = (!self.dead.contains(&function)).then(|| key(self.number, function));
        self.folded.get(&function).copied().or(own)
    }

    fn personality(&mut self, field: Field) -> Option<PersonalityKey> {
        field.target.filter(|target| target.0 != 0).map(|target| PersonalityKey(target.0))
    }

    fn lsda(&mut self, field: Field) -> Option<LsdaKey> {
        LsdaKey::new(field.target?.0)
    }
}

/// An output in which the functions of object N have moved up by N times `apart`, and its FDEs by N times 0x1000. The
/// maps list exceptions.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// Functions at another image offset, or nowhere.
    pub functions: HashMap<Key, Option<u32>>,
    /// Distance of the objects in bytes.
    pub apart: u32,
    /// FDEs at another offset, or nowhere.
    pub fdes: HashMap<Fde, Option<u32>>,
}

impl Addresses for Moved {
    fn function(&self, function: Key) -> Option<ImageOffset> {
        let own = (function.0 as u32).wrapping_add(self.apart.wrapping_mul((function.0 >> 32) as u32));
        self.functions.get(&function).copied().unwrap_or(Some(own)).map(ImageOffset)
    }

    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        (lsda.0.get() != NO_LSDA).then(|| lsda.image_offset())
    }

    fn fde(&self, fde: Fde) -> Option<u32> {
        let own = fde.offset.0 as u32 + fde.object * 0x1000;
        self.fdes.get(&fde).copied().unwrap_or(Some(own))
    }
}
