"""What the collectors share: the log of a client, and lines of Anomalist's format.

A client writes one JSON object per transaction, at its end:

    {"session": 1, "ops": [["r", "x", 1], ["w", "x", 2]], "outcome": "committed", ...}

"ops" are as in docs/format.md; what else a line needs to be joined with what the database says is up to the database. Only the
client knows what was read, and only the database knows when it was committed: that is why there are two logs.
"""

import json
import sys


def lines(path):
    """The JSON objects of a file, one per line; lines that are none are reported and skipped."""
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                yield json.loads(text)
            except ValueError as error:
                print(f"{path}:{number}: {error}", file=sys.stderr)


def emit(client, start, commit, transaction_id=None):
    """Prints a transaction with its timestamps, each an integer or (physical, logical)."""
    out = {"session": client["session"]}
    if transaction_id is not None:
        out["id"] = transaction_id
    out["ops"] = client["ops"]
    if client.get("outcome", "committed") != "committed":
        out["outcome"] = client["outcome"]
    out["start"], out["commit"] = start, commit
    print(json.dumps(out))


def writes(client):
    """The keys and values that a transaction wrote, last value of each key."""
    return {json.dumps(key): value for kind, key, value in (op for op in client["ops"] if len(op) == 3) if kind == "w"}


def unknown(what, client):
    """A transaction that the database's log says nothing about is not judged."""
    print(f"{what}: {json.dumps(client)[:200]}", file=sys.stderr)
