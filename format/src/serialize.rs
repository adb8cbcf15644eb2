//! Serialization of this crate's types in reports: positions and encodings as the hexadecimal text of
//! messages, and reasons with their short names.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::compact_unwind::Encoding;
use crate::sframe::Flags;
use crate::{Address, ImageOffset, Key, SectionOffset, Unsupported};

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        #[cfg(feature = "schemars")]
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> alloc::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": "^0x[0-9a-f]+$" })
            }
        }
    )*};
}

as_text!(Address, ImageOffset, Key, SectionOffset, Encoding);

/// Serializes the short name of the reason, which reports use for counting, and its description as `words`.
impl Serialize for Unsupported {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { function, offset, reason } = self;
        let mut fields = serializer.serialize_struct("Unsupported", 4)?;
        fields.serialize_field("function", function)?;
        fields.serialize_field("offset", offset)?;
        fields.serialize_field("reason", reason.name())?;
        fields.serialize_field("words", &format_args!("{reason}"))?;
        fields.end()
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Unsupported {
    fn schema_name() -> alloc::borrow::Cow<'static, str> {
        "Unsupported".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "properties": {
                "function": generator.subschema_for::<Key>(),
                "offset": generator.subschema_for::<u64>(),
                "reason": { "type": "string" },
                "words": { "type": "string" },
            },
            "required": ["function", "offset", "reason", "words"],
        })
    }
}

/// The flags of a header as their byte.
pub(crate) fn flags<S: Serializer>(flags: &Flags, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(flags.bits())
}
