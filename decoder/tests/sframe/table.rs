//! Makes tables field by field that no available tool writes: version 1, PC-mask functions, and functions
//! with the same start.

use cfipack_format::Endian;
use cfipack_format::sframe::{Abi, Attribute, Fde, FdeInfo, Flags, Header, Version};

/// The address of every table.
pub const ADDRESS: u64 = 0x10_0000;

/// A function for a table.
#[derive(Clone)]
pub struct Function {
    /// The address of the function.
    pub start: u64,
    pub size: u32,
    pub info: u8,
    pub info2: u8,
    pub rep_size: u8,
    pub fres: Vec<Vec<u8>>,
}

impl Function {
    /// Creates a function of DEFAULT type with 1-byte starts.
    pub fn new(start: u64, size: u32, fres: &[&[u8]]) -> Self {
        let fres = fres.iter().map(|fre| fre.to_vec()).collect();
        Self { start, size, info: 0, info2: 0, rep_size: 0, fres }
    }

    /// Returns the function with these info bytes and this repetition size.
    pub fn with(self, info: u8, info2: u8, rep_size: u8) -> Self {
        Self { info, info2, rep_size, ..self }
    }
}

/// Returns the table of these functions, in the given order.
pub fn table(version: Version, abi: Abi, flags: Flags, functions: &[Function]) -> Vec<u8> {
    let endian = abi.arch().endian();
    let (mut index, mut fres, mut num_fres) = (Vec::new(), Vec::new(), 0);
    for (i, function) in functions.iter().enumerate() {
        let field = Header::SIZE + i * version.fde_size();
        let origin = ADDRESS + if flags.contains(Flags::START_PCREL) { field as u64 } else { 0 };
        let fde = Fde {
            start: function.start.wrapping_sub(origin) as i64,
            size: function.size,
            fre_off: fres.len() as u32,
            num_fres: function.fres.len() as u32,
            info: FdeInfo::from_bits_retain(function.info),
            rep_size: function.rep_size,
        };
        index.extend_from_slice(&fde.write(version, endian)[..version.fde_size()]);
        if version == Version::V3 {
            fres.extend_from_slice(&attribute(function, endian));
        }
        fres.extend(function.fres.concat());
        num_fres += function.fres.len() as u32;
    }
    let header = Header {
        version: version as u8,
        flags,
        abi: abi as u8,
        fixed_fp_offset: 0,
        fixed_ra_offset: abi.fixed_ra_offset(),
        auxhdr_len: 0,
        num_fdes: functions.len() as u32,
        num_fres,
        fre_len: fres.len() as u32,
        fde_off: 0,
        fre_off: index.len() as u32,
    };
    [&header.write(endian)[..], &index, &fres].concat()
}

fn attribute(function: &Function, endian: Endian) -> [u8; 5] {
    let info = FdeInfo::from_bits_retain(function.info);
    let num_fres = function.fres.len() as u16;
    Attribute { num_fres, info, info2: function.info2, rep_size: function.rep_size }.write(endian)
}
