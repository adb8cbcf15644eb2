//! Positions and encodings in reports: hexadecimal text, as messages print them.

use serde::{Serialize, Serializer};

use crate::compact_unwind::Encoding;
use crate::sframe::Flags;
use crate::{Address, ImageOffset, SectionOffset};

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

as_text!(Address, ImageOffset, SectionOffset, Encoding);

/// The flags of a header as their byte.
pub(crate) fn flags<S: Serializer>(flags: &Flags, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(flags.bits())
}
