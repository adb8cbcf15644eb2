//! Macros for errors: each variant has its message beside it, in the form that `thiserror` gives an error. A linker
//! embeds these crates, so they cannot depend on `thiserror` itself.

/// Declares an enum with fields that are `Copy`, and its `Display`. `#[error(…)]` follows the documentation of a
/// variant and takes what `write!` takes. The fields of the variant are in scope, so a field in parentheses has a
/// name too.
#[doc(hidden)]
#[macro_export]
macro_rules! messages {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {$(
            $(#[doc = $doc:literal])*
            #[error($($message:tt)+)]
            $variant:ident
                $({$($(#[$field_meta:meta])* $field:ident: $field_type:ty),* $(,)?})?
                $(($($inner:ident: $inner_type:ty),*))?
        ),* $(,)?}
    ) => {
        $(#[$meta])*
        $vis enum $name {$(
            $(#[doc = $doc])*
            $variant $({$($(#[$field_meta])* $field: $field_type),*})? $(($($inner_type),*))?
        ),*}

        impl core::fmt::Display for $name {
            #[allow(unused_variables, reason = "a message need not print all fields")]
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {
                    $(Self::$variant $({$($field),*})? $(($($inner),*))? => write!(f, $($message)+),)*
                }
            }
        }
    };
}

/// Declares an enum as `messages!` does, which is also an error.
#[doc(hidden)]
#[macro_export]
macro_rules! errors {
    ($(#[$meta:meta])* $vis:vis enum $name:ident $variants:tt) => {
        $crate::messages! { $(#[$meta])* $vis enum $name $variants }

        impl core::error::Error for $name {}
    };
}
