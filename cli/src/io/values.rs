//! Parsers for the values of options.

use std::fmt;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::str::FromStr;

use cfipack_format::Address;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Returns a parser of values by their names.
pub fn by_name<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name)).map(move |given| {
        let found = all.into_iter().find(|value| name(*value) == given);
        found.expect("the parser takes no other names")
    })
}

/// Returns a parser of numbers in a range.
pub fn number_in<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + fmt::Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("not a number from {} to {}", range.start(), range.end()))
    }
}

/// Parses an address: decimal, or hexadecimal with `0x`.
pub fn parse_address(text: &str) -> Result<Address, String> {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse::<u64>(),
    };
    value.map(Address).map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow => "the number does not fit into 64 bits".to_string(),
        _ => "an address has the form 1234 or 0x4d2".to_string(),
    })
}
