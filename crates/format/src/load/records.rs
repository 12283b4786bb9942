//! Formats made of JSON objects: one per line, or one after another, perhaps in an array.
//!
//! A format says how one object is parsed into [`Columns`] and what becomes of it in the history; this file
//! does the rest. Parsing happens on the threads of `lines.rs`, a block at a time, and no more than a few
//! blocks are in memory. Where objects are not lines, blocks are cut by a scan that knows strings and
//! braces, nothing else: as long as a text is JSON, the scan and the parser agree on where objects end, and
//! the first place where it is not ends the reading. That scan costs as much as a third of the parsing, so
//! a format may say how its objects begin. Then blocks are cut before what looks like one, from the end. A
//! wrong guess ends a block in the middle of an object: what is left of it is parsed again together with
//! the next block.

use super::Reading;
use super::lines::{BlockInfo, Cut, line_end, parallel_blocks};
use super::ops::Columns;
use crate::text::fault::{Fault, newlines};
use crate::text::json::Json;
use crate::{Diagnostic, Input, ReadError};
use std::ops::Range;

/// How objects follow one another.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// One per line.
    Lines,
    /// One after another, or as the elements of one array.
    Objects,
    /// The same, and a way to find the end of one near the end of a text.
    ObjectsCutBy(Cut),
}

/// Parsed objects of a block, each with its offset; used again for later blocks.
struct Parsed<T> {
    columns: Columns,
    items: Vec<(usize, T)>,
    /// What ended the block before its text did.
    fault: Option<Fault>,
    /// It holds the beginning of the array.
    opens: bool,
    /// It holds the end of the array.
    closes: bool,
    /// Where the last whole object ends.
    whole: usize,
}

impl<T> Default for Parsed<T> {
    fn default() -> Self {
        let columns = Columns::default();
        Parsed { columns, items: Vec::new(), fault: None, opens: false, closes: false, whole: 0 }
    }
}

