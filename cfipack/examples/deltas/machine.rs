//! What the profiler loads into the kernel: for all files one array of deltas and one palette, for each file its pages.

use std::collections::HashMap;

use crate::deltas::Delta;
use crate::palette::Palette;

/// Addresses of a page: a delta needs the low 16 bits alone.
const PAGE: u64 = 1 << 16;

/// Bytes of a delta: 16 bits of the address, and the rule's number.
const DELTA: usize = 4;

/// Bytes of a page: the first delta, how many, and the rule before it.
const PAGE_LEN: usize = 8;

/// Bytes of a rule: the kinds and registers of the three rules, and three offsets.
const RULE: usize = 16;

/// What all files have in common.
pub struct Machine {
    pub palette: Palette,
    deltas: Vec<(u16, u16)>,
    /// Where a block of deltas is that some page has.
    blocks: HashMap<Vec<(u16, u16)>, u32>,
    pages: usize,
}

/// The pages of a file.
pub struct Image {
    first_page: u64,
    pages: Vec<Page>,
    /// Bytes that the file has added.
    pub new_bytes: usize,
    /// Pages whose block another page has.
    pub shared: usize,
}

/// Deltas of one page, and the rule that is valid before the first.
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
        for block in deltas.chunk_by(|one, next| one.address / PAGE == next.address / PAGE) {
            // Pages between two blocks have one rule: that of the gap.
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

    /// Where a block is, which is added if no page has it.
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

    /// The number of the rule for an address of a file: as a program in eBPF does it, in 16 steps, each of which is one
    /// access whose index the verifier can bound.
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
            match self.deltas[middle as usize].0 <= address as u16 {
                true => least = middle + 1,
                false => most = middle,
            }
        }
        match least == page.first {
            true => page.before,
            false => self.deltas[least as usize - 1].1,
        }
    }

    /// Bytes of all: deltas, pages, rules.
    pub fn len(&self) -> usize {
        self.deltas.len() * DELTA + self.pages * PAGE_LEN + self.palette.len() * RULE
    }
}
