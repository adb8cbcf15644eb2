//! An attribute in one word for all versions.

use cfipack_format::sframe::FdeInfo;

/// An attribute that can count more rows than version 3.
///
/// | bits | meaning |
/// |---|---|
/// | 0-31 | rows |
/// | 32-39 | info |
/// | 40-47 | size of the repeated block |
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct WideAttribute(u64);

impl WideAttribute {
    #[inline(always)]
    pub(crate) fn new(num_fres: u32, info: FdeInfo, rep_size: u8) -> Self {
        Self(u64::from(num_fres) | u64::from(info.bits()) << 32 | u64::from(rep_size) << 40)
    }

    pub(crate) fn num_fres(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn info(self) -> FdeInfo {
        FdeInfo::from_bits_retain((self.0 >> 32) as u8)
    }

    pub(crate) fn rep_size(self) -> u8 {
        (self.0 >> 40) as u8
    }
}
