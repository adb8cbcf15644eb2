//! Parts of pages that are written by this program: from a line `<!-- figures: NAME -->` to `<!-- end of figures -->`.

use std::collections::BTreeMap;

const START: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

/// The page with its parts as they should be.
pub fn filled(page: &str, parts: &BTreeMap<&'static str, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(name) = line.strip_prefix(START).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let part = parts.get(name).ok_or_else(|| format!("no part {name}"))?;
        if !lines.any(|line| line == END) {
            return Err(format!("the part {name} does not end"));
        }
        out.push_str(&format!("\n{}\n\n{END}\n", part.trim_end()));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_replaced_and_the_rest_stays() {
        let parts = BTreeMap::from([("a", "new\n".to_owned())]);
        let page = "before\n<!-- figures: a -->\nold\n<!-- end of figures -->\nafter\n";
        let filled = filled(page, &parts).unwrap();
        assert_eq!(filled, "before\n<!-- figures: a -->\n\nnew\n\n<!-- end of figures -->\nafter\n");
        assert_eq!(super::filled(&filled, &parts).unwrap(), filled);
    }

    #[test]
    fn an_open_part_and_an_unknown_one_are_errors() {
        let parts = BTreeMap::from([("a", String::new())]);
        assert!(filled("<!-- figures: a -->\n", &parts).is_err());
        assert!(filled("<!-- figures: b -->\n<!-- end of figures -->\n", &parts).is_err());
    }
}
