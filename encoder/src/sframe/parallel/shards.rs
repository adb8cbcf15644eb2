//! Adds the functions of a builder to another builder.

use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::Reason;
use crate::sframe::builder::Builder;
use crate::sframe::draft::Draft;
use crate::sframe::parts::for_each;
use crate::sframe::table::block::{Blocks, GROUP};
use crate::sframe::table::chunk::CHUNK;
use crate::sframe::table::entries::Entry;
use crate::sframe::table::hash_index::HashIndex;
use cfipack_format::pool::{Pool, Serial};
use cfipack_format::widen::ToUsize;

/// With fewer blocks, a thread costs more than it saves.
const LEAST_OF_A_THREAD: usize = 1 << 12;

/// The number of a block that this builder does not have.
const NOT_HERE: u32 = u32::MAX;

impl Builder<'_> {
    /// Adds the functions of another builder, as if you had pushed them here one after the other. Their rows
    /// stay as the other builder encoded them. If you build shards on several threads and absorb them in a
    /// fixed order, the bytes are always the same, whatever the pool.
    ///
    /// # Errors
    /// There is no room for the whole shard, the shard is for another architecture or version of the format, or
    /// only one of the builders has functions with addresses ([`Reason::KeysMixed`]). After an error nothing of
    /// the shard was added.
    pub fn absorb(&mut self, shard: Self, pool: &dyn Pool) -> Result<(), Reason> {
        self.draft.absorb(shard.draft, pool)?;
        self.undefined_cfi += shard.undefined_cfi;
        Ok(())
    }
}

impl Draft<'_> {
    /// Adds the functions of another draft.
    fn absorb(&mut self, mut shard: Self, pool: &dyn Pool) -> Result<(), Reason> {
        if shard.abi != self.abi {
            return Err(Reason::Architecture);
        }
        if shard.options.version != self.options.version {
            return Err(Reason::Version);
        }
        if let Some(have_addresses) = shard.entries.have_addresses {
            self.can_take(have_addresses)?;
        }
        self.flush();
        shard.flush();
        if self.entries.blocks.index.is_none() {
            self.append(&shard)?;
        } else {
            self.share(&shard, pool)?;
        }
        let before = self.entries.list.len() - shard.entries.list.len();
        self.entries.num_fres += shard.entries.num_fres;
        self.entries.omitted.extend(shard.entries.omitted);
        self.entries.continued.extend(shard.entries.continued.iter().map(|number| before + number));
        self.entries.refused.extend(shard.entries.refused.iter().map(|number| before + number));
        self.entries.unread |= shard.entries.unread;
        self.entries.have_addresses = self.entries.have_addresses.or(shard.entries.have_addresses);
        Ok(())
    }

    /// Adds the blocks and entries of another draft, if blocks are not shared.
    fn append(&mut self, shard: &Self) -> Result<(), Reason> {
        let first = self.entries.blocks.append(&shard.entries.blocks)?;
        let entries = shard.entries.list.iter();
        self.entries.list.extend(entries.map(|entry| Entry { block: first + entry.block, ..*entry }));
        Ok(())
    }

    /// Adds the entries of another draft, and its new blocks.
    fn share(&mut self, shard: &Self, pool: &dyn Pool) -> Result<(), Reason> {
        let (other, blocks) = (&shard.entries.blocks, &mut self.entries.blocks);
        let hashes = match &other.index {
            Some(index) if other.seed() == blocks.seed() => Cow::Borrowed(index.hashes()),
            _ => {
                let mut bytes = Vec::new();
                let hashes = (0..other.len() as u32).map(|number| {
                    let block = other.block(number);
                    bytes.clear();
                    bytes.extend_from_slice(block);
                    bytes.resize(block.len() + CHUNK, 0);
                    blocks.hash(&bytes, block.len())
                });
                hashes.collect()
            }
        };
        let pool = if other.len() < LEAST_OF_A_THREAD { &Serial } else { pool };
        let mut numbers = vec![NOT_HERE; other.len()];
        // Make several parts for each thread, because some threads start late.
        let part_len = hashes.len().div_ceil(4 * pool.threads().max(1)).max(1);
        let parts = numbers.chunks_mut(part_len).zip(hashes.chunks(part_len)).enumerate().collect();
        for_each(pool, parts, |(part, (numbers, hashes))| {
            find_all(blocks, other, part * part_len, hashes, numbers);
        });
        let new = NewBlocks::add(blocks, other, &mut numbers)?;
        let tasks = Vec::from([
            Task::Bytes(&mut blocks.bytes),
            Task::Entries(blocks.index.as_mut(), &mut self.entries.list),
        ]);
        for_each(pool, tasks, |task| match task {
            Task::Bytes(bytes) => new.copy(other, bytes),
            Task::Entries(index, list) => {
                if let Some(index) = index {
                    for run in &new.runs {
                        let hashes = &hashes[run.start.to_usize()..run.end.to_usize()];
                        hashes.iter().for_each(|&hash| index.push(hash));
                    }
                }
                let entries = shard.entries.list.iter();
                list.extend(entries.map(|entry| Entry { block: numbers[entry.block.to_usize()], ..*entry }));
            }
        });
        Ok(())
    }
}

