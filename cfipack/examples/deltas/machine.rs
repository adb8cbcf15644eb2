//! The data that the profiler loads into the kernel: deltas and a palette for all files, and the pages of each file.

use std::collections::HashMap;

use crate::deltas::Delta;
use crate::palette::Palette;

/// The number of addresses in a page. Inside a page, a delta needs only the low 16 bits.
const PAGE: u64 = 1 << 16;

/// The bytes of a delta: 16 bits of the address, and the number of the rule.
const DELTA: usize = 4;

/// The bytes of a page: the place of its first delta, the number of deltas, and the rule before the first delta.
const PAGE_LEN: usize = 8;

/// The bytes of a rule: the kinds and registers of three rules, and three offsets.
const RULE: usize = 16;

/// The data that all files share.
pub struct Machine {
    pub palette: Palette,
    deltas: Vec<(u16, u16)>,
    /// The place of each block of deltas.
    blocks: HashMap<Vec<(u16, u16)>, u32>,
    pages: usize,
}

/// The pages of a file.
pub struct Image {
    first_page: u64,
    pages: Vec<Page>,
    /// The number of bytes that the file has added.
    pub new_bytes: usize,
    /// The number of pages with a block that an earlier page has too.
    pub shared: usize,
}

/// The place of a page's deltas, and the rule before the first delta.
#[derive(Clone, Copy)]
struct Page {
    first: u32,
    len: u16,
    before: u16,
}

impl Machine {
    pub fn new() -> Self {
        Self { palette: Palette::new(), deltas: Vec::new(), blocks: HashMap::new(), pages: 0 }
    }

    /// Loads a file's deltas.
    pub fn load(&mut self, deltas: &[Delta]) -> Result<Image, String> {
        let first_page = deltas.first().map_or(0, |delta| delta.address / PAGE);
        let mut image = Image { first_page, pages: Vec::new(), new_bytes: 0, shared: 0 };
        let mut before = Palette::NO_ROW;
        for block in deltas.chunk_by(|delta, next| delta.address / PAGE == next.address / PAGE) {
            // The pages between two blocks have a single rule, the last rule of the block before them.
            let index = block[0].address / PAGE - first_page;
            let skipped = usize::try_from(index).map_err(|_| "addresses that are far apart")?;
            if skipped - image.pages.len() > deltas.len() {
                return Err("addresses that are far apart".into());
            }
            image.pages.resize(skipped, Page { first: 0, len: 0, before });
            let low: Vec<_> = block.iter().map(|delta| (delta.address as u16, delta.rule)).collect();
            let len = u16::try_from(low.len()).map_err(|_| "a delta at each address of a page")?;
            let first = self.block(low, &mut image)?;
            image.pages.push(Page { first, len, before });
            before = block[block.len() - 1].rule;
        }
        image.new_bytes += image.pages.len() * PAGE_LEN;
        self.pages += image.pages.len();
        Ok(image)
    }

    /// Returns the place of a block. Adds the block if no page has it yet.
    fn block(&mut self, block: Vec<(u16, u16)>, image: &mut Image) -> Result<u32, String> {
        if let Some(first) = self.blocks.get(&block) {
            image.shared += 1;
            return Ok(*first);
        }
        let first =
            u32::try_from(self.deltas.len()).map_err(|_| "more than 4294967295 deltas".to_string())?;
        self.deltas.extend_from_slice(&block);
        image.new_bytes += block.len() * DELTA;
        self.blocks.insert(block, first);
        Ok(first)
    }

    /// Returns the number of the rule for an address of a file. An eBPF program does the same in at most 16
    /// steps. Each step is a single access, and the verifier can bound its index.
    pub fn lookup(&self, image: &Image, address: u64) -> u16 {
        let index =
            (address / PAGE).checked_sub(image.first_page).and_then(|index| usize::try_from(index).ok());
        let Some(page) = index.and_then(|index| image.pages.get(index)) else { return Palette::NO_ROW };
        let (mut least, mut most) = (page.first, page.first + u32::from(page.len));
        for _ in 0..16 {
            if least >= most {
                break;
            }
            let middle = least.midpoint(most);
            if self.deltas[middle as usize].0 <= address as u16 {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        if least == page.first { page.before } else { self.deltas[least as usize - 1].1 }
    }

    /// Returns the number of bytes of all deltas, pages and rules.
    pub fn len(&self) -> usize {
        self.deltas.len() * DELTA + self.pages * PAGE_LEN + self.palette.len() * RULE
    }
}
