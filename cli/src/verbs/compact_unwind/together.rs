//! Counts the personalities of all files of a run, which may be for one link.

use cfipack_format::Arch;
use cfipack_format::unwind_info::MAX_PERSONALITIES;

use super::edit::Objects;
use super::personalities::Personalities;
use crate::report::escaped::Escaped;
use crate::report::status;

/// The personalities of all files of a run.
#[derive(Default, Debug)]
pub struct Together {
    /// The number of objects.
    pub objects: u64,
    by_arch: Vec<(Arch, Personalities)>,
}

impl Together {
    /// Adds the objects of a file.
    pub fn absorb(&mut self, objects: &Objects) {
        self.objects += objects.count;
        for (arch, personalities) in &objects.by_arch {
            match self.by_arch.iter_mut().find(|(known, _)| known == arch) {
                Some((_, all)) => all.absorb(personalities.clone()),
                None => self.by_arch.push((*arch, personalities.clone())),
            }
        }
    }

    /// Warns if no compact row of any file has a personality that the user named, and if the rows have more personalities
    /// than an image can have. It is not known which files are for the same link.
    pub fn warn(&self, named: &[String]) {
        for name in named {
            let mut all = self.by_arch.iter().flat_map(|(_, personalities)| personalities.names());
            if !all.any(|known| known == name) {
                status::warn(&format_args!("--personality {}: no compact row has it", Escaped(name)));
            }
        }
        for (arch, personalities) in &self.by_arch {
            let names: Vec<_> = personalities.names().map(|name| Escaped(name).to_string()).collect();
            if names.len() > MAX_PERSONALITIES {
                status::warn(&format_args!(
                    "the compact rows of these {arch} objects have {} personalities together: {}. An image can have \
                    {MAX_PERSONALITIES}: if all objects are for one image, its link fails; --personality names those to take",
                    names.len(),
                    names.join(", ")
                ));
            }
        }
    }
}
