//! Reads byte strings of any length without a loop, because no processor could predict its end.

/// Bytes that are read at once.
pub(crate) const CHUNK: usize = 64;
/// The size of a chunk in words.
pub(crate) const WORDS: usize = CHUNK / 8;

/// Returns the first `len` bytes, at most [`CHUNK`], with zeros after them.
#[inline(always)]
pub(crate) fn words(bytes: &[u8; CHUNK], len: usize) -> [u64; WORDS] {
    let (chunks, _) = bytes.as_chunks::<8>();
    let mut words = [0; WORDS];
    for ((word, chunk), mask) in words.iter_mut().zip(chunks).zip(mask(len)) {
        *word = u64::from_le_bytes(*chunk) & mask;
    }
    words
}

/// The mask that leaves the first `len` bytes.
#[inline(always)]
fn mask(len: usize) -> &'static [u64; WORDS] {
    &MASKS[len.min(CHUNK)]
}

static MASKS: [[u64; WORDS]; CHUNK + 1] = {
    let mut masks = [[0; WORDS]; CHUNK + 1];
    let mut len = 0;
    while len < masks.len() {
        let mut byte = 0;
        while byte < len {
            masks[len][byte / 8] |= 0xff << (byte % 8 * 8);
            byte += 1;
        }
        len += 1;
    }
    masks
};

/// Mixes words into a hash. For each word, a key that depends on the word's place is added to both halves,
/// and the halves are multiplied (NH of Black and others, UMAC, 1999). Vectors do several words at once.
#[inline(always)]
pub(crate) fn mix(seed: u64, words: &[u64; WORDS]) -> u64 {
    const ODD: [u64; WORDS] = [
        0x9e37_79b9_7f4a_7c15,
        0xff51_afd7_ed55_8ccd,
        0xc4ce_b9fe_1a85_ec53,
        0x8764_8a3b_d9a3_3d4f,
        0xbf58_476d_1ce4_e5b9,
        0x94d0_49bb_1331_11eb,
        0xd6e8_feb8_6659_fd93,
        0xa076_1d64_78bd_642f,
    ];
    let mut sums = [0u64; 2];
    for (n, (word, odd)) in words.iter().zip(&ODD).enumerate() {
        let key = odd ^ seed;
        let low = (*word as u32).wrapping_add(key as u32);
        let high = ((*word >> 32) as u32).wrapping_add((key >> 32) as u32);
        sums[n % 2] = sums[n % 2].wrapping_add(u64::from(low) * u64::from(high));
    }
    let product = u128::from(sums[0] ^ ODD[0]) * u128::from(sums[1] ^ ODD[1]);
    product as u64 ^ (product >> 64) as u64
}
