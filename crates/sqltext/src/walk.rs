//! Walks through trees: every visitor by the same code.
//!
//! The parser's `Visit::visit` is generic: each type of visitor gets a copy of the walk through every kind
//! of statement, and eleven visitors got eleven. Here a visitor is behind a pointer, so that there is one
//! copy for those that read and one for those that change, at the price of a call through a pointer per
//! node.

use crate::ast::{
    Expr, GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, Query, Select, SelectItem, SetExpr,
    Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// A part of a tree that can be walked through.
pub trait Tree {
    /// Shows all of it to a visitor.
    fn show(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()>;

    /// Lets a visitor change all of it.
    fn submit(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()>;
}

/// Shows a tree to a visitor; what it stopped with.
pub fn read<V: Visitor>(tree: &(impl Tree + ?Sized), visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = Keep { visitor, stopped: None };
    let _ = tree.show(&mut kept);
    kept.stopped.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Lets a visitor change a tree; what it stopped with.
pub fn change<V: VisitorMut>(tree: &mut (impl Tree + ?Sized), visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = KeepMut { visitor, stopped: None };
    let _ = tree.submit(&mut kept);
    kept.stopped.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Whether an expression of a tree, from the outside in, is what is looked for.
pub fn any_expr(tree: &(impl Tree + ?Sized), is_wanted: &mut dyn FnMut(&Expr) -> bool) -> bool {
    tree.show(&mut Finder(is_wanted)).is_break()
}

/// Changes every expression of a tree, from the inside out.
pub fn each_expr(tree: &mut (impl Tree + ?Sized), change: &mut dyn FnMut(&mut Expr)) {
    let _ = tree.submit(&mut Changer(change));
}

struct Finder<'a>(&'a mut dyn FnMut(&Expr) -> bool);

impl Visitor for Finder<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if (self.0)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Changer<'a>(&'a mut dyn FnMut(&mut Expr));

impl VisitorMut for Changer<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}

macro_rules! trees {
    ($($tree:ty),*) => { $(
        impl Tree for $tree {
            fn show(&self, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
                self.visit(&mut Behind(visitor))
            }

            fn submit(&mut self, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
                self.visit(&mut BehindMut(visitor))
            }
        }
    )* };
}

trees!(Statement, Query, SetExpr, Select, SelectItem, Expr);

/// A visitor behind a pointer: the one type of visitor that reads.
struct Behind<'a>(&'a mut dyn Visitor<Break = ()>);

/// The one type of visitor that changes.
struct BehindMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// A visitor, and what it stopped with.
struct Keep<'a, V: Visitor> {
    visitor: &'a mut V,
    stopped: Option<V::Break>,
}

/// A visitor that changes, and what it stopped with.
struct KeepMut<'a, V: VisitorMut> {
    visitor: &'a mut V,
    stopped: Option<V::Break>,
}

impl<V: Visitor> Keep<'_, V> {
    fn keep(&mut self, flow: ControlFlow<V::Break>) -> ControlFlow<()> {
        flow.map_break(|value| self.stopped = Some(value))
    }
}

impl<V: VisitorMut> KeepMut<'_, V> {
    fn keep(&mut self, flow: ControlFlow<V::Break>) -> ControlFlow<()> {
        flow.map_break(|value| self.stopped = Some(value))
    }
}

/// Every hook of both traits.
macro_rules! hooks {
    ($($hook:ident($node:ty)),* $(,)?) => {
        impl Visitor for Behind<'_> {
            type Break = ();
            $(fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$hook(node)
            })*
        }

        impl VisitorMut for BehindMut<'_> {
            type Break = ();
            $(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$hook(node)
            })*
        }

        impl<V: Visitor> Visitor for Keep<'_, V> {
            type Break = ();
            $(fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                let flow = self.visitor.$hook(node);
                self.keep(flow)
            })*
        }

        impl<V: VisitorMut> VisitorMut for KeepMut<'_, V> {
            type Break = ();
            $(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                let flow = self.visitor.$hook(node);
                self.keep(flow)
            })*
        }
    };
}

hooks! {
    pre_visit_query(Query), post_visit_query(Query),
    pre_visit_select(Select), post_visit_select(Select),
    pre_visit_relation(ObjectName), post_visit_relation(ObjectName),
    pre_visit_table_factor(TableFactor), post_visit_table_factor(TableFactor),
    pre_visit_expr(Expr), post_visit_expr(Expr),
    pre_visit_statement(Statement), post_visit_statement(Statement),
    pre_visit_value(ValueWithSpan), post_visit_value(ValueWithSpan),
    pre_visit_ident(Ident), post_visit_ident(Ident),
    pre_visit_order_by(OrderBy), post_visit_order_by(OrderBy),
    pre_visit_order_by_expr(OrderByExpr), post_visit_order_by_expr(OrderByExpr),
    pre_visit_group_by(GroupByExpr), post_visit_group_by(GroupByExpr),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, parse};

    /// Stops at the first number, with it.
    struct FirstNumber;

    impl Visitor for FirstNumber {
        type Break = String;

        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<String> {
            match value.to_string() {
                text if text.parse::<i64>().is_ok() => ControlFlow::Break(text),
                _ => ControlFlow::Continue(()),
            }
        }
    }

    struct Louder;

    impl VisitorMut for Louder {
        type Break = ();

        fn post_visit_ident(&mut self, ident: &mut Ident) -> ControlFlow<()> {
            ident.value = ident.value.to_uppercase();
            ControlFlow::Continue(())
        }
    }

    #[test]
    fn every_part_is_shown_until_the_visitor_stops() {
        let statement = parse(Dialect::PostgreSql, "SELECT a FROM t WHERE b IN (SELECT 7 FROM u) AND c = 8");
        let mut statement = statement.unwrap();
        assert_eq!(read(&statement, &mut FirstNumber), ControlFlow::Break("7".to_owned()));
        assert!(change(&mut statement, &mut Louder).is_continue());
        let expected = "SELECT A FROM T WHERE B IN (SELECT 7 FROM U) AND C = 8";
        assert_eq!(statement.to_string(), expected);
    }
}
