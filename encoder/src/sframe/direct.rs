//! Functions of the common kind, straight from their instructions to FREs.
//!
//! Nearly every function does no more than move its CFA's offset and save registers. What such
//! instructions can change is a few bits of state, and the FRE follows from it by a table; so this
//! does what the interpreter and the encoder of rows do, in a fraction of the time. It gives
//! up on whatever is not common, malformed instructions among it, and the function then goes the
//! general way from the start.

use cfipack_format::sframe::{FdeInfo, FreType};
use cfipack_format::{Arch, Cfa, Endian, Register, Row, Rule};

use super::fres::{BUFFER, Fres};
use super::pattern::Pattern;
use super::stack_pointer::StackPointer;
use super::track::{LOOKAHEAD, Reading, Track};
use crate::cfi::{Cie, Code, Registers, State};

/// What common instructions can change but for the CFA's offset, and which CIE gave the rest.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | the CFA is counted from the frame pointer, else from the stack pointer |
/// | 1 | AArch64: the return address is signed |
/// | 8-15 | operand of the `DW_CFA_offset` in effect for the frame pointer; 0: what the CIE says holds |
/// | 16-23 | likewise for the return address |
/// | 24-31 | number of the CIE |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rules(u32);

impl Rules {
    const ON_FRAME_POINTER: u32 = 1;
    const SIGNED: u32 = 1 << 1;
    const FRAME_POINTER: u32 = 8;
    const RETURN_ADDRESS: u32 = 16;
    const CIE: u32 = 24;
    const CIES: u32 = 0xff << Self::CIE;
    /// Those of a CIE that there cannot be.
    const NONE: Self = Self(u32::MAX);

    fn new(cie: u8, on_frame_pointer: bool, signed: bool) -> Self {
        let signed = if signed { Self::SIGNED } else { 0 };
        Self(u32::from(cie) << Self::CIE | signed).on_frame_pointer(on_frame_pointer)
    }

    #[inline]
    fn on_frame_pointer(self, whether: bool) -> Self {
        Self(self.0 & !Self::ON_FRAME_POINTER | u32::from(whether))
    }

    /// With another operand at the bits from `shift` on.
    #[inline]
    fn with(self, shift: u32, operand: u8) -> Self {
        Self(self.0 & !(0xff << shift) | u32::from(operand) << shift)
    }

    fn operand(self, shift: u32) -> u8 {
        (self.0 >> shift) as u8
    }
}

/// Where the common functions of a CIE begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CommonCie {
    rules: Rules,
    offset: u32,
    /// The row after the CIE's instructions.
    row: Row,
    arch: Arch,
    frame_pointer: Register,
    reading: Reading,
    data_alignment: i64,
    /// What an FDE says of the whole function.
    pub(super) info: FdeInfo,
}

impl CommonCie {
    /// The CIE with this number, after whose instructions `state` holds. None where its functions
    /// are not common.
    pub(super) fn new(
        number: u8,
        cie: &Cie<'_>,
        state: &State<'_, StackPointer>,
        arch: Arch,
        info: FdeInfo,
    ) -> Option<Self> {
        let row = state.row;
        let Cfa::Register { register, offset } = row.cfa else { return None };
        let offset = u32::try_from(offset).ok().filter(|&offset| offset <= Pattern::MAX_OFFSET)?;
        let is_usual = cie.return_address == arch.return_address() && state.registers.is_unset();
        if arch.endian() == Endian::Big || !is_usual {
            return None;
        }
        // Larger ones are nobody's, and locations need not be checked for overflow.
        let code_alignment = u64::from(u8::try_from(cie.code_alignment).ok().filter(|&factor| factor != 0)?);
        let rules = Rules::new(number, is_frame_pointer(arch, register)?, row.signed);
        let reading = Reading { code_alignment, ignored: state.registers.ignored(arch) };
        Some(Self {
            rules,
            offset,
            row,
            arch,
            frame_pointer: arch.frame_pointer(),
            reading,
            data_alignment: cie.data_alignment,
            info,
        })
    }

    /// Whether the common functions of another CIE give the same rows.
    pub(super) fn means_the_same(&self, other: &Self) -> bool {
        let other_rules = Rules(other.rules.0 & !Rules::CIES | self.rules.0 & Rules::CIES);
        *self == Self { rules: other_rules, ..*other }
    }

