//! Records the directives of a function. `methods.rs` has a method for each directive.

use alloc::vec::Vec;
use core::mem::take;

use cfipack_format::{Arch, Key, Register};

use crate::cfi::PointerEncoding;
use crate::directive::{Directive, Placed};
use crate::{Error, Misuse};

mod methods;

/// The CFI directives of a function, as between `.cfi_startproc` and `.cfi_endproc`.
///
/// Call [`at`](Self::at) to set the place, and then a method with the name of a directive. The GNU assembler
/// defines the names and meanings ("CFI directives" in its manual). Offsets of code are bytes from the
/// function's start and must ascend. Offsets of the CFA and of registers are signed bytes.
///
/// A directive without meaning is not recorded. It becomes an [`Error`] with the directive's number, and
/// [`errors`](Self::errors) returns all errors at once. No table is made from directives with an error.
///
/// ```
/// use cfipack_assembler::Directives;
/// use cfipack_format::Arch;
///
/// // push %rbp; ...; pop %rbp; ret
/// let mut directives = Directives::new(Arch::Amd64, 16);
/// directives.at(1).adjust_cfa_offset(8);
/// directives.at(15).adjust_cfa_offset(-8);
/// assert!(directives.errors().is_empty());
/// directives.restore_state(); // without a `remember_state`
/// assert_eq!(directives.errors().len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Directives {
    pub(crate) arch: Arch,
    pub(crate) code_len: u64,
    pub(crate) is_simple: bool,
    pub(crate) frame: Frame,
    pub(crate) list: Vec<Placed>,
    pub(crate) escaped: Vec<u8>,
    /// The number of leading directives in `list` that a CIE can have, if the directives are read from call
    /// frame information. `.cfi_restore` returns to the rules of the CIE alone.
    pub(crate) in_cie: Option<usize>,
    errors: Vec<Error>,
    /// The number of directives that were given.
    count: usize,
    offset: u64,
    new_fragment: bool,
    /// The current offset, if it was refused. Directives at this offset are counted and not recorded.
    refused: Option<u64>,
    /// The current offset of the CFA, for directives that are relative to it.
    cfa_offset: i64,
    /// The CFA's offset in each remembered state.
    remembered: Vec<i64>,
}

/// The directives that apply to the whole function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Frame {
    /// `.cfi_return_column`. `None` means the architecture's own return address column.
    pub return_column: Option<Register>,
    /// `.cfi_signal_frame`
    pub is_signal_frame: bool,
    /// `.cfi_b_key_frame`
    pub is_b_key_frame: bool,
    /// `.cfi_mte_tagged_frame`
    pub is_mte_tagged_frame: bool,
    /// `.cfi_personality`: the encoding, and the caller's key for the routine or for the cell that holds its
    /// address.
    pub personality: Option<(PointerEncoding, Key)>,
    /// `.cfi_lsda`: the encoding, and the caller's key for the table.
    pub lsda: Option<(PointerEncoding, Key)>,
}

impl Directives {
    /// Starts a function of `code_len` bytes without directives, as `.cfi_startproc` and `.cfi_endproc` alone.
    pub fn new(arch: Arch, code_len: u64) -> Self {
        Self::with_memory(arch, code_len, Vec::with_capacity(USUAL), Vec::new())
    }

    fn with_memory(arch: Arch, code_len: u64, list: Vec<Placed>, escaped: Vec<u8>) -> Self {
        let frame = Frame {
            return_column: None,
            is_signal_frame: false,
            is_b_key_frame: false,
            is_mte_tagged_frame: false,
            personality: None,
            lsda: None,
        };
        Self {
            arch,
            code_len,
            is_simple: false,
            frame,
            list,
            escaped,
            in_cie: None,
            errors: Vec::new(),
            count: 0,
            offset: 0,
            new_fragment: false,
            refused: None,
            cfa_offset: arch.cfa_offset_at_entry(),
            remembered: Vec::new(),
        }
    }

    /// Sets whether the function starts without the architecture's usual rules at entry: `.cfi_startproc
    /// simple`.
    ///
    /// # Panics
    /// If there are directives already, because they could be relative to the rules at entry.
    #[must_use]
    pub fn with_simple(self, is_simple: bool) -> Self {
        assert!(self.list.is_empty(), "a function starts before its directives");
        let cfa_offset = if is_simple { 0 } else { self.arch.cfa_offset_at_entry() };
        Self { is_simple, cfa_offset, ..self }
    }

