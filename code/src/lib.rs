//! Follows the code of functions: what instructions do to the stack pointer, the return address and saved registers.
//!
//! You give the bytes of a function ([`Code`]), and get what is known before each of its instructions ([`Analysis`]):
//! where the canonical frame address (CFA) is, where the return address and the caller's registers are, and why something is
//! not known ([`Doubt`]). Execution is followed from the function's entry, without its call frame information (CFI), so that
//! the result can judge CFI, and replace it where there is none.
//!
//! It depends on `cfipack-format` and two disassemblers (iced-x86, yaxpeax-arm), whose types are in no signature. It shares
//! no code with the readers of CFI that it judges.
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
//! Work is bounded for each byte of code: a block is followed at most 40 times, and a function at most 17 times, when calls
//! turn out not to return. Nothing recurses. What is kept for a byte of code is bounded too: blocks, slots of their
//! states, findings. Limits that are reached are [`Doubt::TooLarge`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod aarch64;
mod analysis;
mod context;
mod instruction;
mod instructions;
mod judge;
pub mod landing_pads;
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
pub use instruction::{Condition, Flow, Instruction};
pub use instructions::{Code, Instructions};
pub use judge::{Finding, Judge, Judgement, Kind};
pub use returns::may_return;
pub use rows::{FullRow, Rows};
pub use state::State;
pub use stub::jump_slot;
pub use synthesize::{Candidate, Jump, Omission, Surroundings, synthesize, synthesize_with};
pub use table::{Memory, NoMemory};
pub use text::{Disassembler, Text};
pub use value::Value;
pub use words::{CfaWords, name};
