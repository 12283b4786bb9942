//! Voter: a telephone vote in which no caller may vote more than so many times.

use super::{Sql, Suite};
use anomalist_databases::Error;

/// The suite.
pub struct Voter;

const CONTESTANTS: i64 = 2;
const LIMIT: usize = 3;
/// One user, as in the paper.
const PHONE: i64 = 5_551_234;

impl Suite for Voter {
    fn name(&self) -> &'static str {
        "Voter"
    }

    fn assertions(&self) -> &'static [(&'static str, &'static str)] {
        &[("A14", "no phone number has more votes than the limit")]
    }

    fn setup(&self) -> Vec<String> {
        let mut setup = vec![
            "CREATE TABLE contestants (contestant_number INT PRIMARY KEY, contestant_name VARCHAR(20))".to_owned(),
            "CREATE TABLE area_code_state (area_code INT PRIMARY KEY, state VARCHAR(2))".to_owned(),
            "CREATE TABLE votes (vote_id INT PRIMARY KEY, phone_number INT, state VARCHAR(2), contestant_number INT)"
                .to_owned(),
            "INSERT INTO area_code_state VALUES (555, 'CA')".to_owned(),
        ];
        setup.extend(
            (1..=CONTESTANTS).map(|c| format!("INSERT INTO contestants VALUES ({c}, 'contestant {c}')")),
        );
        setup
    }

    fn transaction(&self, sql: &mut Sql<'_>, random: &mut fastrand::Rng) -> Result<i64, Error> {
        let contestant = random.i64(1..=CONTESTANTS);
        let known = "SELECT contestant_number FROM contestants WHERE contestant_number = ?";
        if sql.int(known, &[contestant])?.is_none() {
            return Ok(0);
        }
        let votes = sql.rows("SELECT vote_id FROM votes WHERE phone_number = ?", &[PHONE])?;
        if votes.len() < LIMIT {
            sql.run("SELECT state FROM area_code_state WHERE area_code = ?", &[555])?;
            let id = sql.fresh();
            sql.run("INSERT INTO votes VALUES (?, ?, 'CA', ?)", &[id, PHONE, contestant])?;
        }
        Ok(0)
    }

    fn broken(&self, sql: &mut Sql<'_>, _: i64) -> Result<Vec<usize>, Error> {
        let votes = sql.rows("SELECT vote_id FROM votes WHERE phone_number = ?", &[PHONE])?;
        Ok(if votes.len() > LIMIT { vec![0] } else { Vec::new() })
    }
}
