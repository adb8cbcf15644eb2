//! Adds functions with rows that exist already.

use core::ops::Range;

use cfipack_format::sframe::{Attribute, FdeInfo, FdeType, FreType};
use cfipack_format::{Row, Rule};

use crate::sframe::builder::Builder;
use crate::sframe::draft::Draft;
use crate::sframe::rows::fre::Fre;
use crate::sframe::table::encoded::{EncodedRows, SharedRows, TableFunction, TableRows};
use crate::sframe::table::wide_attribute::WideAttribute;
use crate::{Reason, Unsupported};

impl<'a> Builder<'a> {
    /// Adds a function with rows that exist already, for example a linker's stub.
    ///
    /// [`EncodedRows`] are copied as they are, with the info byte of `function`. Rows in the order of their
    /// starts are encoded: as a default FDE, or as a flex FDE if they need it and the options allow it. Layout
    /// `Small` shares equal rows, as for a function that you [push](Self::push).
    ///
    /// Returns the rows, so that you can add other functions with the same rows. Returns `None` if the function
    /// has several FDEs, because it has more rows than an FDE can count.
    ///
    /// # Errors
    /// There is no room, version 3 cannot count the encoded rows, or the version cannot represent a row. It is
    /// also an error if other functions [have addresses](Reason::KeysMixed) and this function has none, or the
    /// other way round. Unlike [`push`](Self::push), this function does not [record](Self::note_omitted) a
    /// refused function, because the function may have rows elsewhere.
    pub fn push_table<'r, I: Iterator<Item = Row> + Clone>(
        &mut self,
        function: &TableFunction,
        rows: impl Into<TableRows<'r, I>>,
    ) -> Result<Option<SharedRows>, Unsupported> {
        let draft = &mut self.draft;
        draft.take(function).map_err(|reason| function.unsupported(0, reason))?;
        draft.flush();
        let shared = match rows.into() {
            TableRows::Encoded(rows) => {
                let block = draft.add_encoded(function, rows);
                block.map_err(|reason| function.unsupported(0, reason))?
            }
            TableRows::Shared(rows) => rows,
            TableRows::Rows(rows) => return draft.push_rows_of(function, rows),
        };
        draft.add_entry(function, shared);
        Ok(Some(shared))
    }

    /// Adds a function as [`push_table`](Self::push_table) does, but without a copy: the section refers to
    /// `range` of `memory` until it is written.
    ///
    /// These bytes are the function's block. In version 3, the block is the attribute, with the rest of the
    /// info byte and the FRE type, followed by `num_fres` FREs. Before version 3, it is the FREs alone.
    /// Functions take the least memory if their blocks follow each other in the same `memory`.
    ///
    /// # Errors
    /// The errors of [`push_table`](Self::push_table).
    ///
    /// # Panics
    /// If `range` is not inside `memory`.
    #[inline]
    pub fn push_lent(
        &mut self,
        function: &TableFunction,
        num_fres: u32,
        memory: &'a [u8],
        range: Range<usize>,
    ) -> Result<SharedRows, Unsupported> {
        let draft = &mut self.draft;
        draft.take(function).map_err(|reason| function.unsupported(0, reason))?;
        draft.flush();
        let wide = WideAttribute::new(num_fres, function.info, function.rep_size);
        let block = draft.entries.blocks.lend(memory, range, wide);
        let rows = SharedRows { block: block.map_err(|reason| function.unsupported(0, reason))?, num_fres };
        draft.add_entry(function, rows);
        Ok(rows)
    }
}