    /// What the row of these rules looks like.
    #[cold]
    fn pattern(&self, rules: Rules) -> Option<Pattern> {
        let on_frame_pointer = rules.0 & Rules::ON_FRAME_POINTER != 0;
        let base = if on_frame_pointer { self.arch.frame_pointer() } else { self.arch.stack_pointer() };
        let rule = |shift, initial| match rules.operand(shift) {
            0 => initial,
            operand => Rule::Cfa(i64::from(operand).wrapping_mul(self.data_alignment)),
        };
        let row = Row {
            cfa: Cfa::Register { register: base, offset: 0 },
            frame_pointer: rule(Rules::FRAME_POINTER, self.row.frame_pointer),
            return_address: rule(Rules::RETURN_ADDRESS, self.row.return_address),
            signed: rules.0 & Rules::SIGNED != 0,
            ..self.row
        };
        Pattern::new(self.arch, &row)
    }

    /// Whether an instruction saves or restores the frame pointer or the return address.
    #[inline(always)]
    fn is_of_frame_record(&self, opcode: u8) -> bool {
        let register = Register((opcode & 0x3f).into());
        opcode >= 0x80 && (register == self.frame_pointer || register == self.arch.return_address())
    }

    /// [`is_frame_pointer`] by the register's number.
    #[inline]
    fn is_frame_pointer(&self, register: u8) -> Option<bool> {
        is_frame_pointer(self.arch, Register(register.into()))
    }

    /// The rules with another for a register that is not ignored.
    #[inline(always)]
    fn with(&self, rules: Rules, register: u8, operand: u8) -> Option<Rules> {
        let register = Register(register.into());
        if register == self.frame_pointer {
            Some(rules.with(Rules::FRAME_POINTER, operand))
        } else if register == self.arch.return_address() {
            Some(rules.with(Rules::RETURN_ADDRESS, operand))
        } else {
            None
        }
    }
}

/// Whether a CFA is counted from the frame pointer; none where it is neither from that nor from
/// the stack pointer.
fn is_frame_pointer(arch: Arch, register: Register) -> Option<bool> {
    let is_frame_pointer = register == arch.frame_pointer();
    (is_frame_pointer || register == arch.stack_pointer()).then_some(is_frame_pointer)
}

/// Runs common functions.
#[derive(Clone, Debug)]
pub(super) struct Common {
    patterns: Patterns,
}

/// How deep `DW_CFA_remember_state` nests in common functions.
const MAX_REMEMBERED: usize = 4;

/// The patterns of late: functions save their registers in few ways.
#[derive(Clone, Debug)]
struct Patterns([(Rules, Pattern); Self::COUNT]);

impl Patterns {
    const COUNT: usize = 64;

    #[inline(always)]
    fn get(&mut self, cie: &CommonCie, rules: Rules) -> Option<Pattern> {
        let hash = rules.0 ^ rules.0 >> 7 ^ rules.0 >> 14 ^ rules.0 >> 20;
        let slot = &mut self.0[hash as usize % Self::COUNT];
        if slot.0 != rules {
            *slot = (rules, cie.pattern(rules)?);
        }
        Some(slot.1)
    }

    /// Applies an instruction, or two of a frame record. Returns the pattern then, and the instructions that
    /// are left.
    #[inline(never)]
    fn change<'i>(
        &mut self,
        cie: &CommonCie,
        state: &mut States,
        mut rest: &'i [u8],
    ) -> Option<(Pattern, &'i [u8])> {
        loop {
            let len = state.apply(cie, *rest.first_chunk()?)?;
            rest = &rest[len..];
            // Both rules of a frame record at once: no row of AArch64 may have the frame pointer's alone.
            if rest.len() <= LOOKAHEAD || !cie.is_of_frame_record(rest[0]) {
                break;
            }
        }
        Some((self.get(cie, state.now.rules)?, rest))
    }
}

impl Common {
    pub(super) fn new() -> Self {
        let patterns = Patterns([(Rules::NONE, Pattern::NONE); Patterns::COUNT]);
        Self { patterns }
    }

