//! Adds a single function: by the fast path if it is common, by the general path otherwise, and by gas's rules
//! in layout `gnu`.

use cfipack_format::Arch;
use cfipack_format::sframe::FdeType;

use crate::cfi::StackPointer;
use crate::cfi::{Change, Function, RowSink, State};
use crate::sframe::builder::Builder;
use crate::sframe::options::Layout;
use crate::sframe::rows::gas_marks::{GasMarks, Marked};
use crate::sframe::rows::gnu::GnuRows;
use crate::sframe::rows::small::{SmallRows, flags};
use crate::sframe::rows::stubs::StubRows;
use crate::{Reason, Unsupported};

impl<'a> Builder<'a> {
    /// Adds a function.
    ///
    /// Pass a `&Function`, or a [`Marked`] function with facts that only its directives have. The key must be
    /// unique, because [`Section::write`](crate::sframe::Section::write) asks for the address of each key.
    ///
    /// Functions of [unrelocated](crate::cfi::Functions::keyed) input have a key and no address. A function
    /// that needs its address is then refused with [`Reason::PlaceUnknown`]: a function with
    /// `DW_CFA_set_loc`, a PLT, and every function if
    /// [`Options::merge_functions`](crate::sframe::Options::merge_functions) merges neighbours. Either all
    /// functions of a builder have addresses, or none has. The builder refuses a mixture with
    /// [`Reason::KeysMixed`].
    ///
    /// # Errors
    /// The format cannot represent the function, gas omits it (in layout `Gnu`), or the section has no more
    /// room. The section then has no row for the function.
    #[inline]
    pub fn push<'f>(&mut self, function: impl Into<Marked<'f, 'a>>) -> Result<(), Unsupported>
    where
        'a: 'f,
    {
        let Marked { function, marks } = function.into();
        let have_addresses = function.start.is_some();
        self.draft.can_take(have_addresses).map_err(|reason| refused(function, reason))?;
        self.draft.entries.have_addresses = Some(have_addresses);
        self.draft.entries.settle();
        let before = self.draft.entries.list.len();
        let pushed = match self.draft.options.layout {
            Layout::Small => self.push_small(function),
            Layout::Gnu => self.push_gnu(function, &marks),
        };
        if let Err(Unsupported { reason, .. }) = pushed {
            self.undefined_cfi += u64::from(reason.is_undefined() || self.is_undefined(function));
            // If gas keeps the FDE without rows, the FDE itself hides the rows of other functions.
            if self.draft.entries.list.len() == before {
                self.note_omitted(function.key, function.size);
            } else {
                self.draft.entries.refused.push(before);
            }
        }
        pushed
    }

    /// Adds a function as [`push`](Self::push) does in layout `Small`, but without the fast paths. Tests and
    /// benches compare the fast paths with this function.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    #[doc(hidden)]
    pub fn push_general(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = check(self.draft.abi.arch(), function)?;
        self.push_rows(function, size)
    }

    fn push_small(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = check(self.draft.abi.arch(), function)?;
        if size == 0 {
            return Ok(());
        }
        let number = if self.draft.fres.room().is_some() { self.number(function) } else { None };
        let common = match number {
            Some(cie) => self.push_common(cie, function.key, &function.code(), size).is_some(),
            None => false,
        };
        if common { Ok(()) } else { self.push_rows(function, size) }
    }

    /// Adds a function by the general path.
    #[cold]
    pub(crate) fn push_rows(&mut self, function: &Function<'a>, size: u32) -> Result<(), Unsupported> {
        if size == 0 {
            return Ok(());
        }
        let before = self.draft.mark();
        let result = self.run_small(function, size, FdeType::Default).or_else(|unsupported| {
            self.draft.back_to(before);
            if unsupported.reason == Reason::CfaExpression {
                self.run_stubs(function, size)
            } else if self.draft.options.flex {
                self.run_small(function, size, FdeType::Flex)
            } else {
                Err(unsupported)
            }
        });
        result.inspect_err(|_| self.draft.back_to(before))
    }

    #[cold]
    fn is_undefined(&mut self, function: &Function<'a>) -> bool {
        let ran = self.machines.interpreter.run(function, &mut Unread);
        ran.is_err_and(|unsupported| unsupported.reason.is_undefined())
    }