/// Reads objects: `parse` makes something of one, `merge` takes these in file order, with the line each
/// begins on.
pub(crate) fn read_records<T: Send>(
    mut input: Input,
    reading: &mut Reading<'_>,
    layout: Layout,
    parse: impl Fn(&mut Json<'_>, &mut Columns) -> Result<T, Fault> + Sync,
    mut merge: impl FnMut(T, &mut Columns, u32) -> Result<(), Fault>,
) -> Result<(), ReadError> {
    let lines = matches!(layout, Layout::Lines);
    let array = !lines && Json::new(input.peek()?).peek() == Some(b'[');
    let (cut, guessed): (Cut, bool) = match layout {
        Layout::Lines => (line_end, false),
        Layout::Objects => (object_end, false),
        Layout::ObjectsCutBy(cut) => (cut, true),
    };
    let mut shape = Shape { array, begun: false, closed: false, unclosed: None };
    let parse_block = |text: &[u8], parsed: &mut Parsed<T>| {
        parsed.columns.reuse();
        parsed.items.clear();
        (parsed.opens, parsed.closes, parsed.whole) = (false, false, 0);
        parsed.fault = match layout {
            Layout::Lines => parsed.lines(text, &parse),
            _ if array => parsed.elements(text, &parse),
            _ => parsed.objects(text, &parse),
        }
        .err();
    };
    let mut torn: Option<Torn> = None;
    let result = parallel_blocks(input, reading.options, cut, parse_block, |info, parsed| {
        let mended = torn.take().map(|torn| (torn.first_line, torn.before, [&torn.text, info.text].concat()));
        let info = match &mended {
            Some((first_line, before, text)) => {
                parse_block(text, parsed);
                BlockInfo { first_line: *first_line, before: *before, text, name: info.name }
            }
            None => info,
        };
        let mut merge_block = || {
            shape.check(&info, parsed)?;
            let mut lines = LineCounter::new(info.text, info.first_line);
            for (at, item) in parsed.items.drain(..) {
                merge(item, &mut parsed.columns, lines.line(at))?;
            }
            match parsed.fault.take() {
                Some(fault) if guessed && fault.at == info.text.len() => {
                    torn = Some(Torn::new(&info, parsed.whole, lines, &fault));
                    shape.begun &= parsed.whole > 0;
                    Ok(())
                }
                fault => fault.map_or(Ok(()), Err),
            }
        };
        merge_block().map_err(|fault| info.malformed(&fault))
    });
    let result = result.and_then(|()| match torn {
        Some(torn) => Err(ReadError::Malformed(vec![torn.diagnostic])),
        None => Ok(()),
    });
    let result = result.and_then(|()| match shape.unclosed {
        Some(unclosed) => Err(ReadError::Malformed(vec![unclosed])),
        None => Ok(()),
    });
    reading.keep_the_beginning(result)
}

/// The rest of a block that ended in the middle of an object.
struct Torn {
    text: Vec<u8>,
    first_line: u32,
    before: usize,
    /// What is wrong if this is the end of the file.
    diagnostic: Diagnostic,
}

impl Torn {
    fn new(info: &BlockInfo<'_>, from: usize, mut lines: LineCounter<'_>, fault: &Fault) -> Torn {
        let (text, rest) = info.text.split_at(from);
        Torn {
            text: rest.to_vec(),
            first_line: lines.line(from),
            before: memchr::memrchr(b'\n', text).map_or(info.before + text.len(), |i| text.len() - i - 1),
            diagnostic: info.diagnose(fault),
        }
    }
}

impl<T> Parsed<T> {
    fn push(
        &mut self,
        json: &mut Json<'_>,
        parse: impl Fn(&mut Json<'_>, &mut Columns) -> Result<T, Fault>,
    ) -> Result<(), Fault> {
        let (at, mark) = (json.at(), self.columns.mark());
        match parse(json, &mut self.columns) {
            Ok(item) => {
                self.items.push((at, item));
                self.whole = json.at();
                Ok(())
            }
            Err(fault) => {
                self.columns.truncate(mark);
                Err(fault)
            }
        }
    }

    fn lines(
        &mut self,
        text: &[u8],
        parse: impl Fn(&mut Json<'_>, &mut Columns) -> Result<T, Fault>,
    ) -> Result<(), Fault> {
        let mut start = 0;
        while start < text.len() {
            let range = line_at(text, start);
            start = range.end + 1;
            let mut json = Json::line(text, range);
            if json.peek().is_none() {
                continue;
            }
            let parsed = self.push(&mut json, &parse).and_then(|()| match json.peek() {
                None => Ok(()),
                Some(_) => Err(json.expected("the end of the line")),
            });
            parsed.map_err(|fault| if start <= text.len() { fault.in_line() } else { fault })?;
        }
        Ok(())
    }

    fn objects(
        &mut self,
        text: &[u8],
        parse: impl Fn(&mut Json<'_>, &mut Columns) -> Result<T, Fault>,
    ) -> Result<(), Fault> {
        let mut json = Json::new(text);
        while json.peek().is_some() {
            self.push(&mut json, &parse)?;
        }
        Ok(())
    }

    fn elements(
        &mut self,
        text: &[u8],
        parse: impl Fn(&mut Json<'_>, &mut Columns) -> Result<T, Fault>,
    ) -> Result<(), Fault> {
        let mut json = Json::new(text);
        self.opens = json.take(b'[');
        let mut first = self.opens;
        while json.peek().is_some() {
            if !json.element(&mut first)? {
                self.closes = true;
                return match json.peek() {
                    None => Ok(()),
                    Some(_) => Err(json.expected("the end of the file")),
                };
            }
            self.push(&mut json, &parse)?;
        }
        Ok(())
    }
}

/// Holds the blocks of an array together.
struct Shape {
    array: bool,
    begun: bool,
    closed: bool,
    /// What is wrong if this is the end of the file.
    unclosed: Option<Diagnostic>,
}

impl Shape {
    fn check<T>(&mut self, info: &BlockInfo<'_>, parsed: &Parsed<T>) -> Result<(), Fault> {
        let begun = std::mem::replace(&mut self.begun, true);
        let mut json = Json::new(info.text);
        if !self.array || json.peek().is_none() {
            return Ok(());
        }
        if self.closed {
            return Err(json.expected("the end of the file"));
        }
        if begun && parsed.opens {
            return Err(json.expected("\",\" or \"]\""));
        }
        self.closed = parsed.closes;
        let end = Fault::expected(info.text, info.text.len(), "\",\" or \"]\"");
        self.unclosed = (!self.closed).then(|| info.diagnose(&end));
        Ok(())
    }
}

/// Where the last whole object ends.
fn object_end(text: &[u8]) -> Option<usize> {
    let (mut depth, mut end, mut at) = (0u32, None, 0);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => loop {
                at += 1;
                match text.get(at) {
                    Some(b'"') | None => break,
                    Some(b'\\') => at += 1,
                    Some(_) => {}
                }
            },
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    end = Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    end
}

/// Where an object ends before one whose first name is one of `names`, looking from the end of the text; by
/// scanning all of it if there is none.
pub(crate) fn end_before(text: &[u8], names: &[&str]) -> Option<usize> {
    /// More objects than one usually has inside.
    const TRIES: usize = 1000;
    let begins = |rest: &[u8]| {
        let rest = rest.trim_ascii_start();
        names.iter().any(|name| {
            rest.strip_prefix(b"\"")
                .and_then(|rest| rest.strip_prefix(name.as_bytes()))
                .is_some_and(|rest| rest.starts_with(b"\""))
        })
    };
    let opening = memchr::memrchr_iter(b'{', text).take(TRIES);
    let ends = opening.filter(|&at| begins(&text[at + 1..])).filter_map(|at| {
        let before = text[..at].trim_ascii_end();
        let before = before.strip_suffix(b",").map_or(before, <[u8]>::trim_ascii_end);
        before.ends_with(b"}").then_some(before.len())
    });
    ends.into_iter().next().or_else(|| object_end(text))
}

/// The range of the line that begins here, without its end.
fn line_at(text: &[u8], start: usize) -> Range<usize> {
    start..memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |i| start + i)
}

/// Counts lines up to offsets that only grow.
pub(crate) struct LineCounter<'a> {
    text: &'a [u8],
    counted: usize,
    line: u32,
}

impl<'a> LineCounter<'a> {
    /// For a text that begins on this line.
    pub fn new(text: &'a [u8], first_line: u32) -> LineCounter<'a> {
        LineCounter { text, counted: 0, line: first_line }
    }

    /// The line of an offset not before the last one asked for.
    #[inline]
    pub fn line(&mut self, at: usize) -> u32 {
        let at = at.clamp(self.counted, self.text.len());
        self.line = self.line.saturating_add(newlines(&self.text[self.counted..at]));
        self.counted = at;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ReadOptions};
    use anomalist_history::View;

    /// The elements `{"n": 0}`, `{"n": 1}`, … of a text, on several threads; or what is wrong.
    fn numbers(text: &[u8], layout: Layout, threads: usize) -> Result<Vec<(i64, u32)>, String> {
        let read = |layout| numbers_in(text, layout, threads);
        let numbers = read(layout);
        if matches!(layout, Layout::Objects) {
            // Guessing well, or badly, changes nothing.
            assert_eq!(read(Layout::ObjectsCutBy(|text| end_before(text, &["x", "n"]))), numbers);
            assert_eq!(read(Layout::ObjectsCutBy(|text| end_before(text, &["z"]))), numbers);
        }
        numbers
    }

    fn numbers_in(text: &[u8], layout: Layout, threads: usize) -> Result<Vec<(i64, u32)>, String> {
        let options = ReadOptions { threads: threads.try_into().unwrap(), ..ReadOptions::default() };
        let input = Input::from_bytes("h", text.to_vec());
        let mut reading = Reading::new(&input, Format::Timekiller, &options);
        let mut found = Vec::new();
        let parse = |json: &mut Json<'_>, columns: &mut Columns| {
            json.open(b'{', "an object")?;
            let mut first = true;
            let mut n = None;
            while let Some(name) = json.key(&mut first)? {
                match &*name {
                    b"n" => n = columns.json_value(json, "a number")?,
                    _ => json.skip()?,
                }
            }
            Ok(n)
        };
        let read = read_records(input, &mut reading, layout, parse, |n, _, line| {
            let Some(View::Int(n)) = n.map(|n| n.view()) else { panic!("{n:?}") };
            found.push((n, line));
            Ok(())
        });
        read.map(|()| found).map_err(|e| e.to_string().lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn arrays_are_read_in_blocks() {
        // Braces, quotes and brackets in strings; objects in objects; several megabytes.
        let object =
            |n: usize| format!("{{\"x\": \"a}}{{\\\"]\", \"n\": {n}, \"y\": [{{}}, {{\"z\": []}}]}}");
        let objects: Vec<String> = (0..60_000).map(object).collect();
        let expected: Vec<_> = (0..60_000).map(|n| (n as i64, n as u32 + 1)).collect();
        for threads in [1, 2, 5] {
            for text in [format!("[{}]\n ", objects.join(",\n")), objects.join("\n")] {
                assert_eq!(numbers(text.as_bytes(), Layout::Objects, threads).unwrap(), expected);
            }
            let one_line = format!(" [ {} ] ", objects.join(" , "));
            assert!(numbers(one_line.as_bytes(), Layout::Objects, threads).unwrap().iter().all(|n| n.1 == 1));
        }
    }

    #[test]
    fn what_holds_an_array_together_is_checked_across_blocks() {
        let many = vec!["{\"n\":1}"; 200_000];
        let list = many.join(",");
        let end = list.len() + 2;
        let wrong = |text: String| numbers(text.as_bytes(), Layout::Objects, 2).unwrap_err();
        let at = |column: usize, message: &str| format!("error: h:1:{column}: expected {message}");
        assert_eq!(wrong(format!("[{list}")), at(end, "\",\" or \"]\", found the end of the file"));
        assert_eq!(wrong(format!("[{list},")), at(end + 1, "an object, found the end of the file"));
        assert_eq!(wrong(format!("[{list}],{list}")), at(end + 1, "the end of the file, found \",\""));
        assert_eq!(wrong(format!("[{list}[{list}]")), at(end, "\",\" or \"]\", found \"[\""));
        assert_eq!(wrong(format!("[{list}{list}]")), at(end, "\",\" or \"]\", found \"{\""));
        assert_eq!(wrong(list.clone()), at(8, "an object, found \",\""));
        assert_eq!(numbers(b" [ ]", Layout::Objects, 1), Ok(vec![]));
    }
}
