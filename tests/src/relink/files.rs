//! Reads the files that the map names.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::archive::ArchiveFile;

use super::map::{Map, archive, member};
use super::object::Object;

/// Reads the objects of a link, in its order. For a path of the map, the file of `given` is read that has the most last
/// components in common, at least one. If there is none, the file at the path is read.
pub fn read(map: &Map, given: &[PathBuf]) -> Result<Vec<Object>, Box<dyn Error>> {
    let mut archives: HashMap<PathBuf, Vec<u8>> = HashMap::new();
    let mut objects = Vec::new();
    for file in map.files() {
        // Parentheses may be part of a file's name.
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
        // Several members may have the same name.
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
    // Among equally good files, the first.
    let best = given.iter().rev().max_by_key(common);
    best.filter(|best| common(best) != 0).map_or_else(|| named.to_owned(), Clone::clone)
}
