//! Adds the functions of shards to a table, on the threads of a pool.
//!
//! The result is as if the functions had been pushed to the table one after the other. Equal blocks have equal
//! hashes, so blocks are divided by their hashes into partitions that know nothing of each other. Each step is
//! done for all shards or all partitions at the same time:
//!
//! 1. Each shard [divides](divide) its blocks.
//! 2. Each partition finds equal blocks. The first one in the order of shards [stands](settle) for all.
//! 3. Each shard keeps the bytes of blocks that stand for themselves, in its memory, until the section is written. The
//!    numbers of the other blocks stay unused, so each entry knows the number of its block at once.

use alloc::vec;
use alloc::vec::Vec;
use core::iter;
use core::ops::Range;

use cfipack_format::pool::{Pool, map};
use cfipack_format::widen::ToUsize;

use crate::Reason;
use crate::sframe::table::block::Blocks;
use crate::sframe::table::entries::Entries;
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

impl<'a> Entries<'a> {
    /// Adds the functions of shards. Nothing is added if there is no room for all of them.
    pub(super) fn combine(&mut self, mut shards: Vec<Entries<'a>>, pool: &dyn Pool) -> Result<(), Reason> {
        let firsts = firsts(&self.blocks, &shards)?;
        let mut members = divide(&self.blocks, &mut shards, pool);
        settle(&self.blocks, &shards, &firsts, &mut members, pool);
        let members = members.into_iter().skip(1).map(Some).chain(iter::repeat_with(|| None));
        let parts = shards.into_iter().zip(&firsts[1..]).zip(members).collect();
        let settled = map(pool, parts, |((mut shard, &first), members): ((Entries<'a>, _), _)| {
            let places = members.map(|members| places(shard.blocks.len(), members));
            let runs = runs(shard.blocks.len(), first, places.as_deref());
            let pieces = shard.blocks.keep(&runs);
            for entry in &mut shard.list {
                let number = entry.block.to_usize();
                entry.block = places.as_ref().map_or(first + entry.block, |places| places[number]);
            }
            (shard, pieces)
        });
        let (mut shards, mut all_bytes) = (Vec::new(), Vec::new());
        let mut at = self.blocks.len_in_bytes();
        for (shard, bytes) in settled {
            let len = bytes.len();
            shards.push(shard);
            all_bytes.push((at, bytes));
            at += len;
        }
        if u32::try_from(at).is_err() {
            return Err(Reason::SectionSize);
        }
        let blocks: Vec<_> = shards.iter().map(|shard| &shard.blocks).collect();
        self.blocks.append(pool, &blocks, all_bytes);
        self.list.reserve_exact(shards.iter().map(|shard| shard.list.len()).sum());
        for shard in shards {
            let entries = self.list.len();
            self.continued.extend(shard.continued.iter().map(|number| entries + number));
            self.refused.extend(shard.refused.iter().map(|number| entries + number));
            self.list.extend_from_slice(&shard.list);
        }
        Ok(())
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

/// Returns, for each of a shard's blocks, the place of the block that stands for it.
fn places(blocks: usize, members: Grouped<Member>) -> Vec<u32> {
    let mut places = vec![0; blocks];
    for Member { number, place } in members.items {
        places[number.to_usize()] = place;
    }
    places
}

/// Returns the numbers of the blocks that stand for themselves: all blocks without `places`. There are `first` blocks
/// before the shard.
fn runs(blocks: usize, first: u32, places: Option<&[u32]>) -> Vec<Range<u32>> {
    let Some(places) = places else { return iter::once(0..blocks as u32).collect() };
    let mut runs = Vec::<Range<u32>>::new();
    for (&place, number) in places.iter().zip(0..) {
        if place != first + number {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == number => run.end += 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}
