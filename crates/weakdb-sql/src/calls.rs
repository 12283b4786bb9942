//! Calls of functions: other names for what SQLite has, and other forms.

use super::functions::Function;
use super::names::{arguments, bare};
use super::rewrite::{Flow, Rewriter, refuse};
use super::trees::{call, shift, take, text};
use anomalist_sqltext::ast::{
    BinaryOperator as Op, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Statement,
};
use anomalist_sqltext::{Dialect, parse};

impl Rewriter<'_, '_> {
    pub(super) fn function(&self, expr: &mut Expr) -> Flow {
        let kind = self.names.expr(expr);
        let Expr::Function(function) = expr else { return Flow::Continue(()) };
        let name = bare(&function.name).to_lowercase();
        let known = Function::named(&name);
        if known.is_some_and(Function::is_lock) {
            return refuse(&format!("locks of the application ({name})"));
        }
        if let (FunctionArguments::Subquery(query), "array") = (&function.args, name.as_str()) {
            let sql =
                format!("WITH listed(x) AS ({query}) SELECT weak_list(json_group_array(x)) FROM listed");
            return match parse(Dialect::Sqlite, &sql) {
                Ok(Statement::Query(list)) => {
                    *expr = Expr::Subquery(list);
                    Flow::Continue(())
                }
                _ => refuse("this form of ARRAY"),
            };
        }
        if matches!(function.args, FunctionArguments::None) {
            let none =
                FunctionArgumentList { duplicate_treatment: None, args: Vec::new(), clauses: Vec::new() };
            function.args = FunctionArguments::List(none);
        }
        if let ("group_concat", FunctionArguments::List(list)) = (name.as_str(), &mut function.args) {
            let separator =
                list.clauses.iter().position(|c| matches!(c, FunctionArgumentClause::Separator(_)));
            if let Some(FunctionArgumentClause::Separator(separator)) =
                separator.map(|at| list.clauses.remove(at))
            {
                let comma = separator.value.clone().into_string().as_deref() == Some(",");
                if !comma && list.duplicate_treatment.is_some() {
                    return refuse("GROUP_CONCAT with DISTINCT and SEPARATOR");
                }
                if !comma {
                    list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(separator))));
                }
            }
        }
        let args: Vec<Expr> = arguments(function).into_iter().cloned().collect();
        if let ("date_add" | "adddate" | "date_sub" | "subdate", [moment, by @ Expr::Interval(_)]) =
            (name.as_str(), &args[..])
        {
            let sign = if name.contains("sub") { -1 } else { 1 };
            *expr = shift(moment.clone(), by.clone(), sign);
            return Flow::Continue(());
        }
        if let ("json_extract", Dialect::MySql, [document, path]) = (name.as_str(), self.dialect, &args[..]) {
            // What SQLite's function finds is a value of SQL; MySQL's is JSON.
            let (left, right) = (Box::new(document.clone()), Box::new(path.clone()));
            *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op: Op::Arrow, right }));
            return Flow::Continue(());
        }
        if name == "values"
            && let [column] = &args[..]
            && let Some(column) = super::catalogue::column_name(column)
        {
            *expr = Expr::CompoundIdentifier(vec![Ident::new("excluded"), Ident::with_quote('`', column)]);
            return Flow::Continue(());
        }
        let renamed = known.map_or(name.as_str(), |function| function.in_sqlite(&name));
        function.name = ObjectName::from(vec![Ident::new(renamed)]);
        function.within_group.clear();
        if name == "array_agg" {
            // Of no rows it is NULL.
            let listed = call("weak_list", vec![take(expr)]);
            *expr = call("nullif", vec![listed, text("{}")]);
            return Flow::Continue(());
        }
        self.exact_function(expr, &name, kind)
    }
}
