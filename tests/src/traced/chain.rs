//! Makes chains of frames, from the innermost one as far as the rows lead.

use cfipack_decoder::sframe::{Registers, StepError, step};
use cfipack_format::{Address, Arch, Register};
use cfipack_testkit::by_cfi::Stop;
use cfipack_testkit::process::{Process, Stopped};

use super::images::Images;

/// The most frames of a chain.
const DEPTH: usize = 200;

/// A frame: its PC and its canonical frame address.
pub type Frame = (u64, u64);

/// The reason why a chain ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The frame is outermost by its row.
    Outermost,
    /// No image, no function or no row for the PC.
    NoRow,
    /// The table omits the function.
    OmittedFunction(String),
    /// A caller's CFA counts from a register that no table restores.
    Unrestored(Register),
    /// A register or memory is not available.
    Lost,
    /// The chain has reached the limit.
    Long,
}

/// Returns the address to look up. For a caller it is the byte before the return address, which belongs to the call.
/// For a frame that a signal interrupted it is the PC.
fn lookup_at(pc: u64, exact: bool) -> u64 {
    if exact { pc } else { pc.wrapping_sub(1) }
}

/// Makes the chain by CFI, as gimli evaluates it.
pub fn by_cfi(
    stopped: &Stopped,
    memory: &dyn Fn(u64) -> Option<u64>,
    images: &mut Images,
    process: &dyn Process,
) -> (Vec<Frame>, End) {
    let (mut pc, mut registers, mut exact) = (stopped.pc, stopped.registers, true);
    let mut frames = Vec::new();
    while frames.len() < DEPTH {
        let at = lookup_at(pc, exact);
        let Some(image) = images.find(at, process) else { return (frames, End::NoRow) };
        match image.cfi.caller(at.wrapping_sub(image.bias), &registers, memory) {
            Ok(caller) => {
                let Some(return_address) = caller.return_address else { return (frames, End::Lost) };
                frames.push((pc, caller.cfa));
                (pc, registers, exact) = (return_address, caller.registers, caller.signal_frame);
            }
            Err(Stop::Outermost) => return (frames, End::Outermost),
            Err(Stop::NoRow) => return (frames, End::NoRow),
            Err(Stop::Lost) => return (frames, End::Lost),
            Err(Stop::Malformed(error)) => panic!("{}: {at:#x}: {error}", image.name),
        }
    }
    (frames, End::Long)
}

/// Makes the chain by our tables.
pub fn by_table(
    stopped: &Stopped,
    memory: &dyn Fn(u64) -> Option<u64>,
    images: &mut Images,
    process: &dyn Process,
) -> (Vec<Frame>, End) {
    let others: Vec<_> = (0..16).map(|n| (Register(n), stopped.registers[usize::from(n)].unwrap())).collect();
    let (sp, fp) = (stopped.registers[7].unwrap(), stopped.registers[6]);
    let mut registers = Registers { sp, fp, lr: None, others: &others };
    let (mut pc, mut exact) = (stopped.pc, true);
    let mut frames = Vec::new();
    while frames.len() < DEPTH {
        let at = lookup_at(pc, exact);
        let Some(image) = images.find(at, process) else { return (frames, End::NoRow) };
        let in_file = at.wrapping_sub(image.bias);
        if image.table.find(Address(in_file)).expect("our own table").is_none() {
            let omitted = image.cfi.functions().find(|function| function.contains(&in_file));
            return match omitted.filter(|function| image.omitted.contains(&function.start)) {
                Some(function) => {
                    (frames, End::OmittedFunction(format!("{} {:#x}", image.name, function.start)))
                }
                None => (frames, End::NoRow),
            };
        }
        let Some(frame) = image.table.lookup_frame(Address(in_file)).expect("our own table") else {
            return (frames, End::NoRow);
        };
        match step(Arch::Amd64, &frame.row, &registers, |address| memory(address.0)) {
            Ok(caller) => {
                frames.push((pc, caller.cfa.0));
                registers = Registers { sp: caller.sp, fp: caller.fp, lr: None, others: &[] };
                (pc, exact) = (caller.pc.0, frame.is_signal_frame);
            }
            Err(StepError::Outermost) => return (frames, End::Outermost),
            Err(StepError::Rule) => return (frames, End::NoRow),
            Err(StepError::Register { register, .. })
                if !frames.is_empty() && register != Arch::Amd64.frame_pointer() =>
            {
                return (frames, End::Unrestored(register));
            }
            Err(_) => return (frames, End::Lost),
        }
    }
    (frames, End::Long)
}
