//! Makes the rows of a function from its call frame information.

use cfipack_format::{Arch, Cfa, Reason, Row, Rule, Unsupported};

use super::block::Block;
use crate::cfi::{Change, Function, Interpreter, RowSink, StackPointer, State};

/// Adds a function's rows to a block. They are the rows of a `.sframe` table, without the limits of the table's
/// fields. If any row cannot be represented, the function gets no rows.
pub(super) fn push<'a>(
    block: &mut Block,
    interpreter: &mut Interpreter<'a, StackPointer>,
    function: &Function<'a>,
    offset: u64,
) -> Result<(), Unsupported> {
    let (arch, from) = (function.arch(), block.num_rows());
    if function.cie.return_address != arch.return_address() {
        return Err(Unsupported::function(function.key, Reason::ReturnColumn(function.cie.return_address)));
    }
    // Rows start within 32 bits.
    if u32::try_from(function.size).is_err() {
        return Err(Unsupported::function(function.key, Reason::FunctionSize));
    }
    let result = interpreter.run(function, &mut Rows { arch, block, from });
    match result {
        Ok(()) => block.end_function(offset, function.size, function.cie.signal_frame, from),
        Err(_) => block.drop_rows(from),
    }
    result
}

/// Takes the rows of a function. They are the rows of the block from number `from` on.
struct Rows<'b> {
    arch: Arch,
    block: &'b mut Block,
    from: usize,
}

impl<'a> RowSink<'a, StackPointer> for Rows<'_> {
    fn row(&mut self, state: &State<'a, StackPointer>, _: Change) -> Result<(), Reason> {
        let row = &state.row;
        if row.return_address == Rule::Undefined {
            // In an outermost frame nothing else matters.
            let outermost =
                Row { cfa: Cfa::Undefined, frame_pointer: Rule::SameValue, signed: false, ..*row };
            self.block.push_row(&outermost);
            return Ok(());
        }
        match row.cfa {
            // There is no rule so far, so there is no row.
            Cfa::Undefined if self.block.num_rows() == self.from => return Ok(()),
            Cfa::Undefined => return Err(Reason::CfaMissing),
            Cfa::Expression => return Err(Reason::CfaExpression),
            Cfa::Register { .. } | Cfa::Memory { .. } => {}
        }
        if !state.registers.is_cfa(self.arch, row) {
            return Err(Reason::StackPointerRule);
        }
        let rules =
            [(row.return_address, Reason::ReturnAddressRule), (row.frame_pointer, Reason::FramePointerRule)];
        for (rule, reason) in rules {
            match rule {
                Rule::ValCfa(_) | Rule::Expression => return Err(reason),
                Rule::Undefined | Rule::SameValue | Rule::Cfa(_) => {}
                Rule::Register { .. } | Rule::Memory { .. } => {}
            }
        }
        self.block.push_row(row);
        Ok(())
    }
}
