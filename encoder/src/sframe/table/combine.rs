//! Adds the functions of shards to a table, on the threads of a pool.
//!
//! The result is as if the functions had been pushed to the table one after the other. Equal blocks have equal
//! hashes, so blocks are divided by their hashes into partitions that know nothing of each other. Each step is
//! done for all shards or all partitions at the same time:
//!
//! 1. Each shard [divides](divide) its blocks.
//! 2. Each partition finds equal blocks. The first one in the order of shards [stands](settle) for all.
//! 3. Each shard finds its [new blocks](NewBlocks), which stand for themselves.
//! 4. Once all shards know how many blocks and bytes are before them, each shard [copies](Copying) its new blocks
//!    and its entries.

use alloc::vec::Vec;
use core::iter;
use core::ops::Range;

use cfipack_format::pool::{Pool, map};
use cfipack_format::sframe::Header;
use cfipack_format::widen::ToUsize;

use crate::Reason;
use crate::sframe::table::block::{Blocks, NewPlaces};
use crate::sframe::table::entries::{Entries, Entry};
use crate::sframe::table::grouped::Grouped;
use crate::sframe::table::hash_index::HashIndex;
use crate::sframe::table::pieces::{Pieces, Place};

/// A block of a partition.
#[derive(Clone, Copy, Default, Debug)]
struct Member {
    /// The number of the block in its shard.
    number: u32,
    /// First the hash of the block, then the place of the block that stands for it. A place is the number of
    /// blocks in all shards before, plus the number of the block in its shard.
    place: u32,
}

/// The blocks of a shard that no shard before has.
struct NewBlocks<'a> {
    /// For a new block: the number of new blocks of the shard before it. For any other block: the place of the
    /// block that stands for it.
    places: Vec<u32>,
    /// The numbers of the new blocks.
    runs: Vec<Range<u32>>,
    /// The number of new blocks.
    count: usize,
    /// The parts of the shard's bytes that the new blocks take.
    own: Vec<Range<usize>>,
    /// The bytes of `own`.
    own_len: usize,
    /// The new blocks in a caller's memory.
    pieces: Pieces<'a>,
}

/// The work of copying a shard, with the memory to which it is copied.
struct Copying<'c, 'a> {
    shard: Entries<'a>,
    number: usize,
    /// The offset of the shard's first new block.
    at: usize,
    blocks: NewPlaces<'c>,
    list: &'c mut [Entry],
}

/// The shards, as each of them sees the others.
struct All<'s, 'a> {
    /// The number of blocks before each shard. The table itself is the first shard.
    firsts: &'s [u32],
    new: &'s [NewBlocks<'a>],
    /// The number of the first new block of each shard.
    numbers: Vec<u32>,
}

impl<'a> Entries<'a> {
    /// Adds the functions of shards. Nothing is added if there is no room for all of them.
    pub(super) fn combine(&mut self, mut shards: Vec<Entries<'a>>, pool: &dyn Pool) -> Result<(), Reason> {
        let firsts = firsts(&self.blocks, &shards)?;
        let mut members = divide(&self.blocks, &mut shards, pool);
        settle(&self.blocks, &shards, &firsts, &mut members, pool);
        let members = members.into_iter().skip(1).map(Some).chain(iter::repeat_with(|| None));
        let parts = shards.iter().zip(&firsts[1..]).zip(members).collect();
        let new =
            map(pool, parts, |((shard, &first), members)| NewBlocks::find(&shard.blocks, first, members));
        if !self.blocks.has_room(new.iter().map(NewBlocks::len).sum()) {
            return Err(Reason::SectionSize);
        }
        self.copy(shards, &firsts, &new, pool);
        Ok(())
    }

