//! Prints the table as `llvm-objdump --unwind-info` 23 prints it for an image.

use core::fmt::{self, Write};

use super::{Error, Page, Section};

/// A summary of the errors in a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DumpSummary {
    /// The number of broken pages, entries and LSDA indexes. The text has a line for each of them.
    pub errors: usize,
    /// The first error.
    pub first: Option<Error>,
}

impl Section<'_> {
    /// Prints the table as `llvm-objdump --unwind-info` 23 does, starting with the line `Contents of
    /// __unwind_info section:`. (llvm-objdump reads pages of at most 4096 bytes; this function prints larger
    /// pages correctly.) Where the table is broken, the text has a line with the error, and the dump goes on.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn dump(&self, out: &mut impl Write) -> Result<DumpSummary, fmt::Error> {
        let mut dump = Dump { out, summary: DumpSummary::default() };
        dump.header(self)?;
        dump.index(self)?;
        dump.out.write_str("  LSDA descriptors:\n")?;
        match self.all_lsdas() {
            Ok(lsdas) => {
                for (i, entry) in lsdas.enumerate() {
                    let (function, lsda) = (entry.function.0, entry.lsda.0);
                    writeln!(
                        dump.out,
                        "    [{i}]: function offset=0x{function:08x}, LSDA offset=0x{lsda:08x}"
                    )?;
                }
            }
            Err(error) => dump.error("    ", error)?,
        }
        dump.out.write_str("  Second level indices:\n")?;
        for ((i, entry), page) in self.index().enumerate().zip(self.pages()) {
            // llvm-objdump silently skips an index entry without a page too.
            if entry.page_off == 0 {
                continue;
            }
            let (offset, base) = (entry.page_off, entry.function.0);
            writeln!(
                dump.out,
                "    Second level index[{i}]: offset in section=0x{offset:08x}, base function offset=0x{base:08x}"
            )?;
            match page {
                Ok(page) => {
                    dump.local_encodings(self.header().common_count, &page)?;
                    dump.page(&page)?;
                }
                Err(error) => dump.broken_page(error)?,
            }
        }
        Ok(dump.summary)
    }
}

struct Dump<'w, W> {
    out: &'w mut W,
    summary: DumpSummary,
}

impl<W: Write> Dump<'_, W> {
    fn header(&mut self, section: &Section<'_>) -> fmt::Result {
        let header = section.header();
        self.out.write_str("Contents of __unwind_info section:\n")?;
        for (name, value) in [
            ("Version:", header.version),
            ("Common encodings array section offset:", header.common_off),
            ("Number of common encodings in array:", header.common_count),
            ("Personality function array section offset:", header.personalities_off),
            ("Number of personality functions in array:", header.personalities_count),
            ("Index array section offset:", header.index_off),
            ("Number of indices in array:", header.index_count),
        ] {
            writeln!(self.out, "  {name:<42} {value:#x}")?;
        }
        writeln!(self.out, "  Common encodings: (count = {})", header.common_count)?;
        for (i, encoding) in section.common_encodings().enumerate() {
            writeln!(self.out, "    encoding[{i}]: {encoding}")?;
        }
        writeln!(self.out, "  Personality functions: (count = {})", header.personalities_count)?;
        for (number, slot) in (1..).zip(section.personalities()) {
            writeln!(self.out, "    personality[{number}]: 0x{:08x}", slot.0)?;
        }
        Ok(())
    }

    fn index(&mut self, section: &Section<'_>) -> fmt::Result {
        writeln!(self.out, "  Top level indices: (count = {})", section.header().index_count)?;
        for (i, entry) in section.index().enumerate() {
            writeln!(
                self.out,
                "    [{i}]: function offset=0x{:08x}, 2nd level page offset=0x{:08x}, LSDA offset=0x{:08x}",
                entry.function.0, entry.page_off, entry.lsda_off
            )?;
        }
        Ok(())
    }

    /// Prints a page's own encodings. Their numbers follow the common encodings.
    fn local_encodings(&mut self, common: u32, page: &Page<'_>) -> fmt::Result {
        let encodings = page.local_encodings();
        if encodings.len() != 0 {
            writeln!(self.out, "      Page encodings: (count = {})", encodings.len())?;
        }
        for (i, encoding) in (u64::from(common)..).zip(encodings) {
            writeln!(self.out, "        encoding[{i}]: {encoding}")?;
        }
        Ok(())
    }

    fn page(&mut self, page: &Page<'_>) -> fmt::Result {
        for i in 0..page.len() {
            let entry = match page.stored_entry(i) {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    self.error("      ", error)?;
                    continue;
                }
                None => break,
            };
            write!(self.out, "      [{i}]: function offset=0x{:08x}, encoding", entry.function.0)?;
            if let Some(stored) = page.compressed_entry(i) {
                write!(self.out, "[{}]", stored.encoding_index())?;
            }
            writeln!(self.out, "={}", entry.encoding)?;
        }
        Ok(())
    }

    fn broken_page(&mut self, error: Error) -> fmt::Result {
        let Error::PageKind { kind, .. } = error else { return self.error("      ", error) };
        self.count(error);
        writeln!(self.out, "    Skipping 2nd level page with unknown kind {kind}")
    }

    fn count(&mut self, error: Error) {
        self.summary.errors += 1;
        self.summary.first.get_or_insert(error);
    }

    fn error(&mut self, indent: &str, error: Error) -> fmt::Result {
        self.count(error);
        writeln!(self.out, "{indent}error: {error}")
    }
}
