//! Encodes common functions, straight from their instructions to FREs.
//!
//! Nearly every function only moves its CFA's offset and saves registers. Such instructions change a few bits
//! of state, and a table gives the FRE for this state. This module therefore replaces the interpreter and the
//! encoder of rows, in a fraction of the time. It stops at any other instruction, and at malformed
//! instructions. The function then takes the general path from its start.

use cfipack_format::sframe::FreType;

use crate::cfi::Code;
use crate::sframe::fast::common_cie::CommonCie;
use crate::sframe::fast::pattern::Pattern;
use crate::sframe::fast::rules::{FrameState, Rules, States};
use crate::sframe::fast::track::{LOOKAHEAD, Track};
use crate::sframe::options::Layout;
use crate::sframe::rows::fres::{BUFFER, Fres};
use crate::sframe::table::chunk::CHUNK;

/// Runs common functions.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    /// Recently used patterns: functions save their registers in few ways.
    patterns: [(Rules, Pattern); Self::PATTERNS],
}

impl Common {
    const PATTERNS: usize = 64;

    pub(crate) fn new() -> Self {
        Self { patterns: [(Rules::NONE, Pattern::NONE); Self::PATTERNS] }
    }

    /// Puts the rows of a function of `size` bytes into `fres`. `size` is not 0. Returns the location after
    /// the last instruction, from the function's start.
    #[inline]
    pub(crate) fn run(
        &mut self,
        cie: &CommonCie,
        code: &Code<'_>,
        size: u32,
        fres: &mut Fres,
    ) -> Option<u64> {
        let location = match Layout::Small.fre_type(size) {
            FreType::Addr1 => self.run_as::<1>(cie, code, FreType::Addr1, fres),
            FreType::Addr2 => self.run_as::<2>(cie, code, FreType::Addr2, fres),
            FreType::Addr4 => self.run_as::<4>(cie, code, FreType::Addr4, fres),
        }?;
        if location >= size.into() {
            if location >> (8 * fres.fre_type().width()) != 0 {
                self.run_beyond(cie, code, fres)?;
            }
            fres.trim(size);
        }
        fres.narrow();
        Some(location)
    }

    /// Puts the rows of a function into `fres` again, because some starts did not fit `fre_type`.
    #[cold]
    fn run_beyond(&mut self, cie: &CommonCie, code: &Code<'_>, fres: &mut Fres) -> Option<()> {
        let location = self.run_as::<4>(cie, code, FreType::Addr4, fres)?;
        (location <= u32::MAX.into()).then_some(())
    }

    /// Puts the rows of a function into `fres`. Each start is cut to `WIDTH` bytes.
    #[inline]
    fn run_as<const WIDTH: usize>(
        &mut self,
        cie: &CommonCie,
        code: &Code<'_>,
        fre_type: FreType,
        fres: &mut Fres,
    ) -> Option<u64> {
        let mut copy = [0; CHUNK + LOOKAHEAD];
        let instructions = match code.tail().get(..code.len() + LOOKAHEAD) {
            Some(instructions) => instructions,
            None => with_lookahead(code, &mut copy)?,
        };
        let (room, first) = fres.room()?;
        // A row takes at least two bytes of instructions, so this check keeps the rows inside the buffer.
        if first + (code.len().min(BUFFER) / 2 + 2) * (WIDTH + 8) > BUFFER {
            return None;
        }
        let CommonCie { rules, offset, pattern, reading, .. } = *cie;
        let mut states = States::new(FrameState { rules, offset });
        let mut track = Track::<WIDTH>::new(instructions, pattern, offset, room, first);
        while !track.run(&reading) {
            states.current.offset = track.offset();
            let (pattern, rest) = self.change(cie, &mut states, track.rest)?;
            track.rest = rest;
            track.set_pattern(pattern, states.current.offset);
        }
        if track.rest.len() < LOOKAHEAD {
            // An operand is missing.
            return None;
        }
        let location = track.location;
        let (end, last_start) = track.finish();
        fres.take(fre_type, end.end(), end.rows(), last_start);
        Some(location)
    }

    /// Applies an instruction, and the saves and restores of the frame record that follow it directly.
    /// Returns the new state's pattern and the instructions that are left.
    #[inline(never)]
    fn change<'i>(
        &mut self,
        cie: &CommonCie,
        states: &mut States,
        mut rest: &'i [u8],
    ) -> Option<(Pattern, &'i [u8])> {
        loop {
            let len = states.apply(cie, *rest.first_chunk()?)?;
            rest = &rest[len..];
            // Apply both rules of a frame record at once, because no row of AArch64 may have the frame
            // pointer's rule alone.
            if rest.len() <= LOOKAHEAD || !cie.is_of_frame_record(rest[0]) {
                break;
            }
        }
        let rules = states.current.rules;
        let slot = &mut self.patterns[rules.hash() % Self::PATTERNS];
        if slot.0 != rules {
            *slot = (rules, cie.pattern(rules)?);
        }
        Some((slot.1, rest))
    }
}

/// Copies short instructions that end a section, with [`LOOKAHEAD`] zeros after them.
#[cold]
fn with_lookahead<'c>(code: &Code<'_>, copy: &'c mut [u8; CHUNK + LOOKAHEAD]) -> Option<&'c [u8]> {
    let bytes = code.tail().get(..code.len()).filter(|bytes| bytes.len() <= CHUNK)?;
    copy[..bytes.len()].copy_from_slice(bytes);
    copy.get(..code.len() + LOOKAHEAD)
}
