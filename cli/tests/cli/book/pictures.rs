//! Pictures of numbers bit by bit: a group `<g data-number="0x…" data-bits="N">` has the bits as texts of class `bit`, the
//! highest first.

/// The numbers of a picture, each compared with its bits.
pub fn numbers(svg: &str) -> Vec<String> {
    let groups = svg.split("data-number=\"").skip(1);
    groups.map(|group| number(group.split("data-number=").next().unwrap())).collect()
}

fn number(group: &str) -> String {
    let (number, rest) = group.split_once('"').unwrap();
    let width: usize = attribute(rest, "data-bits=\"").parse().unwrap();
    let value = u64::from_str_radix(number.strip_prefix("0x").unwrap(), 16).unwrap();
    let texts = rest.split("class=\"bit\"").skip(1);
    let bits: String = texts.map(|text| text.split_once('>').unwrap().1.split_once('<').unwrap().0).collect();
    assert_eq!(bits, format!("{value:0width$b}"), "bits of {number}");
    number.to_owned()
}

fn attribute<'a>(text: &'a str, start: &str) -> &'a str {
    text.split_once(start).unwrap().1.split_once('"').unwrap().0
}