    /// Adds the new blocks and the entries of shards.
    fn copy(&mut self, shards: Vec<Entries<'a>>, firsts: &[u32], new: &[NewBlocks<'a>], pool: &dyn Pool) {
        let (old_blocks, old_entries) = (self.blocks.len(), self.list.len());
        let (mut blocks, mut entries) = (old_blocks, old_entries);
        let mut numbers = Vec::with_capacity(new.len());
        for (new, shard) in new.iter().zip(&shards) {
            numbers.push(blocks as u32);
            blocks += new.count;
            self.continued.extend(shard.continued.iter().map(|number| entries + number));
            self.refused.extend(shard.refused.iter().map(|number| entries + number));
            entries += shard.list.len();
        }
        self.list.reserve_exact(entries - old_entries);
        self.list.resize(entries, Entry::default());
        let front = Header::SIZE + entries * self.blocks.version().fde_size();
        let front = if self.has_room_for_index { front } else { 0 };
        let mut at = self.blocks.len_in_bytes();
        let own = new.iter().map(|new| new.own_len).sum();
        let mut room = self.blocks.extend(blocks - old_blocks, own, front);
        let mut list = &mut self.list[old_entries..];
        let (mut parts, mut pieces) = (Vec::with_capacity(new.len()), Vec::with_capacity(new.len()));
        for ((number, shard), new) in shards.into_iter().enumerate().zip(new) {
            let blocks = room.split(new.count, new.own_len);
            let list = list.split_off_mut(..shard.list.len()).unwrap_or_default();
            parts.push(Copying { shard, number, at, blocks, list });
            pieces.push((at, &new.pieces));
            at += new.len();
        }
        let all = All { firsts, new, numbers };
        map(pool, parts, |copy| copy.run(&all));
        self.blocks.append_pieces(pool, &pieces);
    }
}

/// Returns the number of blocks before each shard. The table itself is the first shard.
fn firsts(blocks: &Blocks<'_>, shards: &[Entries<'_>]) -> Result<Vec<u32>, Reason> {
    let counts = [blocks.len()].into_iter().chain(shards.iter().map(|shard| shard.blocks.len()));
    let mut sum = 0u32;
    let mut firsts = Vec::from([0]);
    for count in counts {
        let count = u32::try_from(count).map_err(|_| Reason::SectionSize)?;
        sum = sum.checked_add(count).ok_or(Reason::SectionSize)?;
        firsts.push(sum);
    }
    firsts.pop();
    Ok(firsts)
}

/// The number of partitions for each thread, so that all threads end at about the same time.
const PARTITIONS_OF_A_THREAD: usize = 8;

/// Divides the blocks of all shards into partitions. Returns none if blocks are not shared.
fn divide(blocks: &Blocks<'_>, shards: &mut [Entries<'_>], pool: &dyn Pool) -> Vec<Grouped<Member>> {
    if blocks.index.is_none() {
        return Vec::new();
    }
    let bits = (pool.threads().clamp(1, 64) * PARTITIONS_OF_A_THREAD).next_power_of_two().ilog2();
    let members = |blocks: &Blocks<'_>| {
        let members = blocks.hashes().iter().zip(0..);
        let members =
            members.map(|(&hash, number)| ((hash >> (32 - bits)).to_usize(), Member { number, place: hash }));
        Grouped::new(1 << bits, members)
    };
    let parts: Vec<_> = [None].into_iter().chain(shards.iter_mut().map(Some)).collect();
    map(pool, parts, |shard| match shard {
        None => members(blocks),
        Some(shard) => {
            shard.blocks.end_lookups(blocks.seed());
            members(&shard.blocks)
        }
    })
}

