//! What is put into the user's database, and taken out again.
//!
//! One schema has the log of versions and functions, one schema for each schema of tables has views, and
//! each table has two triggers. Everything is named so that it can be found without a record: removing it
//! needs nothing that a killed process would have known.
//!
//! The trigger writes rows as text (`ROW(…)::text`), and the view reads them back by the table's row type:
//! PostgreSQL's own way out and back is exact for every type. The log itself does not depend on that type,
//! so that `ALTER TABLE` stays possible. It is not logged for recovery: after a crash of the server the
//! versions are gone, and the tables are as they were.
//!
//! The view has every row of the table whose key is not hidden by the choice, and the versions that the
//! choice shows instead: the row after a change, or the row before it by a negative number. The choice is a
//! setting of the session; without one, the view shows the table.

use crate::catalogue::{Table, VERSIONS, WEAK, literal, quote};
use crate::error::{Error, refused};
use anomalist_databases::Connection;

/// The name of the triggers. It sorts first: a trigger of the user that changes the row again must find the
/// first change in the log already.
pub(crate) const TRIGGER: &str = "!anomalist";
/// The trigger before TRUNCATE.
const TRUNCATE: &str = "!anomalist truncate";
/// The session that holds it shows weak reads over this database.
const LOCK: i64 = 0x616e_6f6d_616c_6973;

const SCHEMA: &str = r"
CREATE SCHEMA anomalist_versions;
COMMENT ON SCHEMA anomalist_versions IS 'versions of rows, kept by anomalist weakdb, which removes them at its end';
GRANT USAGE ON SCHEMA anomalist_versions TO PUBLIC;
CREATE UNLOGGED TABLE anomalist_versions.log (
  version bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(), pid int NOT NULL DEFAULT pg_backend_pid(),
  rel oid NOT NULL, key text NOT NULL, old text, new text);
CREATE INDEX ON anomalist_versions.log (pid, version);
CREATE TABLE anomalist_versions.tracked (rel oid PRIMARY KEY, view text NOT NULL);
CREATE FUNCTION anomalist_versions.written(after bigint)
  RETURNS TABLE (version bigint, xid xid8, open boolean, rel oid, key text, had boolean, has boolean)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT l.version, l.xid, l.xid IS NOT DISTINCT FROM pg_current_xact_id_if_assigned(), l.rel, l.key,
           l.old IS NOT NULL, l.new IS NOT NULL
      FROM anomalist_versions.log l WHERE l.pid = pg_backend_pid() AND l.version > after ORDER BY l.version $$;
CREATE FUNCTION anomalist_versions.release(rels oid[]) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET client_min_messages = warning AS $$
  DECLARE t record;
  BEGIN
    FOR t IN SELECT * FROM anomalist_versions.tracked LOOP
      EXECUTE 'DROP VIEW IF EXISTS ' || t.view;
      IF t.rel = ANY (rels) THEN
        IF EXISTS (SELECT FROM pg_class WHERE oid = t.rel) THEN
          EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', '!anomalist', t.rel::regclass);
          EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', '!anomalist truncate', t.rel::regclass);
        END IF;
        DELETE FROM anomalist_versions.tracked WHERE rel = t.rel;
      END IF;
    END LOOP;
  END $$;
";

/// Takes everything out, also what another process put there. One statement: all of it or nothing.
const REMOVE: &str = r"
DO $$
DECLARE t record;
BEGIN
  PERFORM set_config('client_min_messages', 'warning', true);
  FOR t IN SELECT tgname, tgrelid::regclass AS rel FROM pg_trigger
            WHERE tgname IN ('!anomalist', '!anomalist truncate') AND tgparentid = 0 LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', t.tgname, t.rel);
  END LOOP;
  FOR t IN SELECT nspname FROM pg_namespace
            WHERE nspname = 'anomalist_versions' OR starts_with(nspname, 'anomalist_weak_') LOOP
    EXECUTE format('DROP SCHEMA %I CASCADE', t.nspname);
  END LOOP;
END $$";

/// Removes everything. Waits for transactions that use the tables at most so long as the server's
/// `lock_timeout`, which is set here.
pub(crate) fn remove(admin: &mut dyn Connection) -> Result<(), Error> {
    let refused = refused("cannot remove the triggers and views");
    admin.run("SET lock_timeout = '10s'").map_err(&refused)?;
    admin.run(REMOVE).map_err(&refused)?;
    Ok(())
}

