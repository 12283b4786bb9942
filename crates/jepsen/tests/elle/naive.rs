//! Elle's answer from its edges: every simple cycle enumerated, then the rules of suppression and of the
//! verdict.

use crate::random::Txn;
use crate::rules::{Inferred, process, real_time};
use anomalist_jepsen::elle::{Datatype, Options, Validity};
use anomalist_level::AnomalyKind;
use anomalist_level::elle::{self, AntiDependencies, CYCLE_EXISTS, CYCLES, CycleSpec, Edge, SEARCH_ORDER};
use std::collections::BTreeSet;

pub struct Naive {
    pub validity: Validity,
    pub types: Vec<&'static str>,
    pub not: Vec<&'static str>,
}

type Edges = BTreeSet<(usize, usize, Edge)>;

/// `None` if the answer hangs on which of several cycles a search meets first.
pub fn answer(txns: &[Txn], datatype: Datatype, options: &Options, inferred: &Inferred) -> Option<Naive> {
    let prohibited = options.prohibited();
    let asks = |order| CYCLES.iter().any(|spec| prohibited.contains(&spec.kind(Some(order))));
    let mut edges: Edges = inferred.edges.iter().copied().collect();
    if asks(Edge::Realtime) {
        edges.extend(real_time(txns).into_iter().map(|(a, b)| (a, b, Edge::Realtime)));
    } else if asks(Edge::Process) {
        edges.extend(process(txns).into_iter().map(|(a, b)| (a, b, Edge::Process)));
    }
    let mut found: BTreeSet<AnomalyKind> =
        inferred.anomalies.keys().map(|name| elle::anomaly(name).unwrap().kind).collect();
    if edges.is_empty() {
        found.insert(AnomalyKind::EmptyTransactionGraph);
    }
    for component in components(txns.len(), &edges) {
        let inside: Edges = edges
            .iter()
            .copied()
            .filter(|(a, b, _)| component.contains(a) && component.contains(b))
            .collect();
        found.extend(search(&inside, datatype)?);
    }
    Some(verdict(&found, &prohibited))
}

fn reach(n: usize, edges: &BTreeSet<(usize, usize)>) -> Vec<Vec<bool>> {
    let mut r = vec![vec![false; n]; n];
    edges.iter().for_each(|&(a, b)| r[a][b] = true);
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                r[i][j] |= r[i][k] && r[k][j];
            }
        }
    }
    r
}

fn components(n: usize, edges: &Edges) -> BTreeSet<BTreeSet<usize>> {
    let r = reach(n, &edges.iter().map(|&(a, b, _)| (a, b)).collect());
    let part = |i: usize| (0..n).filter(|&j| r[i][j] && r[j][i]).collect::<BTreeSet<usize>>();
    (0..n).map(part).filter(|part| part.len() > 1).collect()
}

fn search(edges: &Edges, datatype: Datatype) -> Option<BTreeSet<AnomalyKind>> {
    let n = edges.iter().map(|e| e.0.max(e.1) + 1).max()?;
    let mut found = BTreeSet::new();
    let mut impossible = Vec::new();
    for exists in CYCLE_EXISTS {
        if impossible.contains(&exists.model) {
            continue;
        }
        let pick = |set: &[Edge]| -> Vec<(usize, usize)> {
            edges.iter().filter(|e| set.contains(&e.2)).map(|&(a, b, _)| (a, b)).collect()
        };
        let (dep, then) = (pick(exists.edges), pick(exists.then));
        let mut graph: BTreeSet<(usize, usize)> = dep.iter().copied().collect();
        for &(a, b) in &dep {
            graph.extend(then.iter().filter(|t| t.0 == b).map(|t| (a, t.1)));
        }
        if (0..n).any(|i| reach(n, &graph)[i][i]) {
            found.insert(exists.anomaly);
            impossible = elle::impossible(&found.iter().copied().collect::<Vec<_>>());
        }
    }
    let possible: Vec<_> = CYCLE_EXISTS.iter().map(|e| e.model).filter(|m| !impossible.contains(m)).collect();
    let ruled_out = elle::prohibited(&possible);
    let cycles = Cycles::enumerate(n, edges, datatype);
    let mut types: Vec<AnomalyKind> = Vec::new();
    for &kind in SEARCH_ORDER {
        if ruled_out.contains(&kind) || types.iter().any(|t| t.implies(kind)) {
            continue;
        }
        if cycles.reported.contains(&kind) {
            types.push(kind);
        } else if let Some((_, reported)) = cycles.by_any_relation.iter().find(|(k, _)| *k == kind) {
            let new: Vec<AnomalyKind> = reported.iter().copied().filter(|t| !types.contains(t)).collect();
            if !new.is_empty() && reported.len() > 1 {
                return None;
            }
            types.extend(new);
        }
    }
    found.extend(types);
    Some(found)
}

