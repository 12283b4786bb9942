//! Binary search that begins at the end.

/// What `slice.partition_point(pred)` returns, in O(log d) for a result at distance `d` from the end: what
/// is asked for is mostly recent, and what is recent is in the processor's cache.
pub(crate) fn partition_late<T>(slice: &[T], pred: impl Fn(&T) -> bool) -> usize {
    let (mut end, mut step) = (slice.len(), 1);
    while end > 0 && !pred(&slice[end - 1]) {
        let start = end.saturating_sub(step);
        if pred(&slice[start]) {
            return start + slice[start..end].partition_point(&pred);
        }
        (end, step) = (start, 2 * step);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::partition_late;

    #[test]
    fn agrees_with_the_standard_library() {
        for len in 0..70_u32 {
            let slice: Vec<u32> = (0..len).collect();
            for bound in 0..=len {
                assert_eq!(partition_late(&slice, |&x| x < bound), slice.partition_point(|&x| x < bound));
            }
        }
    }
}
