//! A social network: users follow each other, tweet, and read timelines (of one user) and newsfeeds (of
//! those they follow).
//!
//! One user at several browsers, another who tweets. Having seen a tweet in a timeline at one browser, the
//! user follows its author at another; the newsfeed there must have the tweet.

use super::{App, Harness, Outcome, read_set};
use anomalist_explore::{Body, Client, Stop, Turns, concurrently};
use anomalist_weakdb::{Store, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// The application. Operations: 0 tweets as one of two authors, 1 follows an author, 2 shows an author's
/// timeline, 3 the newsfeed, 4 unfollows an author. Everybody reads as one and the same user.
pub struct Twitter;

/// What the user has been shown at any browser, in this order.
type Shown = Mutex<Vec<Value>>;

#[derive(Default)]
struct Seen {
    answers: Vec<Vec<Value>>,
    missing: bool,
}

fn act(
    client: &mut Client,
    (kind, author): (u8, u8),
    number: usize,
    shown: &Shown,
    seen: &mut Seen,
) -> Result<(), Stop> {
    let tweets = format!("tweets {author}");
    let author = Value::Int(i64::from(author));
    let lock = || shown.lock().unwrap_or_else(PoisonError::into_inner);
    match kind {
        0 => client.transaction(|t| {
            let mut all = read_set(t, &tweets)?;
            // A tweet is its author and a number.
            all.push(vec![author.clone(), Value::Int(number as i64)].into());
            t.write(&tweets, all)
        }),
        1 | 4 => client.transaction(|t| {
            let mut following = read_set(t, "following")?;
            following.retain(|a| *a != author);
            if kind == 1 {
                following.push(author.clone());
            }
            t.write("following", following)
        }),
        2 => {
            let timeline = client.transaction(|t| read_set(t, &tweets))?;
            lock().extend(timeline.iter().cloned());
            seen.answers.push(timeline);
            Ok(())
        }
        _ => {
            // What the user knows when the page is asked for.
            let mut known = Vec::new();
            let (following, feed) = client.transaction(|t| {
                known = lock().clone();
                let following = read_set(t, "following")?;
                let mut feed = Vec::new();
                for author in &following {
                    feed.extend(read_set(t, &format!("tweets {author}"))?);
                }
                Ok((following, feed))
            })?;
            let author = |tweet: &Value| tweet.as_list().and_then(|t| t.first()).cloned();
            seen.missing |= known
                .iter()
                .any(|tweet| author(tweet).is_some_and(|a| following.contains(&a)) && !feed.contains(tweet));
            seen.answers.push(feed);
            Ok(())
        }
    }
}

impl App for Twitter {
    fn name(&self) -> &'static str {
        "Twitter"
    }

    fn assertions(&self) -> &'static [(&'static str, f64)] {
        &[("Missing tweets in feed", 6.3)]
    }

    fn program(&self, _: usize, _: &mut fastrand::Rng) -> Harness {
        vec![vec![(0, 0), (0, 0), (0, 0)], vec![(2, 0), (2, 0), (2, 0)], vec![(1, 0), (3, 0), (3, 0)]]
    }

    fn operations(&self) -> (u8, u8) {
        (5, 2)
    }

    fn initial(&self, _: usize) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    fn run(&self, store: &Arc<Store>, turns: &Turns, harness: &Harness) -> Result<Outcome, Stop> {
        let shown = Shown::default();
        let bodies = harness.iter().map(|operations| -> Body<'_, Seen> {
            let shown = &shown;
            Box::new(move |client| {
                let mut seen = Seen::default();
                for (i, &operation) in operations.iter().enumerate() {
                    act(client, operation, client.number() * 10 + i, shown, &mut seen)?;
                }
                Ok(seen)
            })
        });
        let seen = concurrently(store, turns, bodies.collect())?;
        let broken = if seen.iter().any(|s| s.missing) { vec![0] } else { Vec::new() };
        let answers: Vec<_> = seen.iter().map(|s| &s.answers).collect();
        Ok(Outcome { broken, observed: format!("{answers:?}") })
    }
}
