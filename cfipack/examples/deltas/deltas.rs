//! The rows of a table as deltas.

use cfipack::decoder::sframe::{Function, Section};

use crate::palette::{Palette, Rule};

/// From this address up to the next delta's address, the rule with this number applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delta {
    pub address: u64,
    pub rule: u16,
}

/// The greatest number of deltas in a file. Without a limit, a table could claim gigabytes of stubs.
const MOST: usize = 1 << 24;

/// Returns the deltas of a table in ascending order. Neighbours have different rules.
pub fn of_table(section: &Section<'_>, palette: &mut Palette) -> Result<Vec<Delta>, String> {
    let mut deltas = Deltas(Vec::new());
    // The table is sorted.
    for function in section.functions() {
        let function = function.map_err(|error| error.to_string())?;
        let end = function.start().0 + u64::from(function.size());
        let period = if function.is_pc_mask() { u64::from(function.rep_size()).max(1) } else { end };
        let mut start = function.start().0;
        while start < end {
            deltas.add_rows(&function, start, end, palette)?;
            start = start.saturating_add(period);
        }
        deltas.add(end, Palette::NO_ROW)?;
    }
    Ok(deltas.0)
}

struct Deltas(Vec<Delta>);

impl Deltas {
    /// Adds the rows of a function, or of one of its stubs, which starts at `start`.
    fn add_rows(
        &mut self,
        function: &Function<'_>,
        start: u64,
        end: u64,
        palette: &mut Palette,
    ) -> Result<(), String> {
        self.add(start, Palette::NO_ROW)?;
        for row in function.rows() {
            let row = row.map_err(|error| error.to_string())?;
            let address = start + u64::from(row.start.0);
            if address < end {
                self.add(address, palette.number(Rule::of_row(&row, function.is_signal_frame()))?)?;
            }
        }
        Ok(())
    }

    /// A delta replaces earlier deltas at or after its address: if functions share PCs, the last function has them.
    fn add(&mut self, address: u64, rule: u16) -> Result<(), String> {
        while self.0.last().is_some_and(|last| last.address >= address) {
            self.0.pop();
        }
        let before = self.0.last().map_or(Palette::NO_ROW, |last| last.rule);
        if before != rule {
            self.0.push(Delta { address, rule });
        }
        if self.0.len() > MOST {
            return Err(format!("more than {MOST} rows"));
        }
        Ok(())
    }
}
