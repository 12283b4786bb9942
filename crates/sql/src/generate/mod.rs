//! Random schemas and transactions, all from one seed (IsoRel, sections 3.1.1 and 3.2.1).
//!
//! Statements are generated as text and parsed at once; whatever happens to them afterwards happens to
//! trees. Tables are small and values few, so that transactions meet: "most transaction bugs can be
//! triggered on simple databases". Every expression is one that all supported databases and the embedded
//! evaluator of predicates understand alike: integers and lower-case texts, no division, no conversions.
//!
//! Transaction `i` of session `s` in round `r` depends on the seed and these three alone, not on what the
//! database answered: the same seed gives the same statements on any run.

mod query;
mod schema;
mod statement;

use crate::Flavour;
use crate::schema::Schema;
use fastrand::Rng;
use std::fmt;
use std::str::FromStr;

/// What to generate. Every knob is a flag of `anomalist sql`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Knobs {
    /// At most so many tables.
    pub tables: usize,
    /// At most so many columns per table, beside the auxiliary ones.
    pub columns: usize,
    /// At most so many rows per table at the start.
    pub rows: usize,
    /// At most so many statements per transaction.
    pub statements: usize,
    /// Different integers that occur.
    pub values: i64,
    /// In a hundred transactions, how many are rolled back.
    pub rollback: u8,
    /// In a hundred transactions, how many are a single statement without `BEGIN`.
    pub autocommit: u8,
    /// In a hundred transactions, how many roll back to a savepoint.
    pub savepoint: u8,
    /// Statements that are used, by their share.
    pub mix: Mix,
}

impl Default for Knobs {
    fn default() -> Knobs {
        Knobs {
            tables: 3,
            columns: 3,
            rows: 5,
            statements: 10,
            values: 8,
            rollback: 8,
            autocommit: 5,
            savepoint: 4,
            mix: Mix::default(),
        }
    }
}

/// The share of each kind of statement; zero leaves it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// Plain queries of one table.
    pub select: u32,
    /// Joins, subqueries and views.
    pub cross: u32,
    /// `UNION`, `INTERSECT`, `EXCEPT`, `DISTINCT`.
    pub compound: u32,
    /// `COUNT`, `SUM`, `GROUP BY` …
    pub aggregate: u32,
    /// `FOR UPDATE` and `FOR SHARE`.
    pub locking: u32,
    /// `INSERT`
    pub insert: u32,
    /// `INSERT … SELECT`
    pub copy: u32,
    /// `ON CONFLICT DO UPDATE`, `ON DUPLICATE KEY UPDATE`.
    pub upsert: u32,
    /// `UPDATE`
    pub update: u32,
    /// `DELETE`
    pub delete: u32,
    /// `REPLACE`, where there is such a thing.
    pub replace: u32,
}

impl Mix {
    const NOTHING: Mix = Mix {
        select: 0,
        cross: 0,
        compound: 0,
        aggregate: 0,
        locking: 0,
        insert: 0,
        copy: 0,
        upsert: 0,
        update: 0,
        delete: 0,
        replace: 0,
    };
}

impl Default for Mix {
    fn default() -> Mix {
        Mix {
            select: 34,
            cross: 10,
            compound: 4,
            aggregate: 4,
            locking: 6,
            insert: 8,
            copy: 2,
            upsert: 3,
            update: 24,
            delete: 4,
            replace: 3,
        }
    }
}

impl Mix {
    /// Whether a database has any of it.
    pub fn is_possible(&self, flavour: Flavour) -> bool {
        let mut here = *self;
        here.leave_out_missing(flavour);
        here != Mix::NOTHING
    }

    /// Without the kinds that a database does not have.
    fn leave_out_missing(&mut self, flavour: Flavour) {
        if !flavour.locks_rows() {
            self.locking = 0;
        }
        if flavour == Flavour::PostgreSql {
            self.replace = 0;
        }
    }

    fn share(&mut self, kind: &str) -> Option<&mut u32> {
        Some(match kind {
            "select" => &mut self.select,
            "cross" => &mut self.cross,
            "compound" => &mut self.compound,
            "aggregate" => &mut self.aggregate,
            "locking" => &mut self.locking,
            "insert" => &mut self.insert,
            "copy" => &mut self.copy,
            "upsert" => &mut self.upsert,
            "update" => &mut self.update,
            "delete" => &mut self.delete,
            "replace" => &mut self.replace,
            _ => return None,
        })
    }
}

