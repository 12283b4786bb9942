//! The rows that describe what users have defined: tables with their columns, indexes and constraints,
//! views, sequences.

use super::{Rows, places, quote};
use crate::catalogue::Table;
use crate::describe::{self, modifier, number};
use crate::types::Type;

impl Rows<'_> {
    pub(super) fn definitions(&mut self) {
        for table in self.catalogue.tables() {
            self.table(&table);
        }
        for (name, view) in self.catalogue.views() {
            let number = number(view.id);
            self.relation(number, &name, 'v', &[("relhasrules", "1".into())]);
            let (schema, shown) = (quote(self.schema), quote(&view.shown));
            self.add(
                "pg_views",
                &[("schemaname", schema.clone()), ("viewname", quote(&name)), ("definition", shown.clone())],
            );
            self.add(
                "information_schema_views",
                &[("table_schema", schema), ("table_name", quote(&name)), ("view_definition", shown)],
            );
            self.listed(&name, "VIEW");
            for (at, (column, kind)) in view.columns.iter().enumerate() {
                self.attribute(number, at, column, *kind, modifier(*kind, None), &[]);
            }
        }
        for (name, sequence) in self.catalogue.sequences() {
            self.sequence(number(sequence.id), &name, Type::Int8, sequence.start, sequence.increment);
        }
    }

    /// In `pg_class`.
    fn relation(&mut self, number: i64, name: &str, kind: char, more: &[(&str, String)]) {
        let access = match kind {
            'r' => "2",
            'i' => "403",
            _ => "0",
        };
        let mut row = vec![
            ("oid", number.to_string()),
            ("relname", quote(name)),
            ("relnamespace", "2200".into()),
            ("relkind", quote(&kind.to_string())),
            ("relowner", "10".into()),
            ("relpersistence", "'p'".into()),
            ("relam", access.into()),
            ("relreplident", if kind == 'r' { "'d'" } else { "'n'" }.into()),
            ("reltuples", "-1".into()),
        ];
        row.extend_from_slice(more);
        let no = "relispartition reloftype relrowsecurity relforcerowsecurity reltablespace reltoastrelid relchecks \
                  relhasindex relhasrules relhastriggers";
        for column in no.split_whitespace() {
            if !row.iter().any(|(name, _)| *name == column) {
                row.push((column, "0".into()));
            }
        }
        self.add("pg_class", &row);
    }

    /// In `information_schema.tables`.
    fn listed(&mut self, name: &str, kind: &str) {
        let row = [
            ("table_catalog", quote(self.database)),
            ("table_schema", quote(self.schema)),
            ("table_name", quote(name)),
            ("table_type", quote(kind)),
            ("engine", "'InnoDB'".into()),
        ];
        self.add("information_schema_tables", &row);
    }

    /// In `pg_attribute`.
    fn attribute(
        &mut self,
        of: i64,
        at: usize,
        name: &str,
        kind: Type,
        modifier: i64,
        more: &[(&str, String)],
    ) {
        let storage = match kind {
            Type::Numeric(_) => "'m'",
            Type::Text | Type::Unknown | Type::Varchar(_) | Type::Char(_) | Type::Bytes | Type::Json => "'x'",
            _ => "'p'",
        };
        let mut row = vec![
            ("attrelid", of.to_string()),
            ("attname", quote(name)),
            ("atttypid", kind.oid().to_string()),
            ("attnum", (at + 1).to_string()),
            ("attisdropped", "0".into()),
            ("atttypmod", modifier.to_string()),
            ("attidentity", "''".into()),
            ("attgenerated", "''".into()),
            ("attcollation", "0".into()),
            ("attstorage", storage.into()),
            ("attcompression", "''".into()),
            ("attstattarget", "-1".into()),
            ("attislocal", "1".into()),
        ];
        row.extend_from_slice(more);
        for column in ["attnotnull", "atthasdef"] {
            if !row.iter().any(|(name, _)| *name == column) {
                row.push((column, "0".into()));
            }
        }
        self.add("pg_attribute", &row);
    }

    fn sequence(&mut self, number: i64, name: &str, kind: Type, start: i64, increment: i64) {
        self.relation(number, name, 'S', &[]);
        let largest = if kind == Type::Int8 { i64::MAX } else { i64::from(i32::MAX) };
        let (low, high) = if increment < 0 { (i64::MIN, -1) } else { (1, largest) };
        self.add(
            "pg_sequence",
            &[
                ("seqrelid", number.to_string()),
                ("seqtypid", kind.oid().to_string()),
                ("seqstart", start.to_string()),
                ("seqmin", low.to_string()),
                ("seqmax", high.to_string()),
                ("seqincrement", increment.to_string()),
                ("seqcycle", "0".into()),
                ("seqcache", "1".into()),
            ],
        );
        self.add(
            "pg_sequences",
            &[
                ("schemaname", quote(self.schema)),
                ("sequencename", quote(name)),
                ("start_value", start.to_string()),
                ("increment_by", increment.to_string()),
            ],
        );
    }

    fn table(&mut self, table: &Table) {
        let of = number(table.id);
        let refers = |other: &Table| other.foreign.iter().any(|f| f.parent.eq_ignore_ascii_case(&table.name));
        // PostgreSQL keeps foreign keys by triggers, and clients ask for them where there are some.
        let triggers = !table.foreign.is_empty() || self.catalogue.tables().iter().any(|t| refers(t));
        let indexes = describe::indexes(table, self.catalogue);
        let flags = [
            ("relhasindex", u8::from(!indexes.is_empty()).to_string()),
            ("relchecks", table.checks.len().to_string()),
            ("relhastriggers", u8::from(triggers).to_string()),
            ("relnatts", table.columns.len().to_string()),
        ];
        self.relation(of, &table.name, 'r', &flags);
        self.add(
            "pg_tables",
            &[
                ("schemaname", quote(self.schema)),
                ("tablename", quote(&table.name)),
                ("tableowner", "'postgres'".into()),
            ],
        );
        self.listed(&table.name, "BASE TABLE");
        for at in 0..table.columns.len() {
            self.column(table, at);
        }
        for (number, name, place) in describe::owned_sequences(table) {
            let kind = table.columns[place - 1].kind;
            self.sequence(number, &name, kind, 1, 1);
            let class = ("classid", "1259".to_owned());
            self.add(
                "pg_depend",
                &[
                    class,
                    ("objid", number.to_string()),
                    ("objsubid", "0".into()),
                    ("refclassid", "1259".into()),
                    ("refobjid", of.to_string()),
                    ("refobjsubid", place.to_string()),
                    ("deptype", "'a'".into()),
                ],
            );
        }
        for index in &indexes {
            self.index(table, index);
        }
        for constraint in describe::constraints(table, self.catalogue) {
            self.constraint(table, &constraint);
        }
    }

    fn column(&mut self, table: &Table, at: usize) {
        let column = &table.columns[at];
        let (of, place) = (number(table.id), (at + 1).to_string());
        let length = match column.kind {
            Type::Varchar(Some(n)) | Type::Char(n) => Some(n),
            _ => None,
        };
        let default = column.shown_default.clone().or_else(|| {
            column.auto.then(|| format!("nextval('{}_{}_seq'::regclass)", table.name, column.name))
        });
        let more = [
            ("attnotnull", u8::from(column.not_null).to_string()),
            ("atthasdef", u8::from(default.is_some()).to_string()),
        ];
        self.attribute(of, at, &column.name, column.kind, modifier(column.kind, column.precision), &more);
        if let Some(default) = &default {
            let row = [("adrelid", of.to_string()), ("adnum", place.clone()), ("adbin", quote(default))];
            self.add("pg_attrdef", &row);
        }
        let or_null = |n: Option<String>| n.unwrap_or_else(|| "NULL".into());
        let scale = match column.kind {
            Type::Numeric(scale) => scale,
            _ => None,
        };
        self.add(
            "information_schema_columns",
            &[
                ("table_catalog", quote(self.database)),
                ("table_schema", quote(self.schema)),
                ("table_name", quote(&table.name)),
                ("column_name", quote(&column.name)),
                ("ordinal_position", place),
                ("column_default", or_null(default.as_deref().map(quote))),
                ("is_nullable", if column.not_null { "'NO'" } else { "'YES'" }.into()),
                ("data_type", quote(column.kind.name())),
                ("column_type", quote(&column.mysql_type())),
                ("column_key", if table.key.contains(&at) { "'PRI'" } else { "''" }.into()),
                ("extra", if column.auto { "'auto_increment'" } else { "''" }.into()),
                ("character_maximum_length", or_null(length.map(|n| n.to_string()))),
                ("numeric_precision", or_null(column.precision.map(|n| n.to_string()))),
                ("numeric_scale", or_null(scale.map(|n| n.to_string()))),
                ("column_comment", "''".into()),
            ],
        );
    }

    fn index(&mut self, table: &Table, index: &describe::Index) {
        self.relation(index.number, &index.name, 'i', &[]);
        let columns: Vec<String> = index.places.iter().map(usize::to_string).collect();
        // Nothing special about any column: ascending, the default operators and collation.
        let usual = quote(&vec!["0"; columns.len()].join(" "));
        let yes = |what: bool| u8::from(what).to_string();
        self.add(
            "pg_index",
            &[
                ("indexrelid", index.number.to_string()),
                ("indrelid", number(table.id).to_string()),
                ("indisunique", yes(index.unique)),
                ("indisprimary", yes(index.primary)),
                ("indkey", quote(&columns.join(" "))),
                ("indclass", usual.clone()),
                ("indoption", usual.clone()),
                ("indcollation", usual),
                ("indisvalid", "1".into()),
                ("indimmediate", "1".into()),
                ("indisclustered", "0".into()),
                ("indisreplident", "0".into()),
                ("indisexclusion", "0".into()),
                ("indnullsnotdistinct", "0".into()),
                ("indnatts", columns.len().to_string()),
                ("indnkeyatts", columns.len().to_string()),
            ],
        );
        self.add(
            "pg_indexes",
            &[
                ("schemaname", quote(self.schema)),
                ("tablename", quote(&table.name)),
                ("indexname", quote(&index.name)),
                ("indexdef", quote(&index.definition(table))),
            ],
        );
        for (at, &place) in index.places.iter().enumerate() {
            if let Some(column) = place.checked_sub(1).map(|c| &table.columns[c]) {
                let modifier = modifier(column.kind, column.precision);
                self.attribute(index.number, at, &column.name, column.kind, modifier, &[]);
                self.add(
                    "information_schema_statistics",
                    &[
                        ("table_schema", quote(self.schema)),
                        ("table_name", quote(&table.name)),
                        ("index_name", quote(&index.name)),
                        ("column_name", quote(&column.name)),
                        ("seq_in_index", (at + 1).to_string()),
                        ("non_unique", yes(!index.unique)),
                    ],
                );
            }
        }
    }

    fn constraint(&mut self, table: &Table, constraint: &describe::Constraint) {
        let (parent, referred) = constraint.parent.as_ref().map_or((0, Vec::new()), |(parent, columns)| {
            let at = columns.iter().filter_map(|c| parent.column(c)).map(|c| c + 1).collect();
            (number(parent.id), at)
        });
        let letter = |at: usize| quote(&constraint.actions[at].to_string());
        self.add(
            "pg_constraint",
            &[
                ("oid", constraint.number.to_string()),
                ("conname", quote(&constraint.name)),
                ("connamespace", "2200".into()),
                ("conrelid", number(table.id).to_string()),
                ("contype", quote(&constraint.kind.to_string())),
                ("conindid", constraint.index.to_string()),
                ("confrelid", parent.to_string()),
                ("conkey", places(&constraint.columns)),
                ("confkey", places(&referred)),
                ("confupdtype", letter(0)),
                ("confdeltype", letter(1)),
                ("confmatchtype", if constraint.kind == 'f' { "'s'" } else { "' '" }.into()),
                ("conparentid", "0".into()),
                ("contypid", "0".into()),
                ("condeferrable", "0".into()),
                ("condeferred", "0".into()),
                ("convalidated", "1".into()),
                ("conislocal", "1".into()),
                ("connoinherit", "0".into()),
            ],
        );
        let (schema, name) = (quote(self.schema), quote(&constraint.name));
        let kind = match constraint.kind {
            'p' => "'PRIMARY KEY'",
            'u' => "'UNIQUE'",
            'f' => "'FOREIGN KEY'",
            _ => "'CHECK'",
        };
        self.add(
            "information_schema_table_constraints",
            &[
                ("constraint_schema", schema.clone()),
                ("constraint_name", name.clone()),
                ("table_schema", schema.clone()),
                ("table_name", quote(&table.name)),
                ("constraint_type", kind.into()),
            ],
        );
        if constraint.kind == 'c' {
            let clause = constraint.definition.trim_start_matches("CHECK ");
            let row = [
                ("constraint_schema", schema.clone()),
                ("table_name", quote(&table.name)),
                ("constraint_name", name.clone()),
                ("check_clause", quote(clause)),
            ];
            self.add("information_schema_check_constraints", &row);
        }
        for (at, &column) in constraint.columns.iter().enumerate() {
            let mut row = vec![
                ("constraint_schema", schema.clone()),
                ("constraint_name", name.clone()),
                ("table_schema", schema.clone()),
                ("table_name", quote(&table.name)),
                ("column_name", quote(&table.columns[column - 1].name)),
                ("ordinal_position", (at + 1).to_string()),
            ];
            if let Some((parent, columns)) = &constraint.parent {
                row.push(("referenced_table_schema", schema.clone()));
                row.push(("referenced_table_name", quote(&parent.name)));
                row.push(("referenced_column_name", columns.get(at).map_or("NULL".into(), |c| quote(c))));
            }
            self.add("information_schema_key_column_usage", &row);
        }
    }
}