/// Adding the new blocks' bytes, and adding their hashes and the entries. Both can run at the same time.
enum Task<'t> {
    Bytes(&'t mut Vec<u8>),
    Entries(Option<&'t mut HashIndex>, &'t mut Vec<Entry>),
}

/// For a run of blocks of `other`, finds the numbers of equal blocks in `blocks`. `first` is the number of
/// the run's first block, and `hashes` are the hashes of the run.
fn find_all(blocks: &Blocks<'_>, other: &Blocks<'_>, first: usize, hashes: &[u32], numbers: &mut [u32]) {
    let Some(index) = &blocks.index else { return };
    let groups = numbers.chunks_mut(GROUP).zip(hashes.chunks(GROUP));
    for ((numbers, hashes), first) in groups.zip((first..).step_by(GROUP)) {
        // Most of this memory is not in the processor's caches, and loading it for all blocks together takes
        // hardly longer than for a single block.
        let mut may_have = [false; GROUP];
        may_have.iter_mut().zip(hashes).for_each(|(may_have, hash)| *may_have = index.may_have(*hash));
        let all = numbers.iter_mut().zip(hashes).zip(first..).zip(may_have);
        for (((place, hash), number), _) in all.filter(|(_, may_have)| *may_have) {
            *place = blocks.find_other(*hash, other, number).unwrap_or(NOT_HERE);
        }
    }
}

/// The blocks of another builder that this builder does not have. They differ if that builder shares blocks.
struct NewBlocks {
    /// Runs of block numbers of the other builder.
    runs: Vec<Range<u32>>,
    /// The ranges of the other builder's bytes that are copied.
    pieces: Vec<Range<usize>>,
    /// The offset in this builder's bytes to which the pieces are copied.
    at: usize,
}

