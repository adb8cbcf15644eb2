//! Serializes a library's report without its lists of places. The command prints the places itself, with names from the
//! file.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The keys of the lists. Addresses in the lists mean nothing without a section if the file is a relocatable object.
const LISTS: [&str; 3] = ["faults", "differences", "unverified"];

/// The rest of a report: counts and reasons.
#[derive(Clone, Copy, Debug)]
pub struct WithoutLists<'r, R>(pub &'r R);

impl<R: Serialize> Serialize for WithoutLists<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serde_json::to_value(self.0).map_err(S::Error::custom)?;
        if let Value::Object(keys) = &mut report {
            keys.retain(|key, _| !LISTS.contains(&key.as_str()));
        }
        report.serialize(serializer)
    }
}

#[cfg(test)]
impl<R: schemars::JsonSchema> schemars::JsonSchema for WithoutLists<'_, R> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        R::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // Use a separate generator, because nothing else refers to the definitions for the lists.
        let mut apart = generator.settings().clone().into_generator();
        let mut schema = R::json_schema(&mut apart);
        if let Some(Value::Object(keys)) = schema.get_mut("properties") {
            keys.retain(|key, _| !LISTS.contains(&key.as_str()));
        }
        if let Some(Value::Array(keys)) = schema.get_mut("required") {
            keys.retain(|key| key.as_str().is_none_or(|key| !LISTS.contains(&key)));
        }
        schema
    }
}
