//! Encodes the body of a function: arm64 and arm64_32.

use cfipack_format::compact_unwind::{Encoding, PAIRS, Pairs};
use cfipack_format::{Arch, Cfa, Register, Rule};

use super::body::Body;
use super::step::frame_record_size;
use crate::Reason;

/// Returns the encoding of a body.
pub(super) fn encode(arch: Arch, body: &Body) -> Result<Encoding, Reason> {
    let Cfa::Register { register, offset } = body.row.cfa else { return Err(Reason::CfaMissing) };
    if let Some(register) = body.saved.unrepresentable() {
        return Err(Reason::SavedRegister(register));
    }
    if register == arch.frame_pointer() { frame(arch, body) } else { frameless(body, offset) }
}

fn frame(arch: Arch, body: &Body) -> Result<Encoding, Reason> {
    let size = frame_record_size(arch);
    if body.row.frame_pointer != Rule::Cfa(-size) || body.row.return_address != Rule::Cfa(-size / 2) {
        return Err(Reason::FrameRecord);
    }
    // Pairs lie directly below each other in a fixed order, starting at the frame record.
    let mut pairs = Pairs::empty();
    let mut last = -size;
    for ((pair, first), index) in PAIRS.into_iter().zip((0..).step_by(2)) {
        let second = Register(first.0 + 1);
        match (body.saved.offset_at(index), body.saved.offset_at(index + 1)) {
            (None, None) => continue,
            (None, Some(_)) => return Err(Reason::SavedPlace(second)),
            (Some(place), _) if place != last - 8 => return Err(Reason::SavedPlace(first)),
            (_, place) if place != Some(last - 16) => return Err(Reason::SavedPlace(second)),
            _ => last -= 16,
        }
        pairs |= pair;
    }
    Ok(Encoding::arm64_frame(pairs))
}

/// Tools disagree where register pairs lie in a function without a frame. So this function accepts no pairs.
fn frameless(body: &Body, size: i64) -> Result<Encoding, Reason> {
    if body.row.return_address != Rule::SameValue {
        return Err(Reason::ReturnAddressRule);
    }
    if body.row.frame_pointer != Rule::SameValue {
        return Err(Reason::FramePointerRule);
    }
    if let Some(register) = body.saved.first() {
        return Err(Reason::SavedPlace(register));
    }
    match u16::try_from(size / 16) {
        Ok(units @ 0..=4095) if size % 16 == 0 => Ok(Encoding::arm64_frameless(units, Pairs::empty())),
        _ => Err(Reason::StackSize(size)),
    }
}
