//! Structures that know their own layout, so that a test can hold it against a C compiler's (`tests/unit/codegen`).

/// Size and fields of a structure, as a C compiler would tell them.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    /// (name, offset); a trailing underscore of a name is not C's.
    pub fields: &'static [(&'static str, usize)],
}

/// Declares a `repr(C)` structure with its `LAYOUT`.
macro_rules! c_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $(pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl $name {
            pub const LAYOUT: $crate::layout::Layout = $crate::layout::Layout {
                name: stringify!($name),
                size: size_of::<$name>(),
                fields: &[$((stringify!($field), std::mem::offset_of!($name, $field))),*],
            };
        }
    };
}
