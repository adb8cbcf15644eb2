//! The files that the map names, read.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::archive::ArchiveFile;

use super::map::{Map, archive, member};
use super::object::Object;

/// Reads the objects of a link, in its order. A path of the map stands for the one of `given` that ends in the most of
/// its components, at least the last; without any, for the file that is there.
pub fn read(map: &Map, given: &[PathBuf]) -> Result<Vec<Object>, Box<dyn Error>> {
    let mut archives: HashMap<PathBuf, Vec<u8>> = HashMap::new();
    let mut objects = Vec::new();
    for file in map.files() {
        // A file may have a name with parentheses.
        let whole = find(&file, given);
        let (path, member) = match member(&file) {
            Some((_, member)) if !whole.exists() => (find(archive(&file), given), Some(member)),
            _ => (whole, None),
        };
        let in_file = |error: Box<dyn Error>| format!("{}: {error}", path.display());
        let Some(member) = member else {
            let bytes = fs::read(&path).map_err(|error| in_file(error.into()))?;
            objects.push(Object::parse(&file, &bytes).map_err(in_file)?);
            continue;
        };
        if !archives.contains_key(&path) {
            archives.insert(path.clone(), fs::read(&path).map_err(|error| in_file(error.into()))?);
        }
        // Several members may have one name.
        let before = objects.len();
        let bytes = &archives[&path][..];
        for found in ArchiveFile::parse(bytes)?.members() {
            let found = found.map_err(|error| in_file(error.into()))?;
            if found.name() == member.as_bytes() {
                objects.push(Object::parse(&file, found.data(bytes)?).map_err(in_file)?);
            }
        }
        if objects.len() == before {
            return Err(format!("{}: has no member {member}", path.display()).into());
        }
    }
    Ok(objects)
}

fn find(named: &str, given: &[PathBuf]) -> PathBuf {
    let named = Path::new(named);
    let common = |path: &&PathBuf| {
        let pairs = path.components().rev().zip(named.components().rev());
        pairs.take_while(|(given, named)| given == named).count()
    };
    // Of equally good ones the first.
    let best = given.iter().rev().max_by_key(common);
    best.filter(|best| common(best) != 0).map_or_else(|| named.to_owned(), Clone::clone)
}
