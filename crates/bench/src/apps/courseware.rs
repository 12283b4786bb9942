//! Students, courses and enrolments, each a set under one key.
//!
//! Enrolling checks that the course is there and has room. Two students who both see the last free place
//! both get it; and a course is removed by a client that sees it empty while a student enrols who sees it
//! there.

use super::{App, Harness, Outcome, read_set};
use anomalist_explore::{Body, Client, Stop, Turns, concurrently};
use anomalist_weakdb::{Error, Session, Store, Value};
use std::sync::Arc;

/// The application. Operations: 0 and 1 enrol the client's student in a course, 2 removes a course, 3 opens
/// one, 4 asks who is enrolled.
pub struct Courseware;

const CAPACITY: usize = 1;

fn enrol(t: &mut Session, student: i64, course: i64) -> Result<bool, Error> {
    let courses = read_set(t, "courses")?;
    if !read_set(t, "students")?.contains(&Value::Int(student)) || !courses.contains(&Value::Int(course)) {
        return Ok(false);
    }
    let mut enrolments = read_set(t, "enrolments")?;
    let pair = Value::from(vec![Value::Int(student), Value::Int(course)]);
    let full = enrolments.iter().filter(|e| course_of(e) == Some(course)).count() >= CAPACITY;
    if full || enrolments.contains(&pair) {
        return Ok(false);
    }
    enrolments.push(pair);
    t.write("enrolments", enrolments)?;
    Ok(true)
}

fn course_of(enrolment: &Value) -> Option<i64> {
    enrolment.as_list().and_then(|pair| pair.get(1)).and_then(Value::as_int)
}

/// Removes a course without students.
fn remove(t: &mut Session, course: i64) -> Result<bool, Error> {
    if read_set(t, "enrolments")?.iter().any(|e| course_of(e) == Some(course)) {
        return Ok(false);
    }
    let mut courses = read_set(t, "courses")?;
    if !courses.contains(&Value::Int(course)) {
        return Ok(false);
    }
    courses.retain(|c| *c != Value::Int(course));
    t.write("courses", courses)?;
    Ok(true)
}

fn open(t: &mut Session, course: i64) -> Result<bool, Error> {
    let mut courses = read_set(t, "courses")?;
    let closed = !courses.contains(&Value::Int(course));
    if closed {
        courses.push(Value::Int(course));
        t.write("courses", courses)?;
    }
    Ok(closed)
}

/// An operation and what it answered.
type Answer = (u8, i64, bool);

fn act(client: &mut Client, (kind, argument): (u8, u8)) -> Result<Answer, Stop> {
    let (student, course) = (client.number() as i64, i64::from(argument));
    let answer = match kind {
        0 | 1 => client.transaction(|t| enrol(t, student, course))?,
        2 => client.transaction(|t| remove(t, course))?,
        3 => client.transaction(|t| open(t, course))?,
        _ => client.transaction(|t| {
            let enrolments = read_set(t, "enrolments")?;
            Ok(enrolments.iter().any(|e| course_of(e) == Some(course)))
        })?,
    };
    Ok((kind, course, answer))
}

impl App for Courseware {
    fn name(&self) -> &'static str {
        "Courseware"
    }

    fn assertions(&self) -> &'static [(&'static str, f64)] {
        &[("Course registration overflow", 10.6), ("Removed course registration", 57.5)]
    }

    fn program(&self, assertion: usize, random: &mut fastrand::Rng) -> Harness {
        let ask = |course| (4, course);
        if assertion == 0 {
            // Everybody asks about one course and tries to get into it, and into another.
            return (0..3).map(|_| vec![ask(0), (0, 0), (0, 1)]).collect();
        }
        // Two students and an administrator.
        let course = random.u8(..2);
        vec![
            vec![ask(course), (0, course), ask(course)],
            vec![ask(course), (0, 1 - course), ask(course)],
            vec![ask(course), (2, course), ask(course)],
        ]
    }

    fn operations(&self) -> (u8, u8) {
        (5, 2)
    }

    fn initial(&self, clients: usize) -> Vec<(&'static str, Value)> {
        let numbers = |n: usize| Value::from((0..n as i64).map(Value::Int).collect::<Vec<_>>());
        vec![("courses", numbers(2)), ("students", numbers(clients))]
    }

    fn run(&self, store: &Arc<Store>, turns: &Turns, harness: &Harness) -> Result<Outcome, Stop> {
        let bodies = harness.iter().map(|operations| -> Body<'_, Vec<Answer>> {
            Box::new(move |client| operations.iter().map(|&o| act(client, o)).collect())
        });
        let answers = concurrently(store, turns, bodies.collect())?;
        let all = || answers.iter().flatten();
        let enrolled = |c: i64| all().filter(|a| a.0 < 2 && a.1 == c && a.2).count();
        let removed = |c: i64| all().any(|a| a.0 == 2 && a.1 == c && a.2);
        let reopened = |c: i64| harness.iter().flatten().any(|o| *o == (3, c as u8));
        let mut broken = Vec::new();
        if (0..2).any(|c| enrolled(c) > CAPACITY) {
            broken.push(0);
        }
        if (0..2).any(|c| enrolled(c) > 0 && removed(c) && !reopened(c)) {
            broken.push(1);
        }
        Ok(Outcome { broken, observed: format!("{answers:?}") })
    }
}
