//! The search: splitting, cycles, and the order that is left.

use super::*;

impl Problem<'_> {
    /// `Some(Ok)`: a clause that the literals assumed so far contradict, and its step. `Some(Err)`:
    /// literals that satisfy all clauses. `None`: out of budget.
    #[allow(clippy::type_complexity)]
    pub(super) fn search(
        &mut self,
        assumed: &mut Vec<Literal>,
        budget: &mut u32,
    ) -> Option<Result<(u32, Clause), Vec<Literal>>> {
        *budget = budget.checked_sub(1)?;
        if let Some((points, clause)) = self.cycle(assumed) {
            return Some(Ok(self.step(clause, Reason::Cycle(points))));
        }
        let mut open = None;
        for (clause, reason) in &self.clauses {
            if clause.iter().any(|l| assumed.contains(l)) {
                continue;
            }
            match clause.iter().find(|&&l| !assumed.contains(&!l)) {
                None => {
                    let (clause, reason) = (clause.clone(), reason.clone());
                    return Some(Ok(self.step(clause, reason)));
                }
                Some(&literal) => open = open.or(Some(literal)),
            }
        }
        let Some(literal) = open else { return Some(Err(assumed.clone())) };
        let mut found = Vec::new();
        for choice in [literal, !literal] {
            assumed.push(choice);
            let answer = self.search(assumed, budget);
            assumed.pop();
            match answer? {
                Err(model) => return Some(Err(model)),
                Ok((step, clause)) if !clause.contains(&!choice) => return Some(Ok((step, clause))),
                Ok(contradiction) => found.push(contradiction),
            }
        }
        let mut clause: Clause = found.iter().flat_map(|(_, c)| c.iter().copied()).collect();
        clause.remove(&literal);
        clause.remove(&!literal);
        Some(Ok(self.step(clause, Reason::Implied(found.iter().map(|f| f.0).collect()))))
    }

    fn step(&mut self, clause: Clause, reason: Reason) -> (u32, Clause) {
        self.steps.push(Step { clause: clause.iter().copied().collect(), reason });
        (self.steps.len() as u32 - 1, clause)
    }

    /// Known and assumed links between transactions that are not assumed away, with what to deny to undo
    /// each.
    fn links(&self, assumed: &[Literal]) -> Vec<(Point, Point, Vec<Literal>)> {
        let counts =
            |p: Point| self.certain.contains(&p.txn()) || assumed.contains(&Literal::Committed(p.txn()));
        let guard = |p: Point| (!self.certain.contains(&p.txn())).then_some(Literal::NotCommitted(p.txn()));
        let mut links: Vec<(Point, Point, Vec<Literal>)> = Vec::new();
        for &(a, b) in &self.known {
            links.push((a, b, Vec::new()));
        }
        for &literal in assumed {
            match literal {
                Literal::Before(a, b) => links.push((a, b, vec![!literal])),
                Literal::ReadsFrom(c) => links.extend(c.write.map(|write| {
                    let (commit, begin) = (self.history.txn_of(write), self.history.txn_of(c.read));
                    (self.commit(commit), self.begin(begin), vec![!literal])
                })),
                _ => {}
            }
        }
        links.retain(|(a, b, _)| counts(*a) && counts(*b));
        for (a, b, undo) in &mut links {
            undo.extend(guard(*a));
            undo.extend(guard(*b));
        }
        links
    }

    fn cycle(&self, assumed: &[Literal]) -> Option<(Vec<Point>, Clause)> {
        let links = self.links(assumed);
        let starts: BTreeSet<Point> = links.iter().map(|l| l.0).collect();
        for start in starts {
            let mut before: Vec<(Point, usize)> = Vec::new();
            let mut work = vec![start];
            while let Some(at) = work.pop() {
                for (i, link) in links.iter().enumerate().filter(|(_, l)| l.0 == at) {
                    if before.iter().any(|(p, _)| *p == link.1) {
                        continue;
                    }
                    before.push((link.1, i));
                    if link.1 == start {
                        let (mut points, mut clause) = (Vec::new(), Clause::new());
                        let mut here = start;
                        loop {
                            let i = before.iter().find(|(p, _)| *p == here).unwrap().1;
                            clause.extend(links[i].2.iter().copied());
                            here = links[i].0;
                            points.push(here);
                            if here == start {
                                points.reverse();
                                return Some((points, clause));
                            }
                        }
                    }
                    work.push(link.1);
                }
            }
        }
        None
    }

    /// An order of points that has all links.
    pub(super) fn execution(&self, model: &[Literal]) -> Execution {
        let mut choices = Vec::new();
        let mut counting = self.certain.clone();
        loop {
            let before = counting.len();
            choices.clear();
            for read in self.reads.iter().filter(|r| counting.contains(&r.txn)).collect::<Vec<_>>() {
                if read.candidates.len() > 1 {
                    let choice = |&write: &OpId| Choice::write(read.op, write);
                    let chosen =
                        read.candidates.iter().map(choice).find(|c| model.contains(&Literal::ReadsFrom(*c)));
                    choices.extend(chosen);
                }
            }
            counting.extend(choices.iter().filter_map(|c| c.write).map(|write| self.history.txn_of(write)));
            for read in self.reads.iter().filter(|r| counting.contains(&r.txn)).collect::<Vec<_>>() {
                if let [only] = read.candidates[..] {
                    counting.insert(self.history.txn_of(only));
                }
            }
            if counting.len() == before {
                break;
            }
        }
        let links = self.links(model);
        let mut points: BTreeSet<Point> = counting.iter().map(|&t| Point::Commit(t)).collect();
        if self.snapshot {
            points.extend(counting.iter().map(|&t| Point::Begin(t)));
        }
        let mut order = Vec::new();
        while let Some(&next) =
            points.iter().find(|&&p| !links.iter().any(|l| l.1 == p && points.contains(&l.0) && l.0 != p))
        {
            points.remove(&next);
            order.push(next);
        }
        choices.sort_unstable();
        let order = if self.snapshot {
            Order::Events(order)
        } else {
            Order::Commits(order.into_iter().map(Point::txn).collect())
        };
        Execution { order, choices }
    }
}
