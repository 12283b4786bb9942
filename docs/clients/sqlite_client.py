#!/usr/bin/env python3
"""A complete client for `anomalist test 'exec:python3 sqlite_client.py FILE'`: SQLite through Python's own module.

One JSON line per transaction comes in on standard input, one goes out on standard output. Replace what is between BEGIN and
COMMIT by your database. The one rule: say "aborted" only when it is certain that nothing was committed.
"""
import json
import os
import sqlite3
import sys

FILE = sys.argv[1] if len(sys.argv) > 1 else "anomalist-exec.db"
BEGIN = "BEGIN " + (os.environ.get("ANOMALIST_ISOLATION") or "IMMEDIATE")


def connect():
    db = sqlite3.connect(FILE, timeout=30, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    return db


def prepare(db):
    db.executescript("DROP TABLE IF EXISTS rows; CREATE TABLE rows (k INTEGER PRIMARY KEY, v TEXT NOT NULL)")


def value(db, key):
    row = db.execute("SELECT v FROM rows WHERE k = ?", (key,)).fetchone()
    return None if row is None else json.loads(row[0])


def put(db, key, new):
    db.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (key, json.dumps(new)))


def perform(db, op):
    """Performs one operation and returns it, with its result at the end if it has one."""
    if op[0] == "r":
        return op + [value(db, op[1])]
    if op[0] == "w":
        put(db, op[1], op[2])
    elif op[0] == "append":
        put(db, op[1], (value(db, op[1]) or []) + [op[2]])
    else:
        raise ValueError(f"unknown operation {op[0]}")
    return op


def transact(db, ops):
    try:
        db.execute(BEGIN)
        done = [perform(db, op) for op in ops]
    except (sqlite3.Error, ValueError) as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        return {"outcome": "aborted", "error": str(error)}
    try:
        db.execute("COMMIT")
    except sqlite3.Error as error:
        # SQLite leaves the transaction open if COMMIT fails. A server that does not answer COMMIT is "indeterminate".
        db.execute("ROLLBACK")
        return {"outcome": "aborted", "error": str(error)}
    return {"outcome": "committed", "ops": done}


def main():
    db = connect()
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            prepare(db)
            answer = {}
        else:
            answer = transact(db, request["ops"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
