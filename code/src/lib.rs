//! Follows the code of functions: how instructions change the stack pointer, the return address and saved registers.
//!
//! You pass the bytes of a function ([`Code`]) and get the state before each instruction ([`Analysis`]). A state says
//! where the canonical frame address (CFA), the return address and the caller's registers are. If something is not
//! known, a [`Doubt`] says why. The analysis follows execution from the function's entry and does not look at the
//! call frame information (CFI). So you can use the result to check CFI, or to replace CFI that is missing.
//!
//! This crate depends on `cfipack-format` and on two disassemblers (iced-x86, yaxpeax-arm), and no signature mentions
//! their types. It shares no code with the readers of CFI that it checks.
//!
//! ```
//! use cfipack_code::{Analysis, Code, Instructions, NoMemory, State, Value, Ways};
//! use cfipack_format::{Address, Arch, Register};
//!
//! // push rbp; mov rbp, rsp; pop rbp; ret
//! let bytes = [0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3];
//! let code = Code { arch: Arch::Amd64, start: Address(0x1000), bytes: &bytes, relocated: &[] };
//! let instructions = Instructions::new(&code);
//! let entry = State::at_entry(code.arch);
//! let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
//! let analysis = Analysis::new(code, &instructions, &NoMemory, ways);
//!
//! let states = analysis.states();
//! let after_push = states[1].as_ref().unwrap();
//! assert_eq!(analysis.cfa(after_push), Some((Register(7), 16)), "rsp+16");
//! assert_eq!(after_push.slot(-16), Value::Caller(Register(6)), "rbp is stored at CFA-16");
//! assert_eq!(analysis.doubts().next(), None);
//! ```
//!
//! The work for each byte of code is bounded: a block is followed at most 40 times, and a function at most 17 times,
//! because the analysis starts over when a call turns out not to return. Nothing recurses. Memory for each byte of
//! code is bounded, too. A function that reaches a limit gets the doubt [`Doubt::TooLarge`].
//!
//! The modules:
//!
//! - `instruction`, `instructions`: an instruction as its effects; the decoded instructions of a function
//! - `marks`: numbered marks, where instructions and blocks start
//! - `x86`, `aarch64`: the decoders
//! - `value`, `state`: the knowledge about one register or slot, and about all of them
//! - `analysis`, `context`, `table`, `mentions`: follows a function; constants and jump tables that it refers to, and data
//!   that other code mentions
//! - `judge`, `rows`: compares rows with an analysis
//! - `synthesize`: makes rows where CFI is missing
//! - `returns`, `stub`, `landing_pads`: functions that never return, PLT stubs, LSDAs
//! - `text`, `words`: prints instructions, rules and values

#![cfg_attr(docsrs, feature(doc_cfg))]

mod aarch64;
mod analysis;
mod context;
mod decoding;
mod instruction;
mod instructions;
mod judge;
pub mod landing_pads;
mod marks;
mod mentions;
mod returns;
mod rows;
mod spare;
mod state;
mod stub;
mod synthesize;
mod table;
mod text;
mod value;
mod words;
mod x86;

pub use analysis::{Analysis, CallSite, Doubt, Entry, Exit, Ways};
pub use instruction::{Condition, Flow, Instruction, is_callee_saved};
pub use instructions::{Code, Instructions};
pub use judge::{Finding, Judge, Judgement, Kind};
pub use mentions::mentions;
pub use returns::may_return;
pub use rows::{FullRow, Rows};
pub use state::State;
pub use stub::jump_slot;
pub use synthesize::{
    Candidate, Described, FrameAddress, Jump, Omission, Refused, Surroundings, synthesize, synthesize_with,
};
pub use table::{Memory, NoMemory};
pub use text::{Disassembler, Text};
pub use value::Value;
pub use words::name;
