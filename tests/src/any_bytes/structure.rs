//! Checks for two files of any bytes whether one is the other with a table. There is no panic, not even where embedding
//! has added the table. The check may refuse an odd file even then, and the file stays as it is.

use cfipack_container::File;
use cfipack_edit::Embedding;
use cfipack_roundtrip::structure::check_structure;

/// Splits the input into two files and compares them.
pub fn structure(input: &[u8]) {
    // The place where the second file starts, in 65536ths of the input.
    let Some((cut, files)) = input.split_first_chunk() else { return };
    let cut = files.len() * usize::from(u16::from_le_bytes(*cut)) / 0x1_0000;
    let (old, new) = files.split_at(cut);
    let _ = check_structure(old, new);
    let _ = check_structure(old, old);
    let Ok(file) = File::parse(old) else { return };
    let Ok(embedding) = Embedding::of(&file, 100) else { return };
    let big = old[5] == 2;
    let mut table = vec![1; 100];
    table[..2].copy_from_slice(if big { &[0xde, 0xe2] } else { &[0xe2, 0xde] });
    let embedded = embedding.rewrite(table).to_vec(old);
    let _ = check_structure(old, &embedded);
}
