//! What levels and anomalies share: an enum with one name per variant, and finding a variant by what
//! a user typed.

/// Declares an enum whose variants have names. The name is written here and nowhere else.
macro_rules! vocabulary {
    ($(#[$meta:meta])* $name:ident { $($variant:ident $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`; its definition is in the table: see [`info`](Self::info).")] $variant,)*
        }

        impl $name {
            /// All of them, in the order of the table.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The one name under which Anomalist prints it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// Its position in [`ALL`](Self::ALL).
            pub const fn index(self) -> usize {
                self as usize
            }

            /// Its bit in a set of them.
            pub(crate) const fn bit(self) -> u128 {
                1 << self as u8
            }

            /// A set as bits.
            pub(crate) const fn bits(set: &[$name]) -> u128 {
                let (mut bits, mut i) = (0, 0);
                while i < set.len() {
                    bits |= set[i].bit();
                    i += 1;
                }
                bits
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use vocabulary;

/// Makes a relation, one row of bits per element, transitive (Warshall), when the crate is compiled.
pub(crate) const fn transitive<const N: usize>(mut rows: [u128; N]) -> [u128; N] {
    let mut via = 0;
    while via < N {
        let mut from = 0;
        while from < N {
            if rows[from] >> via & 1 == 1 {
                rows[from] |= rows[via];
            }
            from += 1;
        }
        via += 1;
    }
    rows
}

/// How a typed name is compared: lower case, words joined by hyphens, so that SQL's `READ COMMITTED` is
/// found too.
pub(crate) fn normalise(typed: &str) -> String {
    typed.trim().chars().map(|c| if c == '_' || c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Up to three names that `typed` may have meant, nearest first. `known` pairs every spelling with the name
/// to suggest.
pub(crate) fn nearest<'a>(
    typed: &str,
    known: impl Iterator<Item = (&'a str, &'static str)>,
) -> Vec<&'static str> {
    let typed = normalise(typed);
    let length = typed.chars().count();
    let mut found: Vec<(usize, &'static str)> = Vec::new();
    for (spelling, name) in known {
        let spelling = spelling.to_ascii_lowercase();
        let away = distance(&typed, &spelling);
        // Two slips are human in a long name; "rc" for "cc" is another level, not a slip.
        let near = away <= 2 + length / 8 && away * 3 <= length.max(3);
        let part = length >= 3 && spelling.contains(&typed);
        if near || part {
            let rank = if near { away } else { 3 + spelling.len() };
            match found.iter_mut().find(|(_, n)| *n == name) {
                Some(entry) => entry.0 = entry.0.min(rank),
                None => found.push((rank, name)),
            }
        }
    }
    found.sort_by_key(|&(rank, _)| rank);
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// The least number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// `; did you mean a, b or c?`, or nothing.
pub(crate) fn did_you_mean(suggestions: &[&str]) -> String {
    match suggestions {
        [] => String::new(),
        [one] => format!("; did you mean `{one}`?"),
        [first @ .., last] => format!("; did you mean `{}` or `{last}`?", first.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, away) in
            [("", "", 0), ("", "abc", 3), ("causal", "causal", 0), ("cuasal", "causal", 1), ("rc", "ra", 1)]
        {
            assert_eq!(distance(a, b), away, "{a} {b}");
            assert_eq!(distance(b, a), away, "{b} {a}");
        }
    }

    #[test]
    fn a_chain_becomes_transitive() {
        assert_eq!(transitive([0b010, 0b100, 0]), [0b110, 0b100, 0]);
    }
}
