//! Results in Jepsen's notation.

use anomalist_history::Datum;
use std::fmt::Write as _;

/// A set as Jepsen prints it: `#{0..3 7}`, runs of integers shortened.
pub(super) fn interval_set(elements: &[&Datum]) -> Datum {
    let mut sorted = elements.to_vec();
    sorted.sort_unstable();
    let (mut out, mut i) = (String::from("#{"), 0);
    while i < sorted.len() {
        let mut end = i;
        while let (Some(a), Some(b)) = (sorted[end].as_int(), sorted.get(end + 1).and_then(|d| d.as_int()))
            && a.checked_add(1) == Some(b)
        {
            end += 1;
        }
        out.push_str(if i > 0 { " " } else { "" });
        let _ = match end - i {
            0 => write!(out, "{}", sorted[i]),
            _ => write!(out, "{}..{}", sorted[i], sorted[end]),
        };
        i = end + 1;
    }
    out.push('}');
    Datum::text(out)
}

/// A sorted list.
pub(super) fn sorted_list<'d>(elements: impl IntoIterator<Item = &'d Datum>) -> Datum {
    let mut elements: Vec<Datum> = elements.into_iter().cloned().collect();
    elements.sort_unstable();
    Datum::List(elements)
}

/// A value of the map that sums may leave 64 bits for.
pub(super) fn sum(total: i128) -> Datum {
    match i64::try_from(total) {
        Ok(i) => Datum::Int(i),
        Err(_) => Datum::Number(total.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_shortened() {
        let shown = |ints: &[i64]| {
            let data: Vec<Datum> = ints.iter().map(|&i| Datum::Int(i)).collect();
            interval_set(&data.iter().collect::<Vec<_>>()).to_string()
        };
        assert_eq!(shown(&[]), "\"#{}\"");
        assert_eq!(shown(&[3, 1, 2, 7, 9, 10, i64::MAX]), "\"#{1..3 7 9..10 9223372036854775807}\"");
        assert_eq!(interval_set(&[&Datum::text("a"), &Datum::Int(1)]).to_string(), r##""#{1 \"a\"}""##);
    }
}