/// The types of all simple cycles.
struct Cycles {
    /// As they are reported.
    reported: BTreeSet<AnomalyKind>,
    /// For the kinds without anti-dependencies: what cycles of the kind by any relations are reported as.
    by_any_relation: Vec<(AnomalyKind, BTreeSet<AnomalyKind>)>,
}

impl Cycles {
    fn enumerate(n: usize, edges: &Edges, datatype: Datatype) -> Cycles {
        let mut cycles = Cycles { reported: BTreeSet::new(), by_any_relation: Vec::new() };
        for first in 0..n {
            cycles.extend(&mut vec![first], edges, datatype);
        }
        cycles
    }

    fn extend(&mut self, path: &mut Vec<usize>, edges: &Edges, datatype: Datatype) {
        let at = path[path.len() - 1];
        let next: BTreeSet<usize> = edges.iter().filter(|e| e.0 == at).map(|e| e.1).collect();
        for to in next {
            if to == path[0] {
                self.close(path, edges, datatype);
            } else if to > path[0] && !path.contains(&to) {
                path.push(to);
                self.extend(path, edges, datatype);
                path.pop();
            }
        }
    }

    fn close(&mut self, path: &[usize], edges: &Edges, datatype: Datatype) {
        let data = match datatype {
            Datatype::ListAppend => [Edge::Ww, Edge::Wr, Edge::Rw],
            Datatype::RwRegister => [Edge::Wr, Edge::Ww, Edge::Rw],
        };
        let precedence: Vec<Edge> = data.into_iter().chain([Edge::Process, Edge::Realtime]).collect();
        let relations: Vec<Vec<Edge>> = (0..path.len())
            .map(|i| {
                let ends = (path[i], path[(i + 1) % path.len()]);
                precedence.iter().copied().filter(|&e| edges.contains(&(ends.0, ends.1, e))).collect()
            })
            .collect();
        let reported = kind(&relations.iter().map(|r| r[0]).collect::<Vec<_>>());
        self.reported.insert(reported);
        let mut choices: Vec<Vec<Edge>> = vec![Vec::new()];
        for step in &relations {
            choices = choices.iter().flat_map(|c| step.iter().map(|&e| [&c[..], &[e]].concat())).collect();
        }
        for choice in choices.iter().filter(|c| !c.contains(&Edge::Rw)) {
            let kind = kind(choice);
            match self.by_any_relation.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, all)) => _ = all.insert(reported),
                None => self.by_any_relation.push((kind, BTreeSet::from([reported]))),
            }
        }
    }
}

/// The type of a cycle by its steps.
fn kind(steps: &[Edge]) -> AnomalyKind {
    let anti = |i: usize| steps[i % steps.len()] == Edge::Rw;
    let count = (0..steps.len()).filter(|&i| anti(i)).count();
    let adjacent = count > 1 && (0..steps.len()).any(|i| anti(i) && anti(i + 1));
    let wanted = match (count, adjacent) {
        (0, _) => AntiDependencies::None,
        (1, _) => AntiDependencies::One,
        (_, false) => AntiDependencies::NonAdjacent,
        (_, true) => AntiDependencies::Adjacent,
    };
    let reads = steps.contains(&Edge::Wr);
    let fits = |spec: &&CycleSpec| {
        spec.anti_dependencies == wanted
            && !spec.required.contains(&Edge::Rwp)
            && (count > 0 || spec.required.is_empty() != reads)
    };
    let order = [Edge::Realtime, Edge::Process].into_iter().find(|o| steps.contains(o));
    CYCLES.iter().find(fits).unwrap().kind(order)
}

fn verdict(found: &BTreeSet<AnomalyKind>, prohibited: &[AnomalyKind]) -> Naive {
    let exists = |kind: &AnomalyKind| CYCLE_EXISTS.iter().find(|e| e.anomaly == *kind);
    let reportable: Vec<AnomalyKind> = found
        .iter()
        .copied()
        .filter(|k| prohibited.contains(k) || *k == AnomalyKind::EmptyTransactionGraph)
        .collect();
    let plain: Vec<AnomalyKind> = reportable.iter().copied().filter(|k| exists(k).is_none()).collect();
    let broken = elle::impossible(&plain);
    let shown = reportable.into_iter().filter(|k| exists(k).is_none_or(|e| !broken.contains(&e.model)));
    let mut types: Vec<&str> = shown.map(AnomalyKind::code).collect();
    types.sort_unstable();
    let all: Vec<AnomalyKind> = found.iter().copied().collect();
    let mut not: Vec<&str> = elle::boundary(&all).not.iter().map(|m| m.printed).collect();
    not.sort_unstable();
    if types.is_empty() {
        not.clear();
    }
    let validity = match (found.iter().any(|k| prohibited.contains(k)), types.is_empty()) {
        (true, _) => Validity::Invalid,
        (false, true) => Validity::Valid,
        (false, false) => Validity::Unknown,
    };
    Naive { validity, types, not }
}