impl fmt::Display for Mix {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mix {
            select,
            cross,
            compound,
            aggregate,
            locking,
            insert,
            copy,
            upsert,
            update,
            delete,
            replace,
        } = self;
        write!(
            f,
            "select={select},cross={cross},compound={compound},aggregate={aggregate},locking={locking},"
        )?;
        write!(
            f,
            "insert={insert},copy={copy},upsert={upsert},update={update},delete={delete},replace={replace}"
        )
    }
}

/// A mix that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a share of a kind, such as update=30; kinds: select, cross, compound, aggregate, locking, insert, copy, upsert, \
     update, delete, replace"
)]
pub struct WrongMix(String);

impl FromStr for Mix {
    type Err = WrongMix;

    /// `select=50,update=50,delete=0`: what is not named keeps its default.
    fn from_str(text: &str) -> Result<Mix, WrongMix> {
        let mut mix = Mix::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let wrong = || WrongMix(part.to_owned());
            let (kind, share) = part.split_once('=').ok_or_else(wrong)?;
            // Small enough that the sum of all is a number.
            let number: u16 = share.trim().parse().map_err(|_| wrong())?;
            *mix.share(kind.trim()).ok_or_else(wrong)? = number.into();
        }
        Ok(mix)
    }
}

/// How a generated transaction is meant to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// `COMMIT`
    Commit,
    /// `ROLLBACK`
    Rollback,
    /// A single statement, which commits itself.
    Autocommit,
}

/// A generated transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Its statements, without `BEGIN` and the end.
    pub statements: Vec<String>,
    /// Its end.
    pub end: End,
}

/// Makes schemas and transactions.
///
/// ```
/// use anomalist_sql::Flavour;
/// use anomalist_sql::generate::{Generator, Knobs};
/// let generator = Generator::new(Knobs::default(), Flavour::PostgreSql, 7);
/// let schema = generator.schema(0);
/// assert!((1..=3).contains(&schema.tables.len()));
/// let first = generator.transaction(&schema, 0, 2, 0);
/// assert_eq!(first, generator.transaction(&schema, 0, 2, 0));
/// assert!((1..=10).contains(&first.statements.len()));
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    knobs: Knobs,
    flavour: Flavour,
    seed: u64,
}

impl Generator {
    /// A generator for a database.
    pub fn new(mut knobs: Knobs, flavour: Flavour, seed: u64) -> Generator {
        knobs.mix.leave_out_missing(flavour);
        Generator { knobs, flavour, seed }
    }

    /// The schema of a round.
    pub fn schema(&self, round: u64) -> Schema {
        schema::schema(&self.knobs, &mut self.rng(round, u64::MAX, 0))
    }

    /// A transaction of a session in a round.
    pub fn transaction(&self, schema: &Schema, round: u64, session: u64, index: u64) -> Transaction {
        let mut rng = self.rng(round, session, index);
        statement::Writer { schema, knobs: &self.knobs, flavour: self.flavour, rng: &mut rng }.transaction()
    }

    fn rng(&self, round: u64, session: u64, index: u64) -> Rng {
        // Each part passes through the generator, so that neighbours have nothing in common.
        let mut state = self.seed;
        for part in [round, session, index] {
            state = Rng::with_seed(state ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15)).u64(..);
        }
        Rng::with_seed(state)
    }
}

/// True so many times in a hundred.
fn percent(rng: &mut Rng, share: u8) -> bool {
    rng.u8(0..100) < share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read() {
        let mix: Result<Mix, WrongMix> = "select=50, update=7,delete=0".parse();
        assert_eq!(mix, Ok(Mix { select: 50, update: 7, delete: 0, ..Mix::default() }));
        assert_eq!(mix.clone().map(|m| m.to_string().parse()), Ok(mix));
        for wrong in ["merge=1", "select", "select=-1", "select=99999"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
        let only = Mix { replace: 1, ..Mix::NOTHING };
        assert!(only.is_possible(Flavour::MariaDb) && !only.is_possible(Flavour::PostgreSql));
    }
}
