//! What is asked about the history of a case.

use anomalist_level::Level;

/// What is asked about a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Read committed alone.
    ReadCommitted,
    /// Read atomic alone.
    ReadAtomic,
    /// Causal alone.
    Causal,
    /// All weak levels, session guarantees included, in one run.
    AllWeak,
    /// Strong session snapshot isolation by timestamps.
    SiStamps,
    /// Strong session serializability by timestamps.
    SerStamps,
    /// Strong session serializability alone: what Cobra and VeriStrong call SER.
    Serializable,
    /// Strong session snapshot isolation alone: what PolySI and VeriStrong call SI.
    SnapshotIsolation,
    /// Strict serializability alone: what Elle asks by default.
    Strict,
    /// Serializability alone, without session order.
    PlainSerializable,
}

impl Question {
    /// Those about weak levels, asked about every history but those of the groups `timestamps` and `strong`.
    pub const ALL: [Question; 4] =
        [Question::ReadCommitted, Question::ReadAtomic, Question::Causal, Question::AllWeak];
    /// Those about timestamps.
    pub const STAMPS: [Question; 2] = [Question::SiStamps, Question::SerStamps];

    /// Those about strong levels.
    pub const STRONG: [Question; 2] = [Question::Serializable, Question::SnapshotIsolation];

    /// Those about lists with real time.
    pub const ELLE: [Question; 2] = [Question::Strict, Question::PlainSerializable];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Question::ReadCommitted => "read-committed",
            Question::ReadAtomic => "read-atomic",
            Question::Causal => "causal",
            Question::AllWeak => "all-weak",
            Question::SiStamps => "si",
            Question::SerStamps => "ser",
            Question::Serializable => "session-ser",
            Question::SnapshotIsolation => "session-si",
            Question::Strict => "strict",
            Question::PlainSerializable => "serializable",
        }
    }

    /// The levels to decide.
    fn levels(self) -> &'static [Level] {
        match self {
            Question::ReadCommitted => &[Level::ReadCommitted],
            Question::ReadAtomic => &[Level::ReadAtomic],
            Question::Causal => &[Level::Causal],
            Question::SiStamps => &[Level::StrongSessionSnapshotIsolation],
            Question::SerStamps => &[Level::StrongSessionSerializable],
            Question::Serializable => &[Level::StrongSessionSerializable],
            Question::SnapshotIsolation => &[Level::StrongSessionSnapshotIsolation],
            Question::Strict => &[Level::StrictSerializable],
            Question::PlainSerializable => &[Level::Serializable],
            Question::AllWeak => &[
                Level::CutIsolation,
                Level::ReadCommitted,
                Level::ReadYourWrites,
                Level::MonotonicReads,
                Level::MonotonicWrites,
                Level::WritesFollowReads,
                Level::ReadAtomic,
                Level::Causal,
            ],
        }
    }

    /// Their names, as a flag takes them.
    pub fn level_names(self) -> String {
        self.levels().iter().map(|level| level.info().name).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_name_levels_that_can_be_asked_for() {
        for question in Question::ALL.into_iter().chain(Question::STAMPS) {
            for name in question.level_names().split(',') {
                assert!(name.parse::<Level>().is_ok(), "{name}");
            }
        }
    }
}
