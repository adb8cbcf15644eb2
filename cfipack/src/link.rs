//! For linkers: the names that a link needs, in one place.
//!
//! You give a [`Merger`] the `.eh_frame` and `.sframe` of every object. It becomes a [`Section`] whose size is exact before
//! any function has an address. [`Section::write`] encodes the addresses when you know them, and again after a relayout.
//!
//! A [`Key`] identifies a function. You choose the number, here the section in the object and the offset.
//! The page [For linkers](crate::for_linkers) describes keys, dead functions, relocations, pools and relayout.
//!
//! ```
//! use std::collections::HashMap;
//!
//! use cfipack::link::{Address, Arch, Field, Key, Live, Merger, Object, Options, SectionOffset};
//! use object::{File, Object as _, ObjectSection, ObjectSymbol, RelocationTarget};
//!
//! let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/main.o"))?;
//! let file = File::parse(&bytes[..])?;
//! let data = |name| file.section_by_name(name).map_or(Ok(&[][..]), |section| section.data());
//!
//! // The relocations say which function each start field leads to.
//! let mut functions = HashMap::new();
//! for (name, field) in [(".eh_frame", Field::EhFrame as fn(_) -> _), (".sframe", Field::Sframe)] {
//!     for (offset, relocation) in file.section_by_name(name).ok_or(name)?.relocations() {
//!         let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
//!         let symbol = file.symbol_by_index(symbol)?;
//!         let Some(section) = symbol.section_index() else { continue };
//!         let offset_in_section = symbol.address() + relocation.addend() as u64;
//!         let key = Key((section.0 as u64) << 32 | offset_in_section);
//!         functions.insert(field(SectionOffset(offset as usize)), key);
//!     }
//! }
//!
//! let mut merger = Merger::new(Arch::Amd64, Options::new())?;
//! let object = Object::new().with_eh_frame(data(".eh_frame")?).with_sframe(data(".sframe")?);
//! // A field whose function is not in the link has no key: the function is dead, and gets no rows.
//! let live = |field| functions.get(&field).copied().map(Live::new);
//! merger.push_object(&object, live, |note| eprintln!("main.o: {note}"));
//! let section = merger.finish();
//!
//! // You know the size now, and the addresses after the layout.
//! let mut table = vec![0; section.len()];
//! let address_of = |key: Key| Address(0x1000 * (key.0 >> 32) + (key.0 & 0xffff_ffff));
//! section.write(&mut table, Address(0x10_0000), address_of)?;
//! assert_eq!(section.num_fdes(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use cfipack_encoder::sframe::{At, Conflict, Finish, WriteError, Written};
pub use cfipack_format::pool::Pool;
#[cfg(feature = "std")]
pub use cfipack_format::pool::Threads;
pub use cfipack_format::{Address, Arch, Key, SectionOffset};
pub use cfipack_linker::sframe::{Field, Live, Merger, Note, Object, Options, Prefer, Section};
