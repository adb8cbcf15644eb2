//! Adds the functions of shards to a table, on the threads of a pool.
//!
//! The result is as if the functions had been pushed to the table one after the other. Equal blocks have equal
//! hashes, so blocks are divided by their hashes into partitions that know nothing of each other. Each step is
//! done for all shards or all partitions at the same time:
//!
//! 1. Each shard [divides](divide) its blocks.
//! 2. Each partition finds equal blocks. The first one in the order of shards [stands](settle) for all.
//! 3. Each shard keeps its [new blocks](NewBlocks), which stand for themselves. Their bytes stay in the shard's
//!    memory until the section is written.
//! 4. Once all shards know how many blocks are before them, each shard copies its entries.

use alloc::vec;
use alloc::vec::Vec;
use core::iter;
use core::ops::Range;

use cfipack_format::pool::{Pool, map};
use cfipack_format::widen::ToUsize;

use crate::Reason;
use crate::sframe::table::block::Blocks;
use crate::sframe::table::entries::{Entries, Entry};
use crate::sframe::table::grouped::Grouped;
use crate::sframe::table::hash_index::HashIndex;

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
struct NewBlocks {
    /// For a new block: the number of new blocks of the shard before it. For any other block: the place of the
    /// block that stands for it. Empty if blocks are not shared.
    places: Vec<u32>,
    /// The numbers of the new blocks.
    runs: Vec<Range<u32>>,
}

/// The shards, as each of them sees the others.
struct All<'s> {
    /// The number of blocks before each shard. The table itself is the first shard.
    firsts: &'s [u32],
    new: &'s [NewBlocks],
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
        let parts = shards.into_iter().zip(&firsts[1..]).zip(members).collect();
        let settled = map(pool, parts, |((mut shard, &first), members): ((Entries<'a>, _), _)| {
            let new = NewBlocks::find(shard.blocks.len(), first, members);
            let pieces = shard.blocks.keep(&new.runs);
            (shard, new, pieces)
        });
        let (mut shards, mut new, mut all_bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = self.blocks.len_in_bytes();
        for (shard, of_shard, bytes) in settled {
            let len = bytes.len();
            shards.push(shard);
            new.push(of_shard);
            all_bytes.push((at, bytes));
            at += len;
        }
        if u32::try_from(at).is_err() {
            return Err(Reason::SectionSize);
        }
        let blocks: Vec<_> = shards.iter().map(|shard| &shard.blocks).collect();
        let numbers = blocks.iter().scan(self.blocks.len(), |next, blocks| {
            let number = *next as u32;
            *next += blocks.len();
            Some(number)
        });
        let all = All { firsts: &firsts, new: &new, numbers: numbers.collect() };
        self.blocks.append(pool, &blocks, all_bytes);
        self.copy(shards, &all, pool);
        Ok(())
    }

    /// Adds the entries of shards.
    fn copy(&mut self, shards: Vec<Entries<'a>>, all: &All<'_>, pool: &dyn Pool) {
        let old = self.list.len();
        let mut entries = old;
        for shard in &shards {
            self.continued.extend(shard.continued.iter().map(|number| entries + number));
            self.refused.extend(shard.refused.iter().map(|number| entries + number));
            entries += shard.list.len();
        }
        self.list.reserve_exact(entries - old);
        self.list.resize(entries, Entry::default());
        let mut list = &mut self.list[old..];
        let parts = shards.into_iter().enumerate().map(|(number, shard)| {
            (number, list.split_off_mut(..shard.list.len()).unwrap_or_default(), shard.list)
        });
        map(pool, parts.collect(), |(shard, slots, list)| {
            let numbers = all.numbers_of(shard);
            for (slot, entry) in slots.iter_mut().zip(&list) {
                *slot = Entry { block: numbers[entry.block.to_usize()], ..*entry };
            }
        });
    }
}

/// Returns the number of blocks before each shard. The table itself is the first shard.
fn firsts(blocks: &Blocks<'_>, shards: &[Entries<'_>]) -> Result<Vec<u32>, Reason> {
    let (mut firsts, mut sum) = (Vec::from([0]), blocks.len());
    for shard in shards {
        firsts.push(u32::try_from(sum).map_err(|_| Reason::SectionSize)?);
        sum += shard.blocks.len();
    }
    u32::try_from(sum).map_err(|_| Reason::SectionSize)?;
    Ok(firsts)
}

/// The number of partitions for each thread, so that all threads end at about the same time.
const PARTITIONS_OF_A_THREAD: usize = 4;

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
        let (mut index, mut found) =
            (HashIndex::with_room(count), Vec::<(usize, Member)>::with_capacity(count));
        for (shard, members) in partition {
            let (blocks, first) = (all[shard], firsts[shard]);
            for member in members {
                let known = index.find_or_add(member.place, found.len() as u32, |known| {
                    let (other, Member { number, .. }) = found[known.to_usize()];
                    all[other].equals(number, blocks, member.number)
                });
                match known {
                    Some(known) => member.place = found[known.to_usize()].1.place,
                    None => {
                        member.place = first + member.number;
                        found.push((shard, *member));
                    }
                }
            }
        }
    });
}

impl NewBlocks {
    /// Finds the new blocks of a shard with some blocks. There are `first` blocks before it.
    fn find(blocks: usize, first: u32, members: Option<Grouped<Member>>) -> Self {
        let Some(members) = members else {
            return Self { places: Vec::new(), runs: iter::once(0..blocks as u32).collect() };
        };
        let mut places = vec![0; blocks];
        for Member { number, place } in members.items {
            places[number.to_usize()] = place;
        }
        let (mut runs, mut count) = (Vec::<Range<u32>>::new(), 0);
        for (place, number) in places.iter_mut().zip(0..) {
            if *place != first + number {
                continue;
            }
            *place = count;
            count += 1;
            match runs.last_mut() {
                Some(run) if run.end == number => run.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        Self { places, runs }
    }
}

impl All<'_> {
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
        let (NewBlocks { places, runs }, mut next) = (&self.new[shard], self.numbers[shard]);
        let mut numbers = Vec::with_capacity(places.len());
        let end = places.len() as u32;
        for run in runs.iter().cloned().chain(iter::once(end..end)) {
            let others = places.get(numbers.len()..run.start.to_usize()).unwrap_or_default();
            numbers.extend(others.iter().map(|&place| self.number(place)));
            let after = next + run.len() as u32;
            numbers.extend(next..after);
            next = after;
        }
        numbers
    }
}
