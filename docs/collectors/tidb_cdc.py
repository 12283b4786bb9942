#!/usr/bin/env python3
"""TiDB: joins a client's log with a TiCDC changefeed in Canal-JSON (enable-tidb-extension=true), one message per line.

    tidb_cdc.py CLIENT.jsonl CDC.jsonl [KEY_COLUMN [VALUE_COLUMN]] | anomalist watch -

The client adds "start", what `SELECT @@tidb_current_ts` says inside the transaction. The commit timestamp is `_tidb.commitTs`
of the row change with the key and value that the transaction wrote last; values have to be unique per key. A transaction
that wrote nothing commits when it starts.
"""

import json
import sys

import common


def main(client_path, cdc_path, key_column="k", value_column="v"):
    commits = {}
    for message in common.lines(cdc_path):
        # DDL and watermarks say nothing about rows.
        if message.get("isDdl") or message.get("type") not in ("INSERT", "UPDATE"):
            continue
        for row in message.get("data") or []:
            # Canal writes every value as text.
            commits[(str(row[key_column]), str(row[value_column]))] = message["_tidb"]["commitTs"]
    for client in common.lines(client_path):
        start = client["start"]
        written = common.writes(client)
        found = {commits.get((str(json.loads(key)), str(value))) for key, value in written.items()} - {None}
        if client.get("outcome", "committed") == "committed" and written and len(found) != 1:
            common.unknown("no single commit timestamp", client)
            continue
        # Readers may share a start; writers do not.
        common.emit(client, start, found.pop() if found else start, start if written else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
