//! Builds the Mach-O section `__TEXT,__unwind_info` of a link from the `__LD,__compact_unwind` and
//! `__TEXT,__eh_frame` sections of its objects.
//!
//! A [`Builder`] takes both sections of each object as bytes, before relocation. You implement [`Resolve`], which
//! returns the keys of the functions, LSDAs and personalities that the relocations lead to. [`Builder::finish`]
//! returns a [`Section`]. [`Section::plan`] bounds the size of the table before anything has an address.
//! [`Section::place`] lays the table out when addresses are known, and again after each relayout.
//!
//! ```
//! use cfipack_encoder::unwind_info::Options;
//! use cfipack_format::compact_unwind::{Encoding, Entry as Row};
//! use cfipack_format::{Arch, ImageOffset, Key, LsdaKey, PersonalityKey};
//! use cfipack_linker::unwind_info::{Addresses, Builder, Fde, Field, Input, Resolve};
//!
//! // The `__compact_unwind` of two objects: functions at 0 and 0x20 of their sections of code. The relocations
//! // of both objects name this section, so the stored value is an offset in the section.
//! let row = |function, encoding| Row { function, length: 0x20, encoding, ..Row::default() }.write(8);
//! let rows = [row(0, Encoding::frame(0, [0; 5])), row(0x20, Encoding::frameless(2, 0, 0))].concat();
//!
//! /// Answers for the relocations of an object. A key is the number of the object and the offset of the function.
//! struct Object(u32);
//! impl Resolve for Object {
//!     fn function(&mut self, field: Field) -> Option<Key> {
//!         let place = field.target?.0;
//!         let is_dead = (self.0, place) == (1, 0);
//!         (!is_dead).then_some(Key(u64::from(self.0) << 32 | place))
//!     }
//!     fn personality(&mut self, _: Field) -> Option<PersonalityKey> {
//!         None // no row has a personality
//!     }
//!     fn lsda(&mut self, _: Field) -> Option<LsdaKey> {
//!         None
//!     }
//! }
//!
//! // Sizes first ...
//! let mut builder = Builder::new(Arch::Amd64, Options::default())?;
//! for number in 0..2 {
//!     builder.push(&Input::new(number).with_compact_unwind(&rows), &mut Object(number));
//! }
//! let section = builder.finish();
//! // The functions are in the order of their keys, and at most 0x40 bytes apart.
//! let plan = section.plan(|key| Some(ImageOffset(key.0 as u32 | (key.0 >> 25) as u32)), 0x40)?;
//! let mut out = vec![0; plan.max_len()];
//!
//! // ... addresses later, and again after a relayout.
//! struct Output(u32);
//! impl Addresses for Output {
//!     fn function(&self, key: Key) -> Option<ImageOffset> {
//!         Some(ImageOffset(self.0 + 0x20 * (key.0 >> 32) as u32 + key.0 as u32))
//!     }
//!     fn lsda(&self, _: LsdaKey) -> Option<ImageOffset> {
//!         None
//!     }
//!     fn fde(&self, _: Fde) -> Option<u32> {
//!         None
//!     }
//! }
//! for text in [0x400, 0x1000] {
//!     let table = section.place(Some(&plan), None, &Output(text))?;
//!     assert!(table.warnings().is_empty());
//!     table.write(&mut out, |_personality| unreachable!("no row has one"))?;
//!     let read = cfipack_decoder::unwind_info::Section::parse(&out[..table.len()])?;
//!     // One function is dead; the two frameless neighbours are one entry.
//!     let starts: Vec<_> = read.entries().map(|entry| entry.map(|entry| entry.start.0 - text)).collect();
//!     assert_eq!(starts, [Ok(0), Ok(0x20)]);
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Which description counts
//!
//! | | rule |
//! |---|---|
//! | a row with a compact encoding | the row counts; the function's FDE is not needed ([`Section::fdes`]) |
//! | a row in DWARF mode, or no row | the function's FDE counts |
//! | a row in DWARF mode, no FDE | an entry without unwind information, and [`Warning::NoFde`] |
//! | a symbol of [`Builder::push_code`] inside a described function | no entry in layout `Small`; in the layouts of linkers it ends the function's entry |
//! | a dead function ([`Resolve::function`] returns `None`) | no entry |
//! | several objects describe one key | the first object counts |
//! | several keys have one address | the first key that has unwind information and is not empty |
//! | more than three personalities | the table names three. The functions of the personalities that are needed least use their FDEs, or get an entry without unwind information if they have no FDE; [`Warning::PersonalityOverflow`] for each function |
//! | no address ([`Addresses::function`] returns `None`) | no entry, and [`Warning::Unaddressed`] |
//!
//! In layout [`Lld`](crate::encoder::unwind_info::Layout::Lld) the table is byte for byte the table that ld64.lld 23
//! links from the same objects. For this, call [`Builder::push_code`] for each symbol that is defined in code.
//!
//! # Sizes
//!
//! The size of a table depends on the order of its functions. Neighbours with the same unwind information share an
//! entry, and the encodings of a page should be few. So there are two bounds. [`Section::max_len`] holds for every
//! order and all addresses. [`Section::plan`] takes the order, which a linker knows before it knows addresses, and
//! returns the size of the likely table. Reserve that size.
//!
//! # Modules
//! - `builder`, `input`: [`Builder`] takes an [`Input`] per object and asks your [`Resolve`] about its [`Field`]s.
//! - `section`: [`Section`] chooses one description of each function, and plans the size.
//! - `places`: [`Addresses`], your answers once the output is laid out. `table`: [`Table`], which you write.
//! - `range`: code with its description, inside the builder and section. `warning`: [`Warning`].

mod builder;
mod input;
mod places;
mod range;
mod section;
mod table;
mod warning;

pub use builder::Builder;
pub use input::{Fde, Field, Input, Part, Resolve};
pub use places::Addresses;
pub use section::{Plan, Section};
pub use table::Table;
pub use warning::Warning;