impl NewBlocks {
    /// Gives numbers to the new blocks, and adds everything except their bytes and hashes.
    fn add<'a>(blocks: &mut Blocks<'a>, other: &Blocks<'a>, numbers: &mut [u32]) -> Result<Self, Reason> {
        let (mut runs, mut next) = (Vec::new(), 0);
        for run in numbers.chunk_by(|one, two| (*one == NOT_HERE) == (*two == NOT_HERE)) {
            let end = next + run.len() as u32;
            if run[0] == NOT_HERE {
                runs.push(next..end);
            }
            next = end;
        }
        let lens = runs.iter().map(|run| other.end_of(run.end) - other.end_of(run.start));
        if !blocks.has_room(lens.sum()) {
            return Err(Reason::SectionSize);
        }
        let (mut pieces, at) = (Vec::new(), blocks.end);
        for run in &runs {
            let first = blocks.append_places(other, run.clone(), &mut pieces);
            let run = &mut numbers[run.start.to_usize()..run.end.to_usize()];
            run.iter_mut().zip(first..).for_each(|(place, number)| *place = number);
        }
        if !runs.is_empty() {
            blocks.make_room();
        }
        Ok(Self { runs, pieces, at })
    }

    fn copy(&self, other: &Blocks<'_>, bytes: &mut [u8]) {
        let mut at = self.at;
        for piece in &self.pieces {
            bytes[at..at + piece.len()].copy_from_slice(&other.bytes[piece.clone()]);
            at += piece.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use cfipack_format::sframe::Version;
    use cfipack_format::{Address, Arch, Key};

    use crate::Reason;
    use crate::cfi::{Section, SectionKind};
    use crate::eh_frame::{CIE, fde};
    use crate::sframe::{Builder, Options};
    use cfipack_format::pool::Serial;

    /// A section of three functions. The last function has the rows of the first.
    fn section() -> Vec<u8> {
        let mut bytes = CIE.to_vec();
        for (number, instructions) in (0..).zip([*b"\x41\x0e\x10", *b"\x42\x0e\x10", *b"\x41\x0e\x10"]) {
            fde(&mut bytes, 0, 0x1000 + 0x100 * number, 0x100, &instructions);
        }
        bytes
    }

    /// A builder with these functions.
    fn filled(bytes: &[u8], options: Options) -> Builder<'_> {
        let section = Section::new(SectionKind::EhFrame, bytes, Address(0), Arch::Amd64);
        let mut builder = Builder::new(Arch::Amd64, options).unwrap();
        builder.push_all(crate::cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
        builder
    }

    fn options() -> impl Iterator<Item = Options> {
        let versions = [Version::V2, Version::V3].into_iter();
        versions.flat_map(|version| {
            [true, false].map(|share| Options::new().with_version(version).with_share(share))
        })
    }

    /// After a builder has refused a shard, it works as if it had never seen the shard.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_shard_that_there_is_no_room_for() {
        let bytes = section();
        for options in options() {
            let shard = filled(&bytes, options);
            let mut builder = Builder::new(Arch::Amd64, options).unwrap();
            let len = shard.draft.entries.blocks.block(0).len();
            builder.draft.entries.blocks.end += u32::MAX as usize - len;
            assert_eq!(builder.absorb(shard.clone(), &Serial), Err(Reason::SectionSize));
            builder.draft.entries.blocks.end -= u32::MAX as usize - len;
            let mut other = Builder::new(Arch::Amd64, options).unwrap();
            other.absorb(builder, &Serial).unwrap();
            other.absorb(shard.clone(), &Serial).unwrap();
            let [absorbed, pushed] =
                [other, shard].map(|it| it.finish().into_bytes(Address(0), Key::address));
            assert_eq!(absorbed, pushed, "{options:?}");
        }
    }

    /// A builder refuses shards of another version or architecture: the rows would mean something else there.
    #[test]
    fn a_shard_of_another_kind() {
        let bytes = section();
        for options in options() {
            let mut builder = filled(&bytes, options);
            let before = builder.clone().finish().into_bytes(Address(0), Key::address);
            let version = if options.version == Version::V3 { Version::V2 } else { Version::V3 };
            let other = filled(&bytes, Options { version, ..options });
            assert_eq!(builder.absorb(other, &Serial), Err(Reason::Version));
            assert_eq!(
                builder.absorb(Builder::new(Arch::Aarch64, options).unwrap(), &Serial),
                Err(Reason::Architecture)
            );
            assert_eq!(builder.finish().into_bytes(Address(0), Key::address), before);
        }
    }

    /// A builder that shares blocks finds equal blocks in a shard that does not share them.
    #[test]
    fn a_shard_that_shares_nothing() {
        let bytes = section();
        for options in options().filter(|options| options.share) {
            let [mut shared, apart] = [true, false].map(|share| filled(&bytes, Options { share, ..options }));
            let len = shared.draft.entries.blocks.len_in_bytes();
            shared.absorb(apart, &Serial).unwrap();
            assert_eq!(
                (shared.draft.entries.list.len(), shared.draft.entries.blocks.len_in_bytes()),
                (6, len)
            );
        }
    }
}
