//! An input object of a link, as the caller passes it.

use cfipack_format::Key;
use cfipack_format::widen::ToUsize;
use cfipack_linker::sframe::{Live, Object};

use crate::arguments::{array, reference};
use crate::handle::Failure;

/// The extent is unknown: use the size that the function's table or FDE claims.
pub const CFIPACK_WHOLE_FUNCTION: u32 = u32::MAX;

/// A live function of an object: where the relocation of a start field leads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_start {
    /// The offset of the start field in its section. In `.eh_frame` it is 8 bytes after the start of an FDE; in
    /// `.sframe` it is the start of an index entry.
    pub offset: u64,
    /// The function's key. It must be unique in the link, and the same for the function's entry in a table and for
    /// its FDE. `CFIPACK_KEYS_...` describes how its address is found when the section is written.
    pub key: u64,
    /// The number of bytes from the function's start to the end of its input section, or to the end of the piece of
    /// the section that is in the output. Rows end there. With `CFIPACK_WHOLE_FUNCTION`, a function that is too long
    /// by mistake runs into its neighbours.
    pub extent: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// The unwind sections of an object, before relocation. A function is discarded if its start field has no entry in
/// `sframe_starts` or `eh_frame_starts`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_object {
    /// `sizeof(cfipack_object)`
    pub size: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The bytes of `.sframe`, or null if there is no such section.
    pub sframe: *const u8,
    /// The number of bytes in `sframe`.
    pub sframe_len: usize,
    /// The bytes of `.eh_frame`, or null if there is no such section.
    pub eh_frame: *const u8,
    /// The number of bytes in `eh_frame`.
    pub eh_frame_len: usize,
    /// The live functions of `.sframe`, ascending by offset.
    pub sframe_starts: *const cfipack_start,
    /// The number of elements in `sframe_starts`.
    pub num_sframe_starts: usize,
    /// The live functions of `.eh_frame`, ascending by offset.
    pub eh_frame_starts: *const cfipack_start,
    /// The number of elements in `eh_frame_starts`.
    pub num_eh_frame_starts: usize,
}

/// An object with checked pointers.
pub(crate) struct CheckedObject {
    pub(crate) sections: Object<'static>,
    pub(crate) sframe_starts: &'static [cfipack_start],
    pub(crate) eh_frame_starts: &'static [cfipack_start],
}

impl CheckedObject {
    /// # Safety
    /// The conditions of [`crate::cfipack_merger_push`].
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

/// A cursor along ascending start fields, which is fast because fields are looked up in ascending order.
pub(crate) struct StartCursor<'s> {
    starts: &'s [cfipack_start],
    next: usize,
}

impl<'s> StartCursor<'s> {
    pub(crate) fn new(starts: &'s [cfipack_start]) -> Self {
        Self { starts, next: 0 }
    }

    pub(crate) fn find(&mut self, offset: u64) -> Option<Live> {
        if self.starts.get(self.next).is_none_or(|start| start.offset != offset) {
            // After a discarded function, or for a field that is looked up again.
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
