//! Options of tables.

use cfipack_encoder::sframe::{Layout, Options};
use cfipack_encoder::unwind_info;
use cfipack_format::sframe::Version;
use cfipack_linker::sframe::{Options as LinkOptions, Prefer};

use crate::arguments::flag;
use crate::cfipack_status::{self, InvalidArgument, Unsupported};
use crate::sized_options::SizedOptions;

/// The smallest table. This is the default.
pub const CFIPACK_LAYOUT_SMALL: u32 = 0;
/// `.sframe`: the layout of GNU `as` 2.47 and `ld` 2.47.
pub const CFIPACK_LAYOUT_GNU: u32 = 1;
/// `__unwind_info`: the layout of ld64.lld 23.
pub const CFIPACK_LAYOUT_LLD: u32 = 2;
/// `__unwind_info`: the layout of Apple's new linker.
pub const CFIPACK_LAYOUT_LD_PRIME: u32 = 3;
/// `__unwind_info`: the layout of Apple's classic linker.
pub const CFIPACK_LAYOUT_LD64: u32 = 4;
/// `__unwind_info`: the layout of ld64 up to version 253.3.
pub const CFIPACK_LAYOUT_LD64_253: u32 = 5;
/// `__unwind_info`: the layout of Apple's linker of SDK 27.
pub const CFIPACK_LAYOUT_LD_PRIME_27: u32 = 6;
/// `__unwind_info`: the layout of Zig's own linker.
pub const CFIPACK_LAYOUT_ZIG: u32 = 7;

/// Use the rows of the object's table. If it has no rows for a function, use call frame information. This is the
/// default.
pub const CFIPACK_PREFER_TABLE: u32 = 0;
/// Use call frame information. If a function has no call frame information, use the object's table.
pub const CFIPACK_PREFER_CFI: u32 = 1;
/// Use only the object's table, as GNU `ld` does.
pub const CFIPACK_PREFER_TABLE_ONLY: u32 = 2;

/// Options of a `.sframe` table. The defaults are zero in all fields except `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_sframe_options {
    /// `sizeof(cfipack_sframe_options)`
    pub size: u32,
    /// The version of the format: 2 or 3; 0 means 3.
    pub version: u32,
    /// `CFIPACK_LAYOUT_SMALL` or `CFIPACK_LAYOUT_GNU`
    pub layout: u32,
    /// `CFIPACK_PREFER_...`: where rows come from if a function has both an entry in a table and call frame
    /// information.
    pub prefer: u32,
    /// 1 to omit functions that need flex FDEs.
    pub no_flex: u8,
    /// 1 to give each function its own rows instead of sharing them.
    pub no_sharing: u8,
    /// Must be 0.
    pub reserved: u16,
}

// SAFETY: integers without padding.
unsafe impl SizedOptions for cfipack_sframe_options {
    const DEFAULT: Self =
        Self { size: 0, version: 0, layout: 0, prefer: 0, no_flex: 0, no_sharing: 0, reserved: 0 };
}

impl cfipack_sframe_options {
    pub(crate) fn table(&self) -> Result<Options, cfipack_status> {
        let version = match self.version {
            0 => Version::DEFAULT,
            number => {
                let number = u8::try_from(number).map_err(|_| Unsupported)?;
                Version::written(number).ok_or(Unsupported)?
            }
        };
        let layout = match self.layout {
            CFIPACK_LAYOUT_SMALL => Layout::Small,
            CFIPACK_LAYOUT_GNU => Layout::Gnu,
            _ => return Err(Unsupported),
        };
        if self.reserved != 0 {
            return Err(InvalidArgument);
        }
        let (flex, share) = (!flag(self.no_flex)?, !flag(self.no_sharing)?);
        Ok(Options::new().with_version(version).with_layout(layout).with_flex(flex).with_share(share))
    }

    pub(crate) fn link(&self) -> Result<LinkOptions, cfipack_status> {
        let prefer = match self.prefer {
            CFIPACK_PREFER_TABLE => Prefer::Table,
            CFIPACK_PREFER_CFI => Prefer::Cfi,
            CFIPACK_PREFER_TABLE_ONLY => Prefer::TableOnly,
            _ => return Err(InvalidArgument),
        };
        Ok(LinkOptions::new().with_prefer(prefer).with_table(self.table()?))
    }
}

/// Options of an `__unwind_info` table. The defaults are zero in all fields except `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_unwind_info_options {
    /// `sizeof(cfipack_unwind_info_options)`
    pub size: u32,
    /// `CFIPACK_LAYOUT_SMALL`, `_LLD`, `_LD_PRIME`, `_LD_PRIME_27`, `_LD64`, `_LD64_253` or `_ZIG`
    pub layout: u32,
}

// SAFETY: integers without padding.
unsafe impl SizedOptions for cfipack_unwind_info_options {
    const DEFAULT: Self = Self { size: 0, layout: 0 };
}

impl cfipack_unwind_info_options {
    pub(crate) fn get(&self) -> Result<unwind_info::Options, cfipack_status> {
        let layout = match self.layout {
            CFIPACK_LAYOUT_SMALL => unwind_info::Layout::Small,
            CFIPACK_LAYOUT_LLD => unwind_info::Layout::Lld,
            CFIPACK_LAYOUT_LD_PRIME => unwind_info::Layout::LdPrime,
            CFIPACK_LAYOUT_LD64 => unwind_info::Layout::Ld64,
            CFIPACK_LAYOUT_LD64_253 => unwind_info::Layout::Ld64V253,
            CFIPACK_LAYOUT_LD_PRIME_27 => unwind_info::Layout::LdPrime27,
            CFIPACK_LAYOUT_ZIG => unwind_info::Layout::Zig,
            _ => return Err(Unsupported),
        };
        Ok(unwind_info::Options::default().with_layout(layout))
    }
}
