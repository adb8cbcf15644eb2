//! [`Merger::frame_at`]: rows of a function before the section is finished.

use cfipack_format::widen::ToUsize;

use super::Merger;
use crate::decoder::sframe::{Frame, Section};
use crate::format::{Address, Key};

impl Merger<'_> {
    /// Returns the frame at an offset, in bytes, from the start of a function that has been pushed. The start of the
    /// returned row counts from the function's start. Returns `None` if the function has no row there. This does not
    /// consider other functions that may share the PC, because such conflicts are only found when the section is
    /// [finished](Merger::finish) or written.
    ///
    /// Use it for code that runs in the frame of a function. For example, a linker moves an instruction into a
    /// veneer, or puts a thunk between two parts of the function. The veneer then gets this row with a start of 0:
    ///
    /// ```
    /// use cfipack_format::{Address, Arch, FunctionOffset, Key};
    /// use cfipack_linker::sframe::{Live, Merger, Object, Options};
    /// use cfipack_linker::stubs::{Code, Shape, Stubs};
    ///
    /// // The `.eh_frame` of an object before relocation: `str x0, [sp, #-16]!` and more, 16 bytes of code.
    /// let eh_frame = [
    ///     0x10, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0, //
    ///     0x14, 0, 0, 0, 0x18, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0x41, 0x0e, 16, 0, 0, 0, 0,
    /// ];
    /// let mut merger = Merger::new(Arch::Aarch64, Options::new())?;
    /// let (function, veneer) = (Key(1), Key(2));
    /// let object = Object::new().with_eh_frame(&eh_frame);
    /// merger.push_object(&object, |_| Some(Live::new(function)), |note| panic!("{note}"));
    /// // The linker moves the instruction at 8 to a veneer.
    /// let mut row = merger.frame_at(function, 8).expect("a row").row;
    /// row.start = FunctionOffset(0);
    /// let shape = Shape::new().with_header(Code::new(8, core::slice::from_ref(&row)));
    /// merger.push_stubs(&Stubs::keyed(veneer, shape))?;
    /// let bytes = merger.finish().into_bytes(Address(0x2000), |key| Address(0x1000 * key.0 + 0x10))?;
    /// let table = cfipack_decoder::sframe::Section::parse(&bytes, Address(0x2000))?;
    /// assert_eq!(table.lookup(Address(0x2014))?, Some(row));
    /// assert_eq!(table.lookup(Address(0x1018))?.map(|row| row.cfa), Some(row.cfa));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn frame_at(&mut self, function: Key, offset: u32) -> Option<Frame> {
        let section = self.builder.section_of(function)?;
        let bytes = section.into_bytes(Address(0), Key::address).ok()?;
        let table = Section::parse(&bytes, Address(0)).ok()?;
        let pc = Address(offset.into());
        let start = table.find(pc).ok()??.start().0.to_usize();
        let mut frame = table.lookup_frame(pc).ok()??;
        frame.row.start.0 += u32::try_from(start).ok()?;
        Some(frame)
    }
}
