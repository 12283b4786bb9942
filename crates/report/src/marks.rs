//! Sentences that know which transactions and operations they are about.
//!
//! A view that marks puts the id of a transaction or operation around its name or value, between control
//! characters; text from histories has none of these, because it is [cleaned](crate::witness_view::clean).
//! So every sentence, however it is put together, can be read back as plain text with what it mentions, and
//! a page can highlight that.

use anomalist_history::{OpId, TxnId};

const OPEN: char = '\u{1}';
const NAMED: char = '\u{2}';
const CLOSE: char = '\u{3}';

/// A transaction's name, marked.
pub(crate) fn txn(t: TxnId, name: &str) -> String {
    format!("{OPEN}t{}{NAMED}{name}{CLOSE}", t.0)
}

/// An operation's value, marked.
pub(crate) fn op(o: OpId, value: &str) -> String {
    format!("{OPEN}o{}{NAMED}{value}{CLOSE}", o.0)
}

/// A sentence without marks, and what was marked in it: each once, in the order of the sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub text: String,
    pub txns: Vec<TxnId>,
    pub ops: Vec<OpId>,
}

impl Said {
    /// Reads a marked sentence.
    pub fn of(marked: &str) -> Said {
        let mut said = Said::default();
        let mut id: Option<String> = None;
        for c in marked.chars() {
            match (c, &mut id) {
                (OPEN, _) => id = Some(String::new()),
                (NAMED, Some(read)) => {
                    said.note(read);
                    id = None;
                }
                (CLOSE, _) => {}
                (c, Some(read)) => read.push(c),
                (c, None) => said.text.push(c),
            }
        }
        said
    }

    fn note(&mut self, id: &str) {
        let number = id.get(1..).and_then(|digits| digits.parse().ok());
        match (id.chars().next(), number) {
            (Some('t'), Some(n)) if !self.txns.contains(&TxnId(n)) => self.txns.push(TxnId(n)),
            (Some('o'), Some(n)) if !self.ops.contains(&OpId(n)) => self.ops.push(OpId(n)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_back() {
        let sentence =
            format!("{} read x = {}, {}", txn(TxnId(7), "T1"), op(OpId(3), "[1 2]"), txn(TxnId(7), "T1"));
        let said = Said::of(&sentence);
        assert_eq!(said.text, "T1 read x = [1 2], T1");
        assert_eq!((said.txns, said.ops), (vec![TxnId(7)], vec![OpId(3)]));
    }
}
