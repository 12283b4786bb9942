//! Explanations.

use super::fixture::{checked, example};
use crate::{Style, dot, explain, svg, text};
use isolde_level::AnomalyKind;

#[test]
fn dump() {
    for &kind in &AnomalyKind::ALL[..18] {
        let c = example(kind);
        let Some(a) = c.judgement.anomalies.iter().find(|a| a.kind == kind) else {
            println!(
                "{kind}: not found: {:?}",
                c.judgement.anomalies.iter().map(|a| a.kind).collect::<Vec<_>>()
            );
            continue;
        };
        println!("== {kind}\n{}", explain(&c.history, a));
        std::fs::write(format!("/tmp/svg/{kind}.svg"), svg(&c.history, a)).unwrap();
        std::fs::write(format!("/tmp/svg/{kind}.dot"), dot(&c.history, a)).unwrap();
    }
    let c = example(AnomalyKind::FracturedReadCm);
    println!("{}", text(&c.subject(), &Style::default()));
    let c = checked("a(x,1) || a(x,2) || r(x,[1 2]) || r(x,[2 1])");
    println!("{}", text(&c.subject(), &Style::default()));
}
