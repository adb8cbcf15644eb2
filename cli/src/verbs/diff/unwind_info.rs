//! `diff` of two compact unwind tables.

use anyhow::{Context as _, bail};
use cfipack_roundtrip::Options;
use cfipack_roundtrip::unwind_info::diff;

use super::Arguments;
use crate::compact::source::Source;
use crate::io::input::Object;
use crate::report::comparison;
use crate::report::status::Status;

/// Compares A with B. A bare section is assumed to belong to the same image as the other table.
pub fn compare(a: &Object<'_>, b: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Status> {
    let sources = [
        Source::with_table(a).with_context(|| a.name.to_string())?,
        Source::with_table(b).with_context(|| b.name.to_string())?,
    ];
    let Some(known) = sources.iter().find(|source| source.file.is_some()) else {
        bail!("two bare __unwind_info sections: neither contains the architecture");
    };
    let mut tables = Vec::new();
    for (source, name) in sources.iter().zip([&a.name, &b.name]) {
        let owner = if source.file.is_some() { source } else { known };
        if source.file.is_some() && source.arch()? != known.arch()? {
            bail!("{} and {} are for different architectures", a.name, b.name);
        }
        let table = source.entries(known.arch()?, owner.base(), owner.code());
        tables.push(table.with_context(|| name.to_string())?);
    }
    let diff = diff(&tables[0], &tables[1], &Options::default());
    let counted = (known.arch()?, "entries");
    comparison::report([a, b], &diff, &Default::default(), counted, (arguments.names, arguments.json))
}
