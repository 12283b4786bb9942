//! What follows from a step, for the levels that are judged.

use anomalist_history::{FaultKind, Interval, KeyId};

/// A transaction that counts as committed, or a *gap*: the place between what the reads of a list show
/// and the appends that they do not. Dense, in order of arrival.
pub(crate) type Node = u32;

/// One thing that became known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact {
    /// A transaction counts. `ends`: its end is known, and others may follow it in time.
    Counts { node: Node, interval: Option<Interval>, ends: bool },
    /// A gap.
    Gap { node: Node },
    /// One transaction directly follows another in its session.
    Session { from: Node, to: Node },
    /// `to` read the version of `from`.
    Read { from: Node, to: Node, key: KeyId },
    /// `from` installed a version before `to`. `shown`: lists show it, whatever the level.
    Version { from: Node, to: Node, key: KeyId, shown: bool },
    /// `from` read a version older than that of `to`.
    Overwritten { from: Node, to: Node, key: KeyId },
    /// Both overwrote one version that both had read.
    LostUpdate { nodes: [Node; 2], key: KeyId },
    /// A read that no execution explains.
    Fault { node: Node, kind: FaultKind, key: KeyId },
    /// A register's writers are in no known order.
    Open { key: KeyId },
    /// An append that no read shows, behind others of its list; without a node: a longer read was made,
    /// and several are left.
    Unseen { key: KeyId, node: Option<Node> },
    /// More is known about where the reads of a transaction are from.
    Resolved { node: Node },
}
