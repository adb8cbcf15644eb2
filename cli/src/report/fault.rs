//! Describes the defects of tables and their places. `verify` and `diff` use the same form.

use std::fmt::Display;

use anyhow::bail;
use cfipack_container::Section;
use cfipack_decoder::sframe;
use cfipack_format::Arch;
use cfipack_roundtrip::Fault;

/// The names of tables. A table that is not in the list is called `section .sframe`.
#[derive(Debug, Default)]
pub struct TableNames(Vec<String>);

impl TableNames {
    /// Names tables by their sections.
    pub fn from_sections(tables: &[sframe::Section<'_>], sections: &[Section<'_>]) -> Self {
        Self(tables.iter().map(|table| name(table, sections)).collect())
    }

    /// Refuses tables for another architecture than `arch`. `whose` names the owner of `arch` in the message.
    pub fn require_arch(
        &self,
        tables: &[sframe::Section<'_>],
        arch: Arch,
        whose: &dyn Display,
    ) -> anyhow::Result<()> {
        match tables.iter().zip(&self.0).find(|(table, _)| table.arch() != arch) {
            Some((table, name)) => {
                bail!("{name}: offset 0x4: ABI {} is not that of {whose}", table.abi() as u8)
            }
            None => Ok(()),
        }
    }

    /// Returns a fault as text, after the name of its table.
    pub fn words(&self, fault: &Fault) -> String {
        let name = self.0.get(fault.table).map_or("section .sframe", String::as_str);
        format!("{name}: {}", fault.kind)
    }
}

/// Names a table by the section that contains it.
fn name(table: &sframe::Section<'_>, sections: &[Section<'_>]) -> String {
    for section in sections {
        let offset = table.address().distance_from(section.address);
        if (0..section.bytes.len() as i64).contains(&offset) {
            return match offset {
                0 => format!("section {}", section.name),
                _ => format!("section {}: table at offset {offset:#x}", section.name),
            };
        }
    }
    String::new()
}
