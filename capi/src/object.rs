//! An object of a link, as the caller gives it.

use cfipack_format::Key;
use cfipack_format::widen::ToUsize;
use cfipack_linker::sframe::{Live, Object};

use crate::arguments::{array, reference};
use crate::handle::Failure;

/// An extent that is not known: the function has the size that its table or FDE claims.
pub const CFIPACK_WHOLE_FUNCTION: u32 = u32::MAX;

/// A function of an object that is part of the output: what the relocation of a start field leads to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_start {
    /// The offset of the field in its section: 8 bytes after the start of an FDE, at the start of an entry of a table's index.
    pub offset: u64,
    /// The function's key, unique in the link, and the same for its entry in a table and its FDE. `CFIPACK_KEYS_...`
    /// describes how its address is found when the section is written.
    pub key: u64,
    /// Bytes from its start to the end of its input section, or of the part of that which is in the output: rows end there.
    /// `CFIPACK_WHOLE_FUNCTION` if that is unknown, and a function that is too long by mistake then runs into others.
    pub extent: u32,
    /// 0.
    pub reserved: u32,
}

/// The sections of an object that describe its frames, as they stand in it: not relocated. A start field without an
/// entry in its array is that of a function which is discarded.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_object {
    /// `sizeof(cfipack_object)`
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of `.sframe`; null without one.
    pub sframe: *const u8,
    /// The length of `sframe` in bytes.
    pub sframe_len: usize,
    /// Bytes of `.eh_frame`; null without one.
    pub eh_frame: *const u8,
    /// The length of `eh_frame` in bytes.
    pub eh_frame_len: usize,
    /// The functions that start fields of `.sframe` lead to, ascending by offset.
    pub sframe_starts: *const cfipack_start,
    /// The length of `sframe_starts`.
    pub num_sframe_starts: usize,
    /// The functions that start fields of `.eh_frame` lead to, ascending by offset.
    pub eh_frame_starts: *const cfipack_start,
    /// The length of `eh_frame_starts`.
    pub num_eh_frame_starts: usize,
}

/// An object as the caller gives it.
pub(crate) struct Given {
    pub(crate) sections: Object<'static>,
    pub(crate) sframe_starts: &'static [cfipack_start],
    pub(crate) eh_frame_starts: &'static [cfipack_start],
}

impl Given {
    /// # Safety
    /// As [`crate::cfipack_merger_push`].
    pub(crate) unsafe fn read(object: *const cfipack_object) -> Result<Self, Failure> {
        // SAFETY: promised by the caller.
        unsafe {
            let object = reference(object)?;
            if object.size.to_usize() != size_of::<cfipack_object>() {
                return Err(Failure::argument(&"size is not that of cfipack_object"));
            }
            let mut sections = Object::new();
            if !object.sframe.is_null() || object.sframe_len != 0 {
                sections = sections.with_sframe(array(object.sframe, object.sframe_len)?);
            }
            if !object.eh_frame.is_null() || object.eh_frame_len != 0 {
                sections = sections.with_eh_frame(array(object.eh_frame, object.eh_frame_len)?);
            }
            let sframe_starts = array(object.sframe_starts, object.num_sframe_starts)?;
            let eh_frame_starts = array(object.eh_frame_starts, object.num_eh_frame_starts)?;
            for starts in [sframe_starts, eh_frame_starts] {
                if !starts.is_sorted_by(|a: &cfipack_start, b| a.offset < b.offset) {
                    return Err(Failure::argument(&"starts do not ascend by offset"));
                }
            }
            Ok(Self { sections, sframe_starts, eh_frame_starts })
        }
    }
}

/// A walk along starts that ascend, as fields are asked for.
pub(crate) struct Walk<'s> {
    starts: &'s [cfipack_start],
    next: usize,
}

impl<'s> Walk<'s> {
    pub(crate) fn new(starts: &'s [cfipack_start]) -> Self {
        Self { starts, next: 0 }
    }

    pub(crate) fn find(&mut self, offset: u64) -> Option<Live> {
        if self.starts.get(self.next).is_none_or(|start| start.offset != offset) {
            // Discarded functions, and fields that are asked for twice.
            self.next = self.starts.partition_point(|start| start.offset < offset);
        }
        let start = self.starts.get(self.next).filter(|start| start.offset == offset)?;
        self.next += 1;
        let live = Live::new(Key(start.key));
        Some(match start.extent {
            CFIPACK_WHOLE_FUNCTION => live,
            extent => live.with_extent(extent),
        })
    }
}
