//! What a database says about its isolation: the level that is in force, as the server tells it, and what
//! its vendor documents for it.

use anomalist_databases::{Connection, Error, Family, Isolation, Value};
use anomalist_level::Level;
use anomalist_sql::vendor::{Documented, promise};

/// The level that a transaction begun at `isolation` runs at, asked of the server. `None`: it does not say.
pub fn in_force(session: &mut dyn Connection, isolation: &Isolation) -> Result<Option<String>, Error> {
    // MariaDB before 11.1 has another name for it.
    let questions: &[&str] = match session.product().family {
        Family::Postgres => &["SHOW transaction_isolation"],
        Family::Mysql => &["SELECT @@transaction_isolation", "SELECT @@tx_isolation"],
        Family::Sqlite => return Ok(None),
    };
    for question in questions {
        session.begin(isolation)?;
        let answer = session.run(question);
        session.rollback()?;
        let value = answer.ok().and_then(|replies| replies.first()?.value().cloned());
        match value {
            Some(Value::Text(level)) => return Ok(Some(level)),
            Some(Value::Bytes(level)) => return Ok(Some(String::from_utf8_lossy(&level).into_owned())),
            _ => {}
        }
    }
    Ok(None)
}

/// The level that the vendor documents, in the words of this program: the strongest of which every part is
/// promised.
pub fn claimed(product: &str, isolation: &str) -> Level {
    match promise(product, isolation).documented {
        Documented::Uncommitted => Level::ReadUncommitted,
        Documented::Committed | Documented::SnapshotReads => Level::AdyaReadCommitted,
        Documented::Snapshot => Level::SnapshotIsolation,
        Documented::Serializable => Level::Serializable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_claim_what_they_document() {
        assert_eq!(claimed("PostgreSQL", "REPEATABLE READ"), Level::SnapshotIsolation);
        assert_eq!(claimed("PostgreSQL", "SERIALIZABLE"), Level::Serializable);
        assert_eq!(claimed("MariaDB", "REPEATABLE READ"), Level::AdyaReadCommitted);
        assert_eq!(claimed("MySQL", "READ UNCOMMITTED"), Level::ReadUncommitted);
        assert_eq!(claimed("SQLite", "DEFERRED"), Level::Serializable);
    }
}
