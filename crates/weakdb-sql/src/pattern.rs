//! Regular expressions, as far as catalogue queries and simple conditions use them: literals, `.`, classes, groups,
//! alternatives, `* + ?` and anchors. Backtracking with a limit on steps; what is beyond either is refused, not guessed.

const STEPS: usize = 100_000;

/// Whether the pattern is found in the text. `None`: the pattern is not understood, or the search takes too long.
#[must_use]
pub fn matches(text: &str, pattern: &str, insensitive: bool) -> Option<bool> {
    let fold = |s: &str| if insensitive { s.to_lowercase() } else { s.to_owned() };
    let (text, pattern): (Vec<char>, Vec<char>) =
        (fold(text).chars().collect(), fold(pattern).chars().collect());
    let mut parser = Parser { pattern: &pattern, at: 0, depth: 0 };
    let tree = parser.alternatives()?;
    if parser.at != pattern.len() {
        return None;
    }
    let mut steps = 0;
    for start in 0..=text.len() {
        match search(&tree, &text, start, &mut steps, &mut |_| true) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => return None,
        }
    }
    Some(false)
}

enum Node {
    Any,
    Char(char),
    Class(bool, Vec<(char, char)>),
    Start,
    End,
    Group(Vec<Vec<Node>>),
    Repeat(Box<Node>, usize, usize),
}

struct Parser<'p> {
    pattern: &'p [char],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.pattern.get(self.at).copied()
    }

    fn alternatives(&mut self) -> Option<Vec<Vec<Node>>> {
        self.depth += 1;
        if self.depth > 20 {
            return None;
        }
        let mut all = vec![Vec::new()];
        while let Some(c) = self.peek() {
            match c {
                ')' => break,
                '|' => {
                    self.at += 1;
                    all.push(Vec::new());
                }
                _ => {
                    let node = self.item()?;
                    all.last_mut()?.push(node);
                }
            }
        }
        self.depth -= 1;
        Some(all)
    }

    fn item(&mut self) -> Option<Node> {
        let c = self.peek()?;
        self.at += 1;
        let node = match c {
            '.' => Node::Any,
            '^' => Node::Start,
            '$' => Node::End,
            '[' => self.class()?,
            '(' => {
                let inner = self.alternatives()?;
                if self.peek() != Some(')') {
                    return None;
                }
                self.at += 1;
                Node::Group(inner)
            }
            '\\' => {
                let escaped = self.peek()?;
                self.at += 1;
                match escaped {
                    'd' => Node::Class(false, vec![('0', '9')]),
                    'w' => Node::Class(false, vec![('0', '9'), ('a', 'z'), ('A', 'Z'), ('_', '_')]),
                    's' => Node::Class(false, vec![(' ', ' '), ('\t', '\r')]),
                    c if c.is_alphanumeric() => return None,
                    c => Node::Char(c),
                }
            }
            '*' | '+' | '?' | '{' => return None,
            c => Node::Char(c),
        };
        let (low, high) = match self.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => return None,
            _ => return Some(node),
        };
        self.at += 1;
        Some(Node::Repeat(Box::new(node), low, high))
    }

    fn class(&mut self) -> Option<Node> {
        let negated = self.peek() == Some('^');
        self.at += usize::from(negated);
        let mut ranges = Vec::new();
        loop {
            let low = self.peek()?;
            self.at += 1;
            match low {
                ']' if !ranges.is_empty() => return Some(Node::Class(negated, ranges)),
                '[' if self.peek() == Some(':') => return None,
                low => {
                    let ranged =
                        self.peek() == Some('-') && self.pattern.get(self.at + 1).is_some_and(|&c| c != ']');
                    let high = if ranged { *self.pattern.get(self.at + 1)? } else { low };
                    self.at += if ranged { 2 } else { 0 };
                    ranges.push((low, high));
                }
            }
        }
    }
}

type Then<'t> = &'t mut dyn FnMut(usize) -> bool;

/// Tries the alternatives at a place, and then the rest. `None` if it takes too long.
fn search(tree: &[Vec<Node>], text: &[char], at: usize, steps: &mut usize, then: Then<'_>) -> Option<bool> {
    for sequence in tree {
        if follow(sequence, text, at, steps, then)? {
            return Some(true);
        }
    }
    Some(false)
}

fn follow(sequence: &[Node], text: &[char], at: usize, steps: &mut usize, then: Then<'_>) -> Option<bool> {
    *steps += 1;
    if *steps > STEPS {
        return None;
    }
    let Some((first, rest)) = sequence.split_first() else { return Some(then(at)) };
    match first {
        Node::Start => {
            if at == 0 {
                follow(rest, text, at, steps, then)
            } else {
                Some(false)
            }
        }
        Node::End => {
            if at == text.len() {
                follow(rest, text, at, steps, then)
            } else {
                Some(false)
            }
        }
        Node::Group(tree) => {
            // Places where the group can end are collected first, so that the rest is not a nested closure.
            let mut ends = Vec::new();
            search(tree, text, at, steps, &mut |end| {
                ends.push(end);
                false
            })?;
            for end in ends {
                if follow(rest, text, end, steps, then)? {
                    return Some(true);
                }
            }
            Some(false)
        }
        Node::Repeat(node, low, high) => {
            let mut ends = vec![at];
            let mut frontier = vec![at];
            let mut allowed: Vec<usize> = if *low == 0 { vec![at] } else { Vec::new() };
            for count in 1..=(*high).min(text.len() + 1) {
                let mut next = Vec::new();
                for &place in &frontier {
                    follow(std::slice::from_ref(node), text, place, steps, &mut |end| {
                        if !ends.contains(&end) {
                            ends.push(end);
                            next.push(end);
                        }
                        false
                    })?;
                }
                if next.is_empty() {
                    break;
                }
                if count >= *low {
                    allowed.extend(&next);
                }
                frontier = next;
            }
            for end in allowed.into_iter().rev() {
                if follow(rest, text, end, steps, then)? {
                    return Some(true);
                }
            }
            Some(false)
        }
        single => match text.get(at) {
            Some(&c) if fits(single, c) => follow(rest, text, at + 1, steps, then),
            _ => Some(false),
        },
    }
}

fn fits(node: &Node, c: char) -> bool {
    match node {
        Node::Any => true,
        Node::Char(wanted) => *wanted == c,
        Node::Class(negated, ranges) => {
            ranges.iter().any(|&(low, high)| (low..=high).contains(&c)) != *negated
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, found) in [
            ("accounts", "^(accounts)$", true),
            ("accounts2", "^(accounts)$", false),
            ("pg_toast_1", "^pg_toast", true),
            ("abcabc", "^(abc)+$", true),
            ("a1b22", "[a-z][0-9]+$", true),
            ("xyz", "^x.*z$", true),
            ("colour", "colou?r|grey", true),
            ("", "^$", true),
            ("abc", "[^a-c]", false),
        ] {
            assert_eq!(matches(text, pattern, false), Some(found), "{text} {pattern}");
        }
        assert_eq!(matches("ABC", "b", true), Some(true));
        assert_eq!(matches("a", "(", false), None);
        assert_ne!(matches(&"a".repeat(60), "(a*)*(a*)*(a*)*b", false), Some(true));
    }
}