    /// Puts the rows of a function of `size` bytes, not 0, into `fres`. Returns the location that its
    /// instructions end at, from its start.
    #[inline]
    pub(super) fn run(
        &mut self,
        cie: &CommonCie,
        code: &Code<'_>,
        size: u32,
        fres: &mut Fres,
    ) -> Option<u64> {
        let location = match FreType::for_start(size - 1) {
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
        fres.narrow_short();
        Some(location)
    }

    /// Puts the rows of a function into `fres` whose instructions go on far behind its end.
    #[cold]
    fn run_beyond(&mut self, cie: &CommonCie, code: &Code<'_>, fres: &mut Fres) -> Option<()> {
        let location = self.run_as::<4>(cie, code, FreType::Addr4, fres)?;
        (location <= u32::MAX.into()).then_some(())
    }

    /// Puts the rows of a function into `fres`, starts cut to `WIDTH` bytes.
    #[inline]
    fn run_as<const WIDTH: usize>(
        &mut self,
        cie: &CommonCie,
        code: &Code<'_>,
        fre_type: FreType,
        fres: &mut Fres,
    ) -> Option<u64> {
        let instructions = code.with_behind().get(..code.len() + LOOKAHEAD)?;
        let (room, first) = fres.room()?;
        // A row takes two bytes of instructions or more.
        if first + (code.len() / 2 + 2) * (WIDTH + 8) > BUFFER {
            return None;
        }
        let mut state = States {
            now: Now { rules: cie.rules, offset: cie.offset },
            remembered: [Now { rules: cie.rules, offset: cie.offset }; MAX_REMEMBERED],
            depth: 0,
        };
        let pattern = self.patterns.get(cie, cie.rules)?;
        let mut track = Track::<WIDTH>::new(instructions, pattern, cie.offset, room, first);
        while !track.run(&cie.reading) {
            state.now.offset = track.offset();
            let (pattern, rest) = self.patterns.change(cie, &mut state, track.rest)?;
            track.rest = rest;
            track.set_pattern(pattern, state.now.offset);
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
}

/// What common instructions change.
#[derive(Clone, Copy, Debug)]
struct Now {
    rules: Rules,
    /// The CFA's.
    offset: u32,
}

/// What holds, and what `DW_CFA_remember_state` has put aside.
#[derive(Clone, Copy, Debug)]
struct States {
    now: Now,
    remembered: [Now; MAX_REMEMBERED],
    depth: usize,
}

impl States {
    /// Applies the instruction that these bytes begin with. Returns its length.
    #[inline(always)]
    fn apply(&mut self, cie: &CommonCie, bytes: [u8; 4]) -> Option<usize> {
        let Self { now, remembered, depth } = self;
        Some(match bytes {
            // DW_CFA_remember_state
            [0x0a, ..] => {
                *remembered.get_mut(*depth)? = *now;
                *depth += 1;
                1
            }
            // DW_CFA_restore_state
            [0x0b, ..] => {
                *depth = depth.checked_sub(1)?;
                *now = *remembered.get(*depth)?;
                1
            }
            // DW_CFA_offset
            [opcode @ 0x80..=0xbf, operand @ 1..0x80, ..] => {
                now.rules = cie.with(now.rules, opcode & 0x3f, operand)?;
                2
            }
            // DW_CFA_restore
            [opcode @ 0xc0..=0xff, ..] => {
                now.rules = cie.with(now.rules, opcode & 0x3f, 0)?;
                1
            }
            // DW_CFA_def_cfa, DW_CFA_def_cfa_register
            [0x0c, register @ 0..0x80, value @ 0..0x80, _] => {
                now.rules = now.rules.on_frame_pointer(cie.is_frame_pointer(register)?);
                now.offset = value.into();
                3
            }
            [0x0c, register @ 0..0x80, low, high @ 0..0x80] => {
                now.rules = now.rules.on_frame_pointer(cie.is_frame_pointer(register)?);
                now.offset = u32::from(low & 0x7f) | u32::from(high) << 7;
                4
            }
            [0x0d, register @ 0..0x80, ..] => {
                now.rules = now.rules.on_frame_pointer(cie.is_frame_pointer(register)?);
                2
            }
            // DW_CFA_AARCH64_negate_ra_state
            [0x2d, ..] if cie.arch.is_aarch64() => {
                now.rules = Rules(now.rules.0 ^ Rules::SIGNED);
                1
            }
            // DW_CFA_GNU_args_size, with a larger operand than most
            [0x2e, 0x80..=0xff, 0..0x80, _] => 3,
            _ => return None,
        })
    }
}
