//! Wikipedia: pages, their revisions, who edited them, and a log.
//!
//! The tables that edits touch, and the five transactions: two that show a page, two for watch lists, one
//! edit. What the user table, the history and the log say about edits must agree, two by two.

use super::{Sql, Suite};
use anomalist_databases::Error;

/// The suite.
pub struct Wikipedia;

const USERS: i64 = 2;
const PAGES: i64 = 2;

fn show(sql: &mut Sql<'_>, page: i64) -> Result<i64, Error> {
    let latest = sql.int("SELECT page_latest FROM page WHERE page_id = ?", &[page])?.unwrap_or(0);
    sql.run("SELECT rev_text_id FROM revision WHERE rev_id = ?", &[latest])?;
    sql.run("SELECT old_text FROM text WHERE old_id = ?", &[latest])?;
    Ok(0)
}

fn edit(sql: &mut Sql<'_>, user: i64, page: i64) -> Result<i64, Error> {
    let id = sql.fresh();
    sql.run("SELECT page_latest FROM page WHERE page_id = ?", &[page])?;
    sql.run("INSERT INTO text VALUES (?, ?)", &[id, id])?;
    sql.run("INSERT INTO revision VALUES (?, ?, ?, ?)", &[id, page, user, id])?;
    sql.run("UPDATE page SET page_latest = ? WHERE page_id = ?", &[id, page])?;
    sql.run("INSERT INTO recentchanges VALUES (?, ?, ?)", &[id, page, user])?;
    sql.run("INSERT INTO logging VALUES (?, ?, ?)", &[id, page, user])?;
    sql.run(
        "UPDATE useracct SET user_editcount = user_editcount + 1, user_touched = ? WHERE user_id = ?",
        &[id, user],
    )?;
    Ok(0)
}

impl Suite for Wikipedia {
    fn name(&self) -> &'static str {
        "Wikipedia"
    }

    fn assertions(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("A15", "a user's number of edits is that of the history"),
            ("A16", "a user's number of edits is that of the log"),
            ("A17", "a user's edits of a page are as many in the history as in the log"),
        ]
    }

    fn setup(&self) -> Vec<String> {
        let mut setup: Vec<String> = [
            "CREATE TABLE useracct (user_id INT PRIMARY KEY, user_editcount INT, user_touched INT)",
            "CREATE TABLE page (page_id INT PRIMARY KEY, page_latest INT)",
            "CREATE TABLE revision (rev_id INT PRIMARY KEY, rev_page INT, rev_user INT, rev_text_id INT)",
            "CREATE TABLE text (old_id INT PRIMARY KEY, old_text INT)",
            "CREATE TABLE recentchanges (rc_id INT PRIMARY KEY, rc_page INT, rc_user INT)",
            "CREATE TABLE logging (log_id INT PRIMARY KEY, log_page INT, log_user INT)",
            "CREATE TABLE watchlist (wl_user INT, wl_page INT, wl_since INT, PRIMARY KEY (wl_user, wl_page))",
        ]
        .map(str::to_owned)
        .into();
        setup.extend((1..=USERS).map(|u| format!("INSERT INTO useracct VALUES ({u}, 0, 0)")));
        setup.extend((1..=PAGES).map(|p| format!("INSERT INTO page VALUES ({p}, 0)")));
        setup
    }

    fn transaction(&self, sql: &mut Sql<'_>, random: &mut fastrand::Rng) -> Result<i64, Error> {
        let (user, page) = (random.i64(1..=USERS), random.i64(1..=PAGES));
        match random.u8(..10) {
            0 => show(sql, page),
            1 => {
                sql.run("SELECT user_touched FROM useracct WHERE user_id = ?", &[user])?;
                show(sql, page)
            }
            2 => {
                let there = "SELECT wl_since FROM watchlist WHERE wl_user = ? AND wl_page = ?";
                if sql.int(there, &[user, page])?.is_none() {
                    let now = sql.fresh();
                    sql.run("INSERT INTO watchlist VALUES (?, ?, ?)", &[user, page, now])?;
                }
                Ok(0)
            }
            3 => {
                sql.run("DELETE FROM watchlist WHERE wl_user = ? AND wl_page = ?", &[user, page])?;
                Ok(0)
            }
            _ => edit(sql, user, page),
        }
    }

    fn broken(&self, sql: &mut Sql<'_>, _: i64) -> Result<Vec<usize>, Error> {
        let users = sql.rows("SELECT user_id, user_editcount FROM useracct", &[])?;
        let history = sql.rows("SELECT rev_page, rev_user FROM revision", &[])?;
        let log = sql.rows("SELECT log_page, log_user FROM logging", &[])?;
        let count = |rows: &[Vec<Option<i64>>], column: usize, id: Option<i64>| {
            Some(rows.iter().filter(|r| r[column] == id).count() as i64)
        };
        let mut broken = Vec::new();
        if users.iter().any(|u| u[1] != count(&history, 1, u[0])) {
            broken.push(0);
        }
        if users.iter().any(|u| u[1] != count(&log, 1, u[0])) {
            broken.push(1);
        }
        // Rows of both are a page and a user.
        let sorted = |mut rows: Vec<Vec<Option<i64>>>| {
            rows.sort_unstable();
            rows
        };
        if sorted(history) != sorted(log) {
            broken.push(2);
        }
        Ok(broken)
    }
}