impl Draft<'_> {
    /// Finds a block with these FREs, or adds it.
    fn add_encoded(&mut self, function: &TableFunction, rows: EncodedRows<'_>) -> Result<SharedRows, Reason> {
        let EncodedRows { fres, num_fres, info2 } = rows;
        let TableFunction { info, rep_size, .. } = *function;
        let wide = WideAttribute::new(num_fres, info, rep_size);
        let blocks = &mut self.entries.blocks;
        let block = if blocks.version().has_attributes() {
            let num_fres = u16::try_from(num_fres).map_err(|_| Reason::RowCount)?;
            let attribute = Attribute { num_fres, info, info2, rep_size };
            blocks.add_bytes(&attribute.write(self.abi.arch().endian()), fres, wide)?
        } else {
            blocks.add_bytes(&[], fres, wide)?
        };
        Ok(SharedRows { block, num_fres })
    }

    /// Adds a function with rows that are not encoded yet.
    fn push_rows_of(
        &mut self,
        function: &TableFunction,
        rows: impl Iterator<Item = Row> + Clone,
    ) -> Result<Option<SharedRows>, Unsupported> {
        let mark = self.mark();
        let mut result = self.add_rows(function, rows.clone(), FdeType::Default);
        if result.is_err() && self.options.flex {
            self.back_to(mark);
            result = self.add_rows(function, rows, FdeType::Flex);
        }
        if let Err((offset, reason)) = result {
            self.back_to(mark);
            return Err(function.unsupported(offset, reason));
        }
        let Some([entry]) = self.entries.list.get(mark.0..) else { return Ok(None) };
        let num_fres = (self.entries.num_fres - mark.1) as u32;
        Ok(Some(SharedRows { block: entry.block, num_fres }))
    }

    /// Checks that the builder takes a function.
    fn take(&mut self, function: &TableFunction) -> Result<(), Reason> {
        self.can_take(function.has_address)?;
        self.entries.have_addresses = Some(function.has_address);
        Ok(())
    }

    fn add_entry(&mut self, function: &TableFunction, rows: SharedRows) {
        if function.offset != 0 {
            self.entries.go_on();
        }
        self.entries.push(function.start(), function.size, rows.block, rows.num_fres);
    }

    /// Encodes rows. The error has the first PC without a representation, from the entry's start.
    fn add_rows(
        &mut self,
        function: &TableFunction,
        rows: impl Iterator<Item = Row> + Clone,
        fde_type: FdeType,
    ) -> Result<(), (u32, Reason)> {
        let (arch, is_small) = (self.abi.arch(), self.options.layout.is_smallest());
        let version = self.options.version;
        let info = if version.has_signal_frames() { function.info } else { function.info - FdeInfo::SIGNAL };
        let is_mask = info.contains(FdeInfo::PC_MASK);
        let last = rows.clone().map(|row| row.start.0).max().unwrap_or(0);
        let fre_type = match function.info.fre_type() {
            Some(fre_type) if !is_small => fre_type.max(FreType::for_start(last)),
            _ => FreType::for_start(last),
        };
        let mut part = 0;
        self.fres.begin(fre_type);
        for row in rows {
            let start = row.start.0;
            if row.return_address == Rule::Undefined && !self.options.outermost {
                return Err((start, Reason::ReturnAddressRule));
            }
            let fre = Fre::new(arch, version, &row, fde_type).map_err(|reason| (start, reason))?;
            if is_small && (self.fres.repeats(&fre) || start >= function.size && !is_mask) {
                continue;
            }
            if self.fres.count() >= version.max_fres() {
                if is_mask || !is_small {
                    return Err((start, Reason::RowCount));
                }
                self.end_rows(function, info, fde_type, part..start).map_err(|reason| (start, reason))?;
                part = start;
                self.fres.begin(fre_type);
            }
            self.fres.push(start - part, &fre);
        }
        if self.fres.count() == 0 && is_small {
            return Err((0, Reason::CfaMissing));
        }
        self.end_rows(function, info, fde_type, part..function.size).map_err(|reason| (part, reason))
    }

    /// Adds an entry with the rows in `self.fres`, for the bytes `part` of the function.
    fn end_rows(
        &mut self,
        function: &TableFunction,
        info: FdeInfo,
        fde_type: FdeType,
        part: Range<u32>,
    ) -> Result<(), Reason> {
        if self.options.layout.narrows_starts() {
            self.fres.narrow();
        }
        let offset = function.offset + u64::from(part.start);
        if offset != 0 {
            self.entries.go_on();
        }
        let start = function.key.0.wrapping_add(offset);
        self.entries.add(start, part.end - part.start, &mut self.fres, info, fde_type, function.rep_size)
    }
}
