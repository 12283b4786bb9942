use super::*;
use crate::catalogue::tests::catalogue;
use std::io;
use std::sync::Mutex;

#[derive(Clone, Default)]
struct Out(Arc<Mutex<Vec<u8>>>);

impl io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Scene {
    ledger: Ledger,
    out: Out,
    table: Arc<Table>,
}

impl Scene {
    /// The recording began when 100 was the next number.
    fn new() -> Scene {
        let catalogue = Arc::new(catalogue(&[(7, "public", "t", "r", &[("id", 23)])]));
        let table = catalogue.table(7).unwrap().clone();
        let out = Out::default();
        let writer = Writer::new(Box::new(out.clone())).unwrap();
        Scene { ledger: Ledger::new(Options::default(), catalogue, 100, writer), out, table }
    }

    fn tell(&mut self, event: Event) {
        assert!(self.ledger.take(event).unwrap());
    }

    fn logged(&mut self, era: u32, number: u64, at: u64, rows: &[(&str, Change)]) {
        let row = |&(key, change): &(&str, Change)| LoggedRow {
            table: self.table.clone(),
            key: vec![key.to_owned()],
            change,
        };
        let rows = rows.iter().map(row).collect();
        self.tell(Event::Logged(Logged { era, number, at, rows }));
    }

    /// A transaction that read versions of rows.
    fn ended(&mut self, own: Own, end: End, completed: u64, reads: &[(&str, u32, bool)]) {
        let read = |&(key, writer, after_write): &(&str, u32, bool)| Read {
            table: 7,
            writer,
            key: vec![key.to_owned()],
            known_as: self.table.clone(),
            after_write,
        };
        let transaction = Transaction {
            session: 1,
            era: 1,
            invoked: completed - 1,
            completed,
            end,
            own,
            isolation: None,
            asked: None,
            reads: reads.iter().map(read).collect(),
            statements: Vec::new(),
        };
        self.tell(Event::Ended(Box::new(transaction)));
    }

    /// The operations of each line, and how it ended.
    fn lines(mut self) -> Vec<String> {
        assert!(!self.ledger.take(Event::Finish).unwrap());
        self.ledger.finish().unwrap();
        let text = String::from_utf8(self.out.0.lock().unwrap().clone()).unwrap();
        let ops = |line: &str| {
            let (_, rest) = line.split_once("\"ops\":")?;
            let end = rest.find("]]").map_or(2, |end| end + 2);
            let open = if rest.contains("\"indeterminate\"") { " ?" } else { "" };
            Some(format!("{}{open}", rest[..end].replace("\"", "")))
        };
        text.lines().filter_map(ops).collect()
    }
}

#[test]
fn a_version_is_its_writers_and_otherwise_initial_or_unknown() {
    let mut scene = Scene::new();
    // It was complete before the recording began, and says nothing.
    scene.logged(1, 99, 1, &[("1", Change::Updated)]);
    scene.logged(1, 101, 5, &[("1", Change::Updated), ("2", Change::Deleted), ("2", Change::Inserted)]);
    scene.logged(1, 102, 6, &[("2", Change::Deleted)]);
    // Row 3 has no write by 101, 150 is of no transaction, 2 is a frozen version.
    let reads = [("1", 99), ("2", 101), ("3", 101), ("4", 150), ("5", 2), ("6", 50)];
    scene.ended(Own::None, End::Committed, 9, &reads.map(|(key, writer)| (key, writer, true)));
    assert_eq!(
        scene.lines(),
        [
            "[[r,t/1,null],[r,t/2#1,1,1],[r,t/3],[r,t/4],[r,t/5,null],[r,t/6,null]]",
            "[[w,t/1,1,1],[w,t/2,deleted 1,1],[w,t/2#1,1,1]]",
            "[[w,t/2#1,deleted 2,2]]",
        ]
    );
}

#[test]
fn own_versions_are_no_reads_and_unknown_numbers_have_no_writes() {
    let mut scene = Scene::new();
    scene.logged(1, 101, 5, &[("1", Change::Updated)]);
    scene.logged(1, 102, 6, &[("2", Change::Updated)]);
    scene.ended(Own::Number(101), End::Committed, 9, &[("1", 101, true), ("2", 102, true)]);
    // Its number was not asked for: what it read after a write may be its own.
    scene.ended(Own::Unasked, End::Unknown, 9, &[("1", 101, false), ("2", 102, true)]);
    assert_eq!(scene.lines(), ["[[r,t/2,2,2],[w,t/1,1,1]]", "[[r,t/1,1,1],[r,t/2]] ?", "[[w,t/2,2,2]]",]);
}

