#!/usr/bin/env python3
"""Dgraph: turns a log of its HTTP (or gRPC, as JSON) responses into transactions.

    dgraph.py LOG.jsonl | anomalist watch -

One line per transaction: the client's "session" and "ops", and "responses", what Dgraph answered to each of its requests, the
commit last. `extensions.txn` has `start_ts` in every response and `commit_ts` in that of the commit; a transaction that wrote
nothing has no commit, and one that was `aborted` says so.
"""

import sys

import common


def main(path):
    for client in common.lines(path):
        contexts = [response.get("extensions", {}).get("txn", {}) for response in client.get("responses", [])]
        starts = {context["start_ts"] for context in contexts if context.get("start_ts")}
        if len(starts) != 1:
            common.unknown("no single start timestamp", client)
            continue
        start = starts.pop()
        commit = max((context.get("commit_ts") or 0 for context in contexts), default=0)
        if any(context.get("aborted") for context in contexts):
            client = {**client, "outcome": "aborted"}
        elif common.writes(client) and not commit:
            client = {**client, "outcome": "indeterminate"}
        # Readers may share a start; writers do not.
        common.emit(client, start, commit or start, start if common.writes(client) else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