    /// Interprets a function and adds its FDE, or several FDEs if it has too many rows for an FDE.
    #[inline]
    fn run_small(
        &mut self,
        function: &Function<'a>,
        size: u32,
        fde_type: FdeType,
    ) -> Result<(), Unsupported> {
        let options = &self.draft.options;
        let mut rows = SmallRows::begin(
            function,
            options,
            fde_type,
            size,
            &mut self.draft.fres,
            &mut self.draft.entries,
        );
        self.machines.interpreter.run(function, &mut rows)?;
        rows.end_part(size).map_err(|reason| refused(function, reason))
    }

    #[cold]
    fn run_stubs(&mut self, function: &Function<'a>, size: u32) -> Result<(), Unsupported> {
        let (options, layout) = (&self.draft.options, self.draft.options.layout);
        let before = SmallRows::begin(
            function,
            options,
            FdeType::Default,
            size,
            &mut self.draft.fres,
            &mut self.draft.entries,
        );
        let mut rows = StubRows { before, stubs: None };
        self.machines.interpreter.run(function, &mut rows)?;
        rows.finish(size, layout, function.start.is_some()).map_err(|reason| refused(function, reason))
    }

    fn push_gnu(&mut self, function: &Function<'a>, marks: &GasMarks) -> Result<(), Unsupported> {
        let size = u32::try_from(function.size).map_err(|_| refused(function, Reason::FunctionSize))?;
        let before = self.draft.mark();
        let mut rows = GnuRows::new(
            function,
            marks,
            &mut self.machines.interpreter,
            &mut self.machines.gnu,
            &mut self.draft.fres,
            &self.draft.options,
        );
        let result = check(self.draft.abi.arch(), function).and_then(|_| rows.run(&self.draft.options));
        match result {
            Ok(fde_type) => {
                self.end_gnu(function, size, fde_type).map_err(|reason| refused(function, reason))
            }
            Err(unsupported)
                if unsupported.reason == Reason::GasInstruction(0x0f) && marks.omitted.is_none() =>
            {
                // This is a PLT. ld writes its FDEs, not gas.
                self.run_stubs(function, size).map_err(|_| {
                    self.draft.back_to(before);
                    unsupported
                })
            }
            Err(unsupported) => Err(unsupported),
        }
        .inspect_err(|unsupported| {
            // gas keeps the FDE of a signal frame and drops its rows.
            if function.cie.signal_frame && is_of_gas(unsupported.reason) {
                self.draft.fres.begin(Layout::Gnu.fre_type(size));
                let _ = self.end_gnu(function, size, FdeType::Default);
            }
        })
    }

    fn end_gnu(&mut self, function: &Function<'a>, size: u32, fde_type: FdeType) -> Result<(), Reason> {
        let info = flags(&function.cie, self.draft.options.version);
        self.draft.entries.add(function.key.0, size, &mut self.draft.fres, info, fde_type, 0)
    }
}

/// Discards rows.
struct Unread;

impl<'a> RowSink<'a, StackPointer> for Unread {
    fn row(&mut self, _: &State<'a, StackPointer>, _: Change) -> Result<(), Reason> {
        Ok(())
    }
}

/// Checks a function before its instructions are read. Returns its size.
#[inline]
fn check(arch: Arch, function: &Function<'_>) -> Result<u32, Unsupported> {
    if function.arch() != arch {
        return Err(refused(function, Reason::Architecture));
    }
    if function.cie.return_address != arch.return_address() {
        return Err(refused(function, Reason::ReturnColumn(function.cie.return_address)));
    }
    u32::try_from(function.size).map_err(|_| refused(function, Reason::FunctionSize))
}

#[cold]
fn refused(function: &Function<'_>, reason: Reason) -> Unsupported {
    Unsupported::function(function.key, reason)
}

/// Returns whether gas omits a function for this reason too.
const fn is_of_gas(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::GasInstruction(_)
            | Reason::GasLabel
            | Reason::GasRegister(_)
            | Reason::ReturnColumn(_)
            | Reason::RowCount
            | Reason::CfaOffset(_)
            | Reason::CfaWithoutBase
            | Reason::FramePointerAlone
            | Reason::InstructionUnknown(_)
    )
}