/// Finds, in each partition, the first of equal blocks.
fn settle(
    blocks: &Blocks<'_>,
    shards: &[Entries<'_>],
    firsts: &[u32],
    members: &mut [Grouped<Member>],
    pool: &dyn Pool,
) {
    let all: Vec<_> = [blocks].into_iter().chain(shards.iter().map(|shard| &shard.blocks)).collect();
    let mut partitions: Vec<Vec<(usize, &mut [Member])>> = Vec::new();
    for (shard, of_shard) in members.iter_mut().enumerate() {
        for (partition, members) in of_shard.groups().enumerate() {
            if shard == 0 {
                partitions.push(Vec::with_capacity(all.len()));
            }
            partitions[partition].push((shard, members));
        }
    }
    map(pool, partitions, |partition| {
        let count = partition.iter().map(|(_, members)| members.len()).sum();
        let (mut index, mut found) = (HashIndex::new(), Vec::<(usize, Member)>::with_capacity(count));
        index.reserve(count);
        for (shard, members) in partition {
            for member in members {
                let known = index.find(member.place, |known| {
                    let (other, Member { number, .. }) = found[known.to_usize()];
                    all[other].equals(number, all[shard], member.number)
                });
                let hash = member.place;
                member.place =
                    known.map_or(firsts[shard] + member.number, |known| found[known.to_usize()].1.place);
                if known.is_none() {
                    index.push(hash);
                    found.push((shard, *member));
                }
            }
        }
    });
}

impl<'a> NewBlocks<'a> {
    /// Finds the new blocks of a shard. There are `first` blocks before it.
    fn find(blocks: &Blocks<'a>, first: u32, members: Option<Grouped<Member>>) -> Self {
        let mut places: Vec<_> = (first..).take(blocks.len()).collect();
        for Member { number, place } in members.into_iter().flat_map(|members| members.items) {
            places[number.to_usize()] = place;
        }
        let (mut runs, mut count) = (Vec::<Range<u32>>::new(), 0);
        for (place, number) in places.iter_mut().zip(0..).filter(|(place, number)| **place == first + number)
        {
            *place = count;
            count += 1;
            match runs.last_mut() {
                Some(run) if run.end == number => run.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        let mut new = Self {
            places,
            runs,
            count: count.to_usize(),
            own: Vec::new(),
            own_len: 0,
            pieces: Pieces::default(),
        };
        for run in &new.runs {
            blocks.for_each_part(run.clone(), |len, place| match place {
                Place::Own(range) => {
                    new.own_len += len;
                    match new.own.last_mut() {
                        Some(last) if last.end == range => last.end += len,
                        _ => new.own.push(range..range + len),
                    }
                }
                Place::Lent(memory, range) => {
                    new.pieces.push((new.own_len + new.pieces.len()) as u32, memory, range);
                }
            });
        }
        new
    }

    /// Bytes of the new blocks.
    fn len(&self) -> usize {
        self.own_len + self.pieces.len()
    }
}

impl All<'_, '_> {
    /// Returns the number of the new block at a place.
    fn number(&self, place: u32) -> u32 {
        let shard = self.firsts.partition_point(|&first| first <= place) - 1;
        let in_shard = place - self.firsts[shard];
        // All blocks of the table itself keep their numbers.
        let Some(shard) = shard.checked_sub(1) else { return in_shard };
        self.numbers[shard] + self.new[shard].places[in_shard.to_usize()]
    }

    /// Returns the numbers that the blocks of a shard get.
    fn numbers_of(&self, shard: usize) -> Vec<u32> {
        let (NewBlocks { places, runs, .. }, first) = (&self.new[shard], self.numbers[shard]);
        let mut numbers = Vec::with_capacity(places.len());
        let end = places.len() as u32;
        for run in runs.iter().cloned().chain(iter::once(end..end)) {
            let others = &places[numbers.len()..run.start.to_usize()];
            numbers.extend(others.iter().map(|&place| self.number(place)));
            numbers.extend(run.map(|number| first + places[number.to_usize()]));
        }
        numbers
    }
}

impl Copying<'_, '_> {
    fn run(self, all: &All<'_, '_>) {
        let Self { shard, number, at, blocks, list } = self;
        let numbers = all.numbers_of(number);
        for (slot, entry) in list.iter_mut().zip(&shard.list) {
            *slot = Entry { block: numbers[entry.block.to_usize()], ..*entry };
        }
        let NewBlocks { runs, own, .. } = &all.new[number];
        blocks.fill(&shard.blocks, at as u32, runs, own);
    }
}
