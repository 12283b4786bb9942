//! The rows that every server has: schemas, types, the database, its user, settings.

use super::{Rows, quote};
use crate::arrays::Element;
use crate::settings;
use crate::system::TYPES;
use crate::types::Type;

impl Rows<'_> {
    /// All of them.
    pub(super) fn server(&mut self) {
        self.schemas();
        self.types();
        self.database();
        self.user();
        self.storage();
        self.settings();
    }

    /// In `pg_namespace` and `information_schema.schemata`.
    fn schemas(&mut self) {
        for (number, name) in [(11, "pg_catalog"), (2200, "public"), (13_000, "information_schema")] {
            self.add(
                "pg_namespace",
                &[("oid", number.to_string()), ("nspname", quote(name)), ("nspowner", "10".into())],
            );
            self.add(
                "information_schema_schemata",
                &[("catalog_name", quote(&self.shared.database)), ("schema_name", quote(name))],
            );
        }
    }

    /// In `pg_type`.
    fn types(&mut self) {
        for (kind, name) in TYPES {
            let (category, element) = match kind {
                Type::List(element) => ("'A'", element.kind().oid()),
                _ => (if kind.is_number() { "'N'" } else { "'S'" }, 0),
            };
            let list = Element::of(*kind);
            let list = if list.kind() == *kind { Type::List(list).oid() } else { 0 };
            self.add(
                "pg_type",
                &[
                    ("oid", kind.oid().to_string()),
                    ("typname", quote(name)),
                    ("typnamespace", "11".into()),
                    ("typtype", "'b'".into()),
                    ("typelem", element.to_string()),
                    ("typarray", list.to_string()),
                    ("typcategory", category.into()),
                    ("typrelid", "0".into()),
                    ("typbasetype", "0".into()),
                    ("typdelim", "','".into()),
                    ("typnotnull", "0".into()),
                ],
            );
        }
    }

    /// In `pg_database`.
    fn database(&mut self) {
        self.add(
            "pg_database",
            &[
                ("oid", "5".into()),
                ("datname", quote(&self.shared.database)),
                ("datallowconn", "1".into()),
                ("encoding", "6".into()),
                ("datcollate", "'C'".into()),
                ("datctype", "'C.UTF-8'".into()),
                ("datlocprovider", "'c'".into()),
                ("datdba", "10".into()),
                ("datistemplate", "0".into()),
                ("dattablespace", "1663".into()),
            ],
        );
    }

    /// The one user, who may do everything.
    fn user(&mut self) {
        let can = |what: &'static str| (what, "1".to_owned());
        self.add(
            "pg_roles",
            &[
                ("oid", "10".into()),
                ("rolname", quote(&self.shared.user)),
                can("rolsuper"),
                can("rolcanlogin"),
                can("rolinherit"),
                can("rolcreaterole"),
                can("rolcreatedb"),
                can("rolreplication"),
                can("rolbypassrls"),
                ("rolconnlimit", "-1".into()),
            ],
        );
        self.add(
            "pg_user",
            &[("usename", quote(&self.shared.user)), ("usesysid", "10".into()), ("usesuper", "1".into())],
        );
    }

    /// In `pg_tablespace` and `pg_am`.
    fn storage(&mut self) {
        self.add("pg_tablespace", &[("oid", "1663".into()), ("spcname", "'pg_default'".into())]);
        for (number, name) in [(2, "heap"), (403, "btree")] {
            self.add("pg_am", &[("oid", number.to_string()), ("amname", quote(name))]);
        }
    }

    /// In `pg_settings`.
    fn settings(&mut self) {
        for (name, value) in settings::all(self.shared) {
            let value = quote(&value);
            self.add(
                "pg_settings",
                &[
                    ("name", quote(&name)),
                    ("setting", value.clone()),
                    ("source", "'default'".into()),
                    ("boot_val", value),
                ],
            );
        }
    }
}
