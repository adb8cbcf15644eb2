//! The few DWARF expressions that a row can hold.

use cfipack_format::Register;
use gimli::{Encoding, Endianity, Expression, Operation};

use super::source::Reader;

/// The form of an expression, by its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// `register + offset`.
    Sum { register: Register, offset: i64 },
    /// The pointer at `register + offset`.
    Load { register: Register, offset: i64 },
    /// A number.
    Constant(u64),
    /// `register + offset + (((rip & 15) >= from) << 3)`. ld and lld write it for x86-64's PLT, as `rsp + 8 + …`. An
    /// entry of the PLT has 16 bytes, and has pushed 8 bytes on the stack from its byte `from` on.
    Plt { register: Register, offset: i64, from: u64 },
}

/// x86-64's `rip`. The psABI uses its number for the return-address column.
const RIP: gimli::Register = gimli::Register(16);
/// The length of the longest known expression, in operations.
const LONGEST: usize = 9;

/// Recognises the form of an expression. Returns `None` if no row can hold the expression.
pub(super) fn shape<E: Endianity>(
    expression: Expression<Reader<'_, E>>,
    encoding: Encoding,
) -> Option<Shape> {
    use Operation::*;
    let mut operations = [Nop; LONGEST];
    let mut iter = expression.operations(encoding);
    let mut count = 0;
    while let Some(operation) = iter.next().ok()? {
        *operations.get_mut(count)? = operation;
        count += 1;
    }
    Some(match operations[..count] {
        [UnsignedConstant { value }] => Shape::Constant(value),
        [SignedConstant { value }] => Shape::Constant(value as u64),
        [RegisterOffset { register, offset, .. }] => Shape::Sum { register: Register(register.0), offset },
        [RegisterOffset { register, offset, .. }, Deref { size, space: false, .. }]
            if size == encoding.address_size =>
        {
            Shape::Load { register: Register(register.0), offset }
        }
        [
            RegisterOffset { register, offset, .. },
            RegisterOffset { register: RIP, offset: 0, .. },
            UnsignedConstant { value: 15 },
            And,
            UnsignedConstant { value: from },
            Ge,
            UnsignedConstant { value: 3 },
            Shl,
            Plus,
        ] => Shape::Plt { register: Register(register.0), offset, from },
        _ => return None,
    })
}