    /// Changes the size of the code, in bytes. Use this function if you learn the size last.
    /// [`check`](Self::check) then finds a directive after the new end.
    pub fn with_code_len(self, code_len: u64) -> Self {
        Self { code_len, ..self }
    }

    /// Removes all directives, to start another function of `code_len` bytes in the same memory.
    pub fn clear(&mut self, code_len: u64) {
        let (mut list, mut escaped) = (take(&mut self.list), take(&mut self.escaped));
        list.clear();
        escaped.clear();
        *self = Self::with_memory(self.arch, code_len, list, escaped);
    }

    /// Returns the architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the size of the code in bytes.
    pub fn code_len(&self) -> u64 {
        self.code_len
    }

    /// Returns whether the function starts [without rules](Self::with_simple).
    pub fn is_simple(&self) -> bool {
        self.is_simple
    }

    /// Returns the directives that apply to the whole function.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Returns the directives at places of the code, in order.
    pub fn placed(&self) -> &[Placed] {
        &self.list
    }

    /// Returns the bytes of all `.cfi_escape` directives.
    pub fn escaped(&self) -> &[u8] {
        &self.escaped
    }

    /// Returns the errors of directives without meaning, in order.
    pub fn errors(&self) -> &[Error] {
        &self.errors
    }

    /// Checks that there are no errors.
    ///
    /// # Errors
    /// Returns the first of [`errors`](Self::errors), or a directive that lies after the end of the code.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(&error) = self.errors.first() {
            return Err(error);
        }
        // The size may have been set after the directives.
        match self.list.last() {
            Some(last) if last.offset > self.code_len => {
                let misuse = Misuse::OffsetBeyondCode { code_len: self.code_len };
                Err(Error { directive: last.number, offset: last.offset, misuse })
            }
            _ => Ok(()),
        }
    }

    /// Places the next directives at `offset`, in bytes from the function's start. This is the offset after the
    /// instruction that the directives describe. It may be the function's end.
    pub fn at(&mut self, offset: u64) -> &mut Self {
        self.move_to(offset);
        self
    }

    /// Places the next directives as [`at`](Self::at) does. Use this function if the assembler does not know
    /// the size of the code before `offset` at once, for example after an alignment (`.p2align`, `.balign`).
    /// If a directive stands at the same offset already, gas writes two rows of `.sframe` for the same PC.
    /// The CFI does not change.
    pub fn at_aligned(&mut self, offset: u64) -> &mut Self {
        self.move_to(offset);
        self.new_fragment = true;
        self
    }

    fn move_to(&mut self, offset: u64) {
        let (unit, _) = self.arch.cfi_alignment();
        let misuse = if offset < self.offset {
            Some(Misuse::OffsetBackwards { previous: self.offset })
        } else if offset > self.code_len {
            Some(Misuse::OffsetBeyondCode { code_len: self.code_len })
        } else if !offset.is_multiple_of(unit) {
            Some(Misuse::OffsetUnaligned { unit })
        } else {
            None
        };
        self.refused = misuse.map(|_| offset);
        match misuse {
            Some(misuse) => self.errors.push(Error { directive: self.count, offset, misuse }),
            None => self.offset = offset,
        }
    }

    /// Records a directive that sets the CFA's offset to `offset`.
    fn put_cfa(&mut self, directive: Directive, offset: i64, misuse: Option<Misuse>) -> &mut Self {
        if misuse.is_none() {
            self.cfa_offset = offset;
        }
        self.put(directive, misuse)
    }

    fn put(&mut self, directive: Directive, misuse: Option<Misuse>) -> &mut Self {
        if misuse.is_none() && self.refused.is_none() {
            let Self { count: number, offset, cfa_offset, new_fragment, .. } = *self;
            self.list.push(Placed { number, offset, cfa_offset, new_fragment, directive });
            self.new_fragment = false;
        }
        self.counted(misuse)
    }

    fn counted(&mut self, misuse: Option<Misuse>) -> &mut Self {
        if let Some(misuse) = misuse {
            let offset = self.refused.unwrap_or(self.offset);
            self.errors.push(Error { directive: self.count, offset, misuse });
        }
        self.count += 1;
        self
    }
}

/// Most functions have at most this many directives.
const USUAL: usize = 16;
