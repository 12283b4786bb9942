//! What Isolde's own engines say about the same question.

use crate::cli::Global;
use crate::interrupt;
use crate::load;
use isolde_check::elle::{Answer, Options, Validity};
use isolde_check::{Budget, Request};
use isolde_history::{History, Index};
use isolde_level::{Judgement, Verdict};
use isolde_report::explain;
use serde_json::{Value as Json, json};

/// Isolde's findings.
pub(super) struct Beyond {
    judgement: Judgement,
    /// The anomalies that Elle's answer does not name, each with its explanation.
    more: Vec<(&'static str, u64, String)>,
}

impl Beyond {
    /// Checks the models asked about, or everything if none was.
    pub fn find(history: &History, options: &Options, answer: &Answer, global: &Global) -> Beyond {
        let index = Index::build(history, load::threads(global));
        let spent = || interrupt::is_requested();
        let request = Request { levels: options.models.clone(), ..Request::default() };
        let judgement = isolde_check::check(history, &index, &request, &Budget::new(&spent));
        let named = |code: &str| answer.reported.iter().any(|(kind, _)| kind.code() == code);
        let more = judgement.anomalies.iter().filter(|a| !named(a.kind.code()));
        let more = more.map(|a| (a.kind.code(), a.count, explain(history, a))).collect();
        Beyond { judgement, more }
    }

    /// Codes of what Elle does not name.
    pub fn codes(&self) -> impl Iterator<Item = &'static str> {
        self.more.iter().map(|&(code, ..)| code)
    }

    /// The verdict with Isolde's refutations.
    pub fn worse_of(&self, validity: Validity) -> Validity {
        let violated = self.judgement.levels.iter().any(|l| l.verdict == Verdict::Violated);
        if violated { Validity::Invalid } else { validity }
    }

    /// The value of the key `isolde`.
    pub fn document(&self) -> Json {
        let levels: serde_json::Map<String, Json> = self
            .judgement
            .levels
            .iter()
            .map(|l| (l.level.name().to_owned(), l.verdict.name().into()))
            .collect();
        let more: Json = self
            .more
            .iter()
            .map(|(code, count, text)| json!({"type": code, "count": count, "explanation": text}))
            .collect();
        json!({"levels": levels, "anomalies": more})
    }
}
