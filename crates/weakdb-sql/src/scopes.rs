//! What a name in FROM means: names that WITH gives hide tables.
//!
//! SQLite lets every query of a WITH see all its names, as the others do with RECURSIVE only. Without it
//! they see the names before their own, so `WITH t AS (SELECT * FROM t)` reads the table.

use anomalist_sqltext::ast::Query;
use std::collections::BTreeSet;

/// The queries around the present place, outermost first.
#[derive(Default)]
pub(super) struct Scopes {
    levels: Vec<Level>,
}

/// The names that WITH gives in a query.
struct Level {
    /// Those of the queries around it.
    outer: BTreeSet<String>,
    /// Its own, with their queries.
    own: Vec<(String, *const Query)>,
    recursive: bool,
}

impl Level {
    /// What is hidden inside this query.
    fn hidden(&self, inside: *const Query) -> BTreeSet<String> {
        let at = self.own.iter().position(|(_, query)| *query == inside).filter(|_| !self.recursive);
        let own = self.own[..at.unwrap_or(self.own.len())].iter().map(|(name, _)| name.clone());
        self.outer.iter().cloned().chain(own).collect()
    }
}

impl Scopes {
    pub(super) fn enter(&mut self, query: &Query) {
        let outer = self.levels.last().map(|level| level.hidden(query)).unwrap_or_default();
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        let own = ctes.map(|cte| (cte.alias.name.value.to_lowercase(), &raw const *cte.query)).collect();
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        self.levels.push(Level { outer, own, recursive });
    }

    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// The names that hide tables here.
    pub(super) fn hidden(&self) -> BTreeSet<String> {
        self.levels.last().map(|level| level.hidden(std::ptr::null())).unwrap_or_default()
    }

    /// Whether SQLite takes the name for one that WITH gives.
    pub(super) fn given(&self, name: &str) -> bool {
        let same = |(own, _): &(String, *const Query)| own.eq_ignore_ascii_case(name);
        self.levels.iter().any(|level| level.own.iter().any(same))
    }
}
