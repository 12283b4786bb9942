//! What would have been seen if an edge of a witness pointed the other way: the alternative that the
//! evidence refutes.

use crate::witness_view::WitnessView;
use anomalist_history::OpId;
use anomalist_level::{Edge, Evidence, Node, VersionReason};

/// The refuted alternative of an edge, as a sentence; `None` where there is nothing to suppose, because the
/// clients saw the order themselves.
pub(crate) fn otherwise(view: &WitnessView<'_>, edge: &Edge) -> Option<String> {
    let name = |op: OpId| view.name(view.history.txn_of(op));
    let (from, to) = (view.node(edge.from), view.node(edge.to));
    if edge.from == Node::Initial {
        return None;
    }
    let other = format!("If {to} came before {from}");
    match &edge.evidence {
        Evidence::Session | Evidence::RealTime | Evidence::Given { .. } => None,
        Evidence::Read { write, read } => Some(format!(
            "{other}, {} would have read {} = {} before it was written.",
            name(*read),
            view.key_of(*read),
            view.value(write.unwrap_or(*read))
        )),
        Evidence::Overwritten { read, write, .. } => Some(format!(
            "{other}, {} would have found {} in {}, but it read {}.",
            name(*read),
            view.value(*write),
            view.key_of(*read),
            view.value(*read)
        )),
        Evidence::Forced { read, visible_write, .. } => Some(format!(
            "{other}, {}'s {} would be the newer version of {} that {} sees, but it read {}.",
            name(*visible_write),
            view.value(*visible_write),
            view.key_of(*read),
            name(*read),
            view.value(*read)
        )),
        Evidence::Version { first, second, read } => Some(format!(
            "{other}, {} would not have found {} before {} in {}.",
            name(*read),
            view.value(*first),
            view.value(*second),
            view.key_of(*read)
        )),
        Evidence::Ordered { reason, .. } => match reason {
            VersionReason::Given | VersionReason::Stamps | VersionReason::Numbered => None,
            _ => Some(format!("{other}, this would not be so: {}.", crate::versions::reason(view, *reason))),
        },
    }
}
