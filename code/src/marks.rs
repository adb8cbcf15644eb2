//! Numbered marks in a sequence of places, for example at the offsets where instructions start.

/// Marks, which are numbered in ascending order. A mark takes a bit, and 64 places take a number.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// For each 64 places: a bit for each mark, and the number of earlier marks.
    chunks: Vec<(u64, u32)>,
}

impl Marks {
    /// Makes room for marks at `len` places.
    pub fn new(len: usize) -> Self {
        Self { chunks: vec![(0, 0); len.div_ceil(64)] }
    }

    /// Removes all marks, and makes room for marks at `len` places.
    pub fn clear(&mut self, len: usize) {
        self.chunks.clear();
        self.chunks.resize(len.div_ceil(64), (0, 0));
    }

    /// Marks a place. [`count`](Self::count) gives the mark a number.
    #[inline]
    pub fn mark(&mut self, place: usize) {
        self.chunks[place / 64].0 |= 1 << (place % 64);
    }

    /// Numbers the marks, and returns how many there are. If there are more than `most`, it removes some of the last ones.
    pub fn count(&mut self, most: usize) -> usize {
        let mut count = 0;
        for (bits, before) in &mut self.chunks {
            if (count + bits.count_ones()) as usize > most {
                *bits = 0;
            }
            *before = count;
            count += bits.count_ones();
        }
        count as usize
    }

    /// Returns whether a place has a mark.
    pub fn contains(&self, place: usize) -> bool {
        self.chunks[place / 64].0 & 1 << (place % 64) != 0
    }

    /// Returns the number of the mark at a place.
    #[inline]
    pub fn number(&self, place: usize) -> Option<usize> {
        let (bits, before) = self.chunks.get(place / 64)?;
        let bit = 1_u64 << (place % 64);
        (bits & bit != 0).then(|| *before as usize + (bits & (bit - 1)).count_ones() as usize)
    }

    /// Returns the number of the last mark at a place or before it.
    pub fn number_around(&self, place: usize) -> Option<usize> {
        let (bits, before) = self.chunks.get(place / 64)?;
        let up_to = bits & u64::MAX >> (63 - place % 64);
        ((before + up_to.count_ones()) as usize).checked_sub(1)
    }

    /// Returns the place of the mark with a number, which must exist.
    pub fn place(&self, number: usize) -> usize {
        let chunk = self.chunks.partition_point(|(_, before)| *before as usize <= number) - 1;
        let (mut bits, before) = self.chunks[chunk];
        for _ in before as usize..number {
            bits &= bits - 1;
        }
        64 * chunk + bits.trailing_zeros() as usize
    }

    /// Returns the places of all marks, ascending.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let all = self.chunks.iter().enumerate();
        all.flat_map(|(chunk, (bits, _))| indexes(*bits).map(move |bit| 64 * chunk + usize::from(bit)))
    }

    /// Returns the number of the first mark, from a place on, at a place whose bit in `others` is not set.
    pub fn next_without(&self, place: usize, others: &[u64]) -> Option<usize> {
        let mut following = u64::MAX << (place % 64);
        for (chunk, others) in others.iter().enumerate().skip(place / 64) {
            let (bits, before) = self.chunks[chunk];
            let found = bits & !others & following;
            if found != 0 {
                let preceding = (1 << found.trailing_zeros()) - 1;
                return Some(before as usize + (bits & preceding).count_ones() as usize);
            }
            following = u64::MAX;
        }
        None
    }
}

/// Iterates over the numbers of the bits that are set, ascending.
#[inline]
pub(crate) fn indexes(mut bits: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let index = (bits != 0).then(|| bits.trailing_zeros() as u8)?;
        bits &= bits - 1;
        Some(index)
    })
}