#[test]
fn the_log_knows_more_than_a_client_that_got_no_answer() {
    let mut scene = Scene::new();
    scene.logged(1, 101, 5, &[("1", Change::Updated)]);
    scene.ended(Own::Number(101), End::Unknown, 9, &[]);
    scene.ended(Own::Number(103), End::Unknown, 10, &[("1", 101, true)]);
    assert_eq!(scene.lines(), ["[[w,t/1,1,1]]", "[[r,t/1,1,1]] ?"]);
}

#[test]
fn a_number_of_a_later_life_of_the_server_is_another() {
    let mut scene = Scene::new();
    // The crash came before 101 was durable; the number was given out again.
    scene.logged(2, 101, 5, &[("1", Change::Updated)]);
    scene.ended(Own::Number(101), End::Unknown, 9, &[]);
    scene.ended(Own::None, End::Committed, 10, &[("1", 101, false)]);
    assert_eq!(scene.lines(), ["[] ?", "[[r,t/1]]", "[[w,t/1,1,1]]"]);
}

#[test]
fn what_no_session_ran_waits_for_the_sessions_that_could_have_run_it() {
    let mut scene = Scene::new();
    scene.logged(1, 101, 5, &[("1", Change::Updated)]);
    scene.logged(1, 102, 6, &[("2", Change::Updated)]);
    scene.tell(Event::Passed { time: 7, oldest: 6 });
    assert_eq!((scene.ledger.summary.others, scene.ledger.waiting.len()), (1, 1));
    scene.ended(Own::Number(102), End::Committed, 8, &[]);
    scene.tell(Event::Passed { time: 7, oldest: 100 });
    assert_eq!((scene.ledger.summary.others, scene.ledger.summary.transactions), (1, 0));
    assert_eq!(scene.lines(), ["[[w,t/1,1,1]]", "[[w,t/2,2,2]]"]);
}

#[test]
fn a_row_that_comes_back_is_another_one() {
    let mut scene = Scene::new();
    scene.logged(1, 101, 5, &[("1", Change::Inserted)]);
    scene.logged(1, 102, 6, &[("1", Change::Deleted)]);
    scene.logged(1, 103, 7, &[("1", Change::Inserted), ("1", Change::Updated)]);
    scene.logged(1, 104, 8, &[("1", Change::Deleted), ("1", Change::Inserted)]);
    let reads = [("1", 101, false), ("1", 103, false), ("1", 104, false), ("1", 50, false)];
    scene.ended(Own::None, End::Committed, 9, &reads);
    scene.tell(Event::Gap);
    scene.logged(1, 105, 9, &[("1", Change::Updated)]);
    assert_eq!(
        scene.lines(),
        [
            "[[r,t/1,1,1],[r,t/1#1,3,3],[r,t/1#2,4,4],[r,t/1,null]]",
            "[[w,t/1,1,1]]",
            "[[w,t/1,deleted 2,2]]",
            "[[w,t/1#1,3,3]]",
            "[[w,t/1#1,deleted 4,4],[w,t/1#2,4,4]]",
            "[[w,t/1#3,5,5]]",
        ]
    );
}

#[test]
fn tables_that_are_given_up_are_left_out() {
    let mut scene = Scene::new();
    scene.logged(1, 101, 5, &[("1", Change::Updated)]);
    scene.ended(Own::Number(101), End::Committed, 8, &[("2", 50, false)]);
    scene.tell(Event::Changed(vec![7]));
    assert_eq!(scene.lines(), ["[]"]);
}

#[test]
fn different_keys_have_different_names() {
    let columns = |n: usize| vec![KeyColumn { name: "c".into(), padded: false, boolean: false }; n];
    let name = |values: &[&str]| {
        joined(&columns(values.len()), &values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>())
    };
    let all = [
        &["a,b", "c"][..],
        &["a", "b,c"],
        &["", "x"],
        &["x", ""],
        &["\\0", "x"],
        &["a\\", "b"],
        &["a", "\\b"],
    ];
    let mut names: Vec<String> = all.iter().map(|values| name(values)).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all.len(), "{names:?}");
    let padded = [KeyColumn { name: "c".into(), padded: true, boolean: false }];
    assert_eq!(joined(&padded, &["a  ".to_owned()]), "a");
    let boolean = [KeyColumn { name: "c".into(), padded: false, boolean: true }];
    assert_eq!(joined(&boolean, &["true".to_owned()]), joined(&boolean, &["t".to_owned()]));
}
