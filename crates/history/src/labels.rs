//! Names of keys and sessions to dense numbers, in order of appearance.

use crate::value::{Value, View};
use rustc_hash::FxHashMap;

/// Interns labels. Small non-negative integers, which is what most inputs use, need no hashing.
#[derive(Clone, Default)]
pub(crate) struct Labels {
    /// By number.
    pub names: Vec<Value>,
    /// `direct[i]` is one more than the number of the integer label `i`; 0 if it has none.
    direct: Vec<u32>,
    hashed: FxHashMap<Value, u32>,
}

impl Labels {
    /// The number of a label.
    #[inline]
    pub fn intern(&mut self, label: Value) -> u32 {
        if let View::Int(i) = label.view()
            && let Some(&slot) = self.direct.get(i as usize)
            && slot != 0
        {
            return slot - 1;
        }
        self.intern_slowly(label)
    }

    /// Labels that are new, or not small integers.
    fn intern_slowly(&mut self, label: Value) -> u32 {
        if let Some(&slot) = self.hashed.get(&label) {
            return slot;
        }
        let number = self.names.len() as u32;
        match label.view() {
            // The table grows with the number of labels, so a few large integers cannot make it large.
            View::Int(i) if (i as u64) < 64 * self.names.len() as u64 + (1 << 12) => {
                let i = i as usize;
                if i >= self.direct.len() {
                    self.direct.resize((i + 1).next_power_of_two(), 0);
                }
                self.direct[i] = number + 1;
            }
            _ => {
                self.hashed.insert(label, number);
            }
        }
        self.names.push(label);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_label_has_the_same_number_however_it_is_stored() {
        let mut labels = Labels::default();
        // Far from the others, so hashed; the table covers it later, and must not give it a second number.
        let far = Value::int(100_000).unwrap();
        assert_eq!(labels.intern(far), 0);
        for i in 0..5000 {
            assert_eq!(labels.intern(Value::int(i).unwrap()), i as u32 + 1);
        }
        labels.intern(Value::int(150_000).unwrap());
        assert!(labels.direct.len() > 150_000);
        assert_eq!(labels.intern(far), 0);
        assert_eq!(labels.intern(Value::int(-1).unwrap()), 5002);
        assert_eq!(labels.intern(Value::NIL), 5003);
        assert_eq!(labels.intern(Value::int(7).unwrap()), 8);
    }

    #[test]
    fn a_large_label_does_not_make_a_large_table() {
        let mut labels = Labels::default();
        labels.intern(Value::int(1 << 23).unwrap());
        assert!(labels.direct.is_empty());
    }
}