/// Makes sure that no other process is at work here. The lock lasts as long as the connection.
pub(crate) fn claim(admin: &mut dyn Connection) -> Result<(), Error> {
    let sql = format!("SELECT pg_try_advisory_lock({LOCK})::int");
    // The server takes a moment to notice that a process is gone.
    for _ in 0..20 {
        if admin.query(&sql, &[]).map_err(refused("cannot ask the server"))?.int() == Some(1) {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Err(Error::InUse)
}

/// Puts the schema with the versions there.
pub(crate) fn install(admin: &mut dyn Connection) -> Result<(), Error> {
    remove(admin)?;
    admin
        .run(&format!("BEGIN; {SCHEMA} COMMIT"))
        .map_err(refused("cannot install the schema of versions"))?;
    Ok(())
}

/// The triggers of a table.
pub(crate) fn triggers(table: &Table) -> String {
    let (rel, on) = (table.rel, table.qualified());
    let (old_key, new_key) = (table.key_expression("OLD"), table.key_expression("NEW"));
    let (old, new) = (table.row_expression("OLD"), table.row_expression("NEW"));
    let log = format!("INSERT INTO {VERSIONS}.log (rel, key, old, new)");
    let head = "RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog \
                SET datestyle = 'ISO, YMD' AS";
    let body = format!(
        "DECLARE a text; b text; BEGIN
           IF TG_OP <> 'INSERT' THEN a := {old_key}; END IF;
           IF TG_OP <> 'DELETE' THEN b := {new_key}; END IF;
           IF a = b THEN {log} VALUES ({rel}, a, {old}, {new});
           ELSE
             IF a IS NOT NULL THEN {log} VALUES ({rel}, a, {old}, NULL); END IF;
             IF b IS NOT NULL THEN {log} VALUES ({rel}, b, NULL, {new}); END IF;
           END IF;
           RETURN NULL; END"
    );
    let all = format!(
        "BEGIN {log} SELECT {rel}, {}, {}, NULL FROM {on} t; RETURN NULL; END",
        table.key_expression("t"),
        table.row_expression("t")
    );
    let (body, all) = (literal(&body), literal(&all));
    format!(
        "CREATE OR REPLACE FUNCTION {VERSIONS}.capture_{rel}() {head} {body};
         CREATE OR REPLACE FUNCTION {VERSIONS}.truncate_{rel}() {head} {all};
         DROP TRIGGER IF EXISTS {one} ON {on};
         DROP TRIGGER IF EXISTS {two} ON {on};
         CREATE TRIGGER {one} AFTER INSERT OR UPDATE OR DELETE ON {on}
           FOR EACH ROW EXECUTE FUNCTION {VERSIONS}.capture_{rel}();
         CREATE TRIGGER {two} BEFORE TRUNCATE ON {on}
           FOR EACH STATEMENT EXECUTE FUNCTION {VERSIONS}.truncate_{rel}();",
        one = quote(TRIGGER),
        two = quote(TRUNCATE),
    )
}

/// The view of a table, which those may read who may read the table.
pub(crate) fn view(table: &Table) -> String {
    let (rel, on, view) = (table.rel, table.qualified(), table.view());
    let setting = "nullif(current_setting('anomalist.choice', true), '')::jsonb";
    let names = |row: &str| -> String {
        table.columns.iter().map(|c| format!("{row}.{}", quote(c))).collect::<Vec<_>>().join(", ")
    };
    format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};
         GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
         DROP VIEW IF EXISTS {view};
         CREATE VIEW {view} AS
           SELECT {real} FROM {on} t
            WHERE {key} NOT IN (SELECT jsonb_array_elements_text({setting} -> '{rel}' -> 'hide'))
           UNION ALL
           SELECT {old} FROM (
             SELECT (CASE WHEN c.version > 0 THEN l.new ELSE l.old END)::{on} AS r
               FROM (SELECT jsonb_array_elements_text({setting} -> '{rel}' -> 'show')::bigint AS version) c
               JOIN {VERSIONS}.log l ON l.version = abs(c.version) OFFSET 0) s;
         DO $anomalist$ DECLARE g record; BEGIN
           FOR g IN SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END AS who
                      FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
                      LEFT JOIN pg_roles r ON r.oid = a.grantee
                     WHERE c.oid = {rel} AND a.privilege_type = 'SELECT' LOOP
             EXECUTE 'GRANT SELECT ON ' || {named} || ' TO ' || g.who;
           END LOOP; END $anomalist$;",
        schema = quote(&table.weak_schema()),
        real = names("t"),
        old = names("(s.r)"),
        key = table.key_expression("t"),
        named = literal(&view),
    )
}

/// Notes that a table has its triggers and its view.
pub(crate) fn tracked(table: &Table) -> String {
    let view = literal(&table.view());
    format!(
        "INSERT INTO {VERSIONS}.tracked VALUES ({}, {view}) ON CONFLICT (rel) DO UPDATE SET view = {view};",
        table.rel
    )
}

/// The search path in which the views come before the tables.
pub(crate) fn weak_path(schemas: &[String], has_views: impl Fn(&str) -> bool) -> String {
    let mut path = Vec::new();
    for schema in schemas {
        if has_views(schema) {
            path.push(quote(&format!("{WEAK}{schema}")));
        }
        path.push(quote(schema));
    }
    path.join(", ")
}
