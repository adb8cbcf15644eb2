//! The findings of judging functions.

use std::collections::HashSet;

use cfipack_format::widen::ToU64;

use super::without_verdict::WithoutVerdict;
use crate::limited::Limited;
use crate::sframe::report::{Difference, Report};

/// The findings about a run of functions.
#[derive(Debug)]
pub(super) struct Found {
    /// The counts of functions and PCs. The other fields of the report are not set.
    pub counts: Report,
    pub differences: Limited<Difference>,
    /// In order of address.
    pub without_verdict: Vec<WithoutVerdict>,
    /// Places of the functions of the table that answer for PCs outside all functions of the CFI.
    pub extra: HashSet<usize>,
}

impl Found {
    /// Starts without findings. At most `limit` differences are described.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            counts: Report::default(),
            differences: Limited::new(limit),
            without_verdict: Vec::new(),
            extra: HashSet::new(),
        }
    }

    /// Appends the findings about the next run of functions.
    pub(super) fn append(&mut self, next: Self) {
        let (counts, other) = (&mut self.counts, next.counts);
        counts.functions += other.functions;
        counts.equal += other.equal;
        counts.different += other.different;
        counts.unjudged_in_table += other.unjudged_in_table;
        counts.pcs += other.pcs;
        counts.pcs_equal += other.pcs_equal;
        counts.pcs_different += other.pcs_different;
        counts.pcs_missing += other.pcs_missing;
        counts.pcs_unjudged += other.pcs_unjudged;
        counts.pcs_unjudged_in_table += other.pcs_unjudged_in_table;
        counts.pcs_extra += other.pcs_extra;
        counts.pcs_padding += other.pcs_padding;
        counts.pcs_judged += other.pcs_judged;
        counts.pcs_hidden += other.pcs_hidden;
        self.differences.append(next.differences);
        self.without_verdict.extend(next.without_verdict);
        self.extra.extend(next.extra);
    }

    /// Returns the functions without a verdict, and the report without these functions.
    pub(super) fn report(self) -> (Vec<WithoutVerdict>, Report) {
        let (mut differences, more_differences) = self.differences.finish();
        differences.sort_by_cached_key(|difference| difference.start.0);
        let extra = self.extra.len().to_u64();
        (self.without_verdict, Report { extra, differences, more_differences, ..self.counts })
    }
}
