//! What the solver learns from a conflict, and what it forgets.
//!
//! A conflict is resolved with the reasons of its literals until one literal of its decision level is left
//! (the first unique implication point); literals that the rest implies are dropped. The learnt clause
//! follows by reverse unit propagation from the clauses that were used, which the log names in the order of
//! the trail. Costs the clauses used. Clauses of high LBD are forgotten when there are many (Audemard &
//! Simon 2009).

use super::{Cause, Clause, Lit, NO_REASON, Solver};

/// A conflict while it is resolved.
#[derive(Default)]
struct Analysis {
    /// The literals below the level of the conflict.
    learnt: Vec<Lit>,
    /// The clauses used: where the literal that each implied stands in the trail, and its number in the log.
    used: Vec<(u32, u32)>,
    /// The unit clauses used.
    units: Vec<u32>,
    /// The variables marked as seen.
    touched: Vec<usize>,
}

impl Analysis {
    /// The clauses that the learnt one follows from, `conflict` last, in the order in which they become
    /// unit.
    fn hints(mut self, conflict: u32) -> Vec<u32> {
        self.used.sort_unstable();
        self.units.sort_unstable();
        self.units.dedup();
        self.units.into_iter().chain(self.used.into_iter().map(|(_, id)| id)).chain([conflict]).collect()
    }
}

impl Solver {
    /// Learns from a conflict (first unique implication point) and goes back.
    pub(super) fn learn(&mut self, conflict: Vec<Lit>, id: u32) {
        let current = self.starts.len() as u32;
        // A theory conflict may lie below the current level.
        let deepest = conflict.iter().map(|l| self.level[l.var()]).max().unwrap_or(0);
        if deepest < current {
            self.back_to(deepest as usize);
        }
        if deepest == 0 {
            let hints = self.units_of(conflict.iter().map(|l| l.var())).chain([id]).collect();
            self.refuted = Some(self.log.add(Vec::new(), Cause::Implied(hints)));
            return;
        }
        let mut analysis = Analysis::default();
        let asserting = self.resolve(conflict, deepest, &mut analysis);
        self.drop_implied(&mut analysis);
        for &v in &analysis.touched {
            self.seen[v] = false;
        }
        let mut learnt = std::mem::take(&mut analysis.learnt);
        let mut levels: Vec<u32> = learnt.iter().map(|l| self.level[l.var()]).collect();
        levels.sort_unstable();
        levels.dedup();
        let back = levels.last().copied().unwrap_or(0);
        learnt.insert(0, asserting);
        let number = self.log.add(learnt.clone(), Cause::Implied(analysis.hints(id)));
        self.back_to(back as usize);
        self.vsids.decay();
        self.insert_learnt(learnt, number, levels.len() as u32 + 1);
    }

    /// Resolves a conflict back to the first unique implication point of its level: the literal that the
    /// learnt clause makes true.
    fn resolve(&mut self, conflict: Vec<Lit>, deepest: u32, analysis: &mut Analysis) -> Lit {
        let mut waiting = 0;
        let mut at = self.trail.len();
        let mut clause = conflict;
        loop {
            for &l in &clause {
                let v = l.var();
                if self.seen[v] || self.lit_value(l) == 0 {
                    continue;
                }
                self.seen[v] = true;
                analysis.touched.push(v);
                self.vsids.bump(v);
                if self.level[v] == 0 {
                    analysis.units.push(self.unit[v]);
                } else if self.level[v] == deepest {
                    waiting += 1;
                } else {
                    analysis.learnt.push(l);
                }
            }
            let lit = loop {
                at -= 1;
                let lit = self.trail[at];
                if self.seen[lit.var()] && self.level[lit.var()] == deepest {
                    break lit;
                }
            };
            waiting -= 1;
            if waiting == 0 {
                return !lit;
            }
            let reason = &self.clauses[self.reason[lit.var()] as usize];
            analysis.used.push((at as u32, reason.id));
            clause = reason.lits.clone();
        }
    }

    /// Takes out literals that the rest of the clause implies through their reasons.
    fn drop_implied(&self, analysis: &mut Analysis) {
        let Analysis { learnt, used, units, .. } = analysis;
        let implied = |lit: Lit| {
            let reason = self.reason[lit.var()];
            let clause = (reason != NO_REASON).then(|| &self.clauses[reason as usize])?;
            let mut others = clause.lits.iter().map(|l| l.var()).filter(|&v| v != lit.var());
            // What is seen below the level of the conflict is in the learnt clause.
            others.all(|v| self.level[v] == 0 || self.seen[v]).then_some(clause)
        };
        learnt.retain(|&lit| {
            let Some(clause) = implied(lit) else { return true };
            let fixed = clause.lits.iter().map(|l| l.var()).filter(|&v| self.level[v] == 0);
            units.extend(self.units_of(fixed));
            used.push((self.place[lit.var()], clause.id));
            false
        });
    }

    fn insert_learnt(&mut self, mut lits: Vec<Lit>, id: u32, lbd: u32) {
        if lits.len() == 1 {
            self.assign(lits[0], NO_REASON);
            self.unit[lits[0].var()] = id;
            return;
        }
        // The second watch is the literal that is undone first.
        let deepest = (1..lits.len()).max_by_key(|&i| self.level[lits[i].var()]).unwrap_or(1);
        lits.swap(1, deepest);
        let index = self.clauses.len() as u32;
        self.watches[(!lits[0]).index()].push((index, lits[1]));
        self.watches[(!lits[1]).index()].push((index, lits[0]));
        let first = lits[0];
        self.clauses.push(Clause { lits, id, learnt: true, lbd });
        self.learnt += 1;
        self.assign(first, index);
    }

    /// Forgets half of the learnt clauses, the highest LBD first, when there are many. At level 0 only.
    pub(super) fn forget(&mut self) {
        if self.learnt < 4_000 + self.clauses.len() / 4 {
            return;
        }
        let mut lbds: Vec<u32> =
            self.clauses.iter().filter(|c| c.learnt && c.lits.len() > 2).map(|c| c.lbd).collect();
        lbds.sort_unstable();
        let Some(&median) = lbds.get(lbds.len() / 2) else { return };
        for clause in self.clauses.iter_mut().filter(|c| c.learnt && c.lits.len() > 2) {
            if clause.lbd >= median.max(3) {
                clause.lits = Vec::new();
                clause.learnt = false;
                self.learnt -= 1;
            }
        }
        // Reasons at level 0 are never looked at again: their variables have unit clauses.
        for watching in &mut self.watches {
            watching.retain(|&(index, _)| !self.clauses[index as usize].lits.is_empty());
        }
    }
}
