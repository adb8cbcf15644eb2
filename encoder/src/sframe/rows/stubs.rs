//! Encodes a PLT, where the CFA is an expression of the PC. The code before the stubs becomes an FDE, and the
//! stubs become a PC-mask FDE, as ld 2.47 writes them.

use cfipack_format::sframe::{FdeInfo, FdeType, FreType};
use cfipack_format::{Cfa, FunctionOffset, Row};

use crate::Reason;
use crate::cfi::StackPointer;
use crate::cfi::{Change, RowSink, State, StubCfa};
use crate::sframe::options::Layout;
use crate::sframe::rows::fre::Fre;
use crate::sframe::rows::small::SmallRows;

/// Takes the rows of a PLT.
#[derive(Debug)]
pub(crate) struct StubRows<'b, 'e> {
    /// Takes the rows before the stubs.
    pub(crate) before: SmallRows<'b, 'e>,
    /// The row of the stubs.
    pub(crate) stubs: Option<(Row, StubCfa)>,
}

impl<'a> RowSink<'a, StackPointer> for StubRows<'_, '_> {
    fn row(&mut self, state: &State<'a, StackPointer>, change: Change) -> Result<(), Reason> {
        if self.stubs.is_some() {
            return Err(Reason::CfaExpression);
        }
        if state.row.cfa != Cfa::Expression {
            return self.before.row(state, change);
        }
        let stub = StubCfa::recognise(self.before.arch, state.cfa_expression);
        let stub = stub.ok_or(Reason::CfaExpression)?;
        if !state.registers.is_cfa(self.before.arch, &state.row) {
            return Err(Reason::StackPointerRule);
        }
        self.stubs = Some((state.row, stub));
        Ok(())
    }
}

impl StubRows<'_, '_> {
    /// Writes both FDEs of a PLT of `size` bytes. Stubs start at multiples of their size, so the PLT must have
    /// an address (`is_placed`).
    pub(crate) fn finish(mut self, size: u32, layout: Layout, is_placed: bool) -> Result<(), Reason> {
        let (row, stub) = self.stubs.ok_or(Reason::CfaExpression)?;
        if !is_placed {
            return Err(Reason::PlaceUnknown);
        }
        let rows = &mut self.before;
        let first = row.start.0;
        if (rows.start.wrapping_add(first.into())) % u64::from(StubCfa::SIZE) != 0 {
            return Err(Reason::StubAlignment);
        }
        if first != 0 {
            if layout.is_smallest() {
                rows.end_part(first)?;
            } else {
                rows.entries.add(rows.start, first, rows.fres, rows.info, rows.fde_type, 0)?;
            }
            rows.entries.go_on();
        }
        // ld chooses the FRE type by the size of the whole PLT.
        rows.fres.begin(match layout {
            Layout::Small => FreType::Addr1,
            Layout::Gnu => rows.fre_type,
        });
        let info = rows.info | FdeInfo::PC_MASK;
        for (start, pushed) in [(0, 0), (stub.threshold, StubCfa::PUSHED)] {
            let register = rows.arch.stack_pointer();
            let cfa = Cfa::Register { register, offset: stub.offset.wrapping_add(pushed) };
            let start = FunctionOffset(start.into());
            let fre = Fre::new(rows.arch, rows.version, &Row { start, cfa, ..row }, FdeType::Default)?;
            rows.fres.push(start.0, &fre);
        }
        let start = rows.start.wrapping_add(first.into());
        rows.entries.add(start, size - first, rows.fres, info, FdeType::Default, StubCfa::SIZE)
    }
}
