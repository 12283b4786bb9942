//! Dense identifiers. Every column of a [`History`](crate::History) is indexed by one of these.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The identifier as an index into a column.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

id! {
    /// A session: a client whose transactions run one after another.
    SessionId
}
id! {
    /// A transaction. Ids are *session-major*: a session owns a contiguous range of ids, ascending in
    /// session order, so "is `a` before `b` in this session" is one integer comparison.
    TxnId
}
id! {
    /// An operation; the operations of a transaction are contiguous, in program order.
    OpId
}
id! {
    /// A key.
    KeyId
}
