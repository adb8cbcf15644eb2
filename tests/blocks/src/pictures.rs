//! Checks pictures that show numbers bit by bit. A group `<g data-number="0x…" data-bits="N">` has its bits as texts of
//! class `bit`, the highest first. A page beside the picture has the number in the same notation.

use std::fs;
use std::path::{Path, PathBuf};

/// Compares the numbers in a directory's pictures with their bits and with its pages. Returns how many numbers there are.
pub fn check(directory: &Path) -> Result<usize, String> {
    let read =
        |path: &PathBuf| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let pages = files(directory, "md")?.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut count = 0;
    for path in files(directory, "svg")? {
        for number in numbers(&read(&path)?) {
            let number =
                number.ok_or_else(|| format!("{}: bits that are not those of the number", path.display()))?;
            if !pages.iter().any(|page| page.contains(&number)) {
                return Err(format!("{}: no page has {number}", path.display()));
            }
            count += 1;
        }
    }
    Ok(count)
}

fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect())
}

/// Returns the numbers of a picture. `None` stands for a number that differs from its bits.
fn numbers(svg: &str) -> Vec<Option<String>> {
    let groups = svg.split("data-number=\"").skip(1);
    groups.map(|group| number(group.split("data-number=").next()?)).collect()
}

fn number(group: &str) -> Option<String> {
    let (number, rest) = group.split_once('"')?;
    let width: usize = rest.split_once("data-bits=\"")?.1.split_once('"')?.0.parse().ok()?;
    let value = u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()?;
    let texts = rest.split("class=\"bit\"").skip(1);
    let bits: Option<String> = texts.map(|text| Some(text.split_once('>')?.1.split_once('<')?.0)).collect();
    (bits? == format!("{value:0width$b}")).then(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn a_wrong_bit_is_found() {
        let picture = |bits: [char; 3]| {
            let texts = bits.map(|bit| format!("<text class=\"bit\">{bit}</text>"));
            format!("<g data-number=\"0x5\" data-bits=\"3\">{}</g>", texts.concat())
        };
        assert_eq!(numbers(&picture(['1', '0', '1'])), [Some("0x5".into())]);
        assert_eq!(numbers(&picture(['1', '1', '1'])), [None]);
    }
}
