//! Makes linked ELF files for x86-64, for tables to be embedded in.

use super::{Input, Shape};

/// Shapes of linked files.
pub const LINKED: &[Shape] = &[
    ("notes after the program headers, in segments that overlap", |n| {
        let mut file = Linked::new(n as u64 + 2);
        let first = file.bytes.len() as u64;
        for number in 0..n as u64 {
            let offset = file.bytes.len() as u64;
            file.bytes.extend([4_u32, 16, 1].map(u32::to_le_bytes).as_flattened());
            file.bytes.extend(b"GNU\0");
            file.bytes.extend([0; 16]);
            file.sections.push([7, 2, offset, offset, 32]);
            let size = if number + 1 < n as u64 { 64 } else { 32 };
            file.segments.push([4, 4, offset, offset, size]);
        }
        file.table(first);
        file.finish()
    }),
    ("segments that can only be read", |n| {
        let mut file = Linked::new(n as u64 + 2);
        let offset = file.bytes.len() as u64;
        file.bytes.extend([7; 64]);
        file.sections.push([1, 2, offset, offset, 64]);
        for number in 1..=n as u64 {
            file.segments.push([1, 4, offset, offset + (number << 20), 64]);
        }
        file.table(offset + ((n as u64) << 20));
        file.finish()
    }),
    ("dynamic relocations of many sections in one place", |n| {
        let mut file = Linked::new(2);
        let offset = file.bytes.len() as u64;
        file.bytes.extend(vec![0; 24 * n]);
        for _ in 0..n {
            file.sections.push([4, 2, offset, offset, 24 * n as u64]);
            file.sections.push([11, 2, offset, offset, 24 * n as u64]);
        }
        file.table(offset);
        file.finish()
    }),
];

/// A shared library under construction.
struct Linked {
    /// The file from its start, with room for the program headers.
    bytes: Vec<u8>,
    /// Type, flags, offset, address and size of each segment.
    segments: Vec<[u64; 5]>,
    sections: Vec<[u64; 5]>,
}

impl Linked {
    /// Starts a library with room for some program headers. One segment has everything before its section headers.
    fn new(segments: u64) -> Self {
        Self { bytes: vec![0; 64 + 56 * segments as usize], segments: Vec::new(), sections: vec![[0; 5]] }
    }

    /// Makes the last bytes a table at an address.
    fn table(&mut self, address: u64) {
        let offset = self.bytes.len() as u64 - 8;
        self.sections.push([0x6fff_fff4, 2, offset, address, 8]);
        self.segments.push([0x6474_e554, 4, offset, address, 8]);
    }

    fn finish(mut self) -> Input {
        let len = self.bytes.len() as u64;
        self.segments.insert(0, [1, 4, 0, 0, len]);
        for (index, [kind, flags, offset, address, size]) in self.segments.iter().enumerate() {
            let words = [offset, address, address, size, size, &0x1000].map(|word| word.to_le_bytes());
            let header =
                [[*kind as u32, *flags as u32].map(u32::to_le_bytes).as_flattened(), words.as_flattened()]
                    .concat();
            self.bytes[64 + 56 * index..][..56].copy_from_slice(&header);
        }
        for [kind, flags, offset, address, size] in &self.sections {
            self.bytes.extend([0, *kind as u32].map(u32::to_le_bytes).as_flattened());
            self.bytes.extend(
                [flags, address, offset, size, &0, &8, &0].map(|word| word.to_le_bytes()).as_flattened(),
            );
        }
        let (segments, sections) = (self.segments.len() as u16, self.sections.len() as u16);
        let bytes = &mut self.bytes;
        bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        bytes[16..20].copy_from_slice([3_u16, 62].map(u16::to_le_bytes).as_flattened());
        bytes[20] = 1;
        bytes[32..48].copy_from_slice([64, len].map(u64::to_le_bytes).as_flattened());
        bytes[52..64]
            .copy_from_slice([64, 56, segments, 64, sections, 0].map(u16::to_le_bytes).as_flattened());
        Input::File(self.bytes)
    }
}
