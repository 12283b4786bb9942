#!/usr/bin/env python3
"""YugabyteDB: joins a client's log with the output of `log-dump` (write-ahead logs of tablets, as text).

    yugabyte_wal.py CLIENT.jsonl WAL.txt | anomalist watch -

The client adds "transaction", what `SELECT yb_get_current_transaction()` says; one that wrote nothing has none and adds
"read_time", a hybrid time. In the log, the transaction's metadata has `start_hybrid_time`, and the state that ends it
(`APPLYING` or `COMMITTED`) has `commit_hybrid_time`. A hybrid time is microseconds times 4096 plus a logical part.
"""

import re
import sys
import uuid

import common

ID = re.compile(r'transaction_id: "((?:[^"\\]|\\.)*)"')
START = re.compile(r"start_hybrid_time: (\d+)")
COMMIT = re.compile(r"commit_hybrid_time: (\d+)")


def unescape(text):
    """Bytes as text format writes them: octal and the usual escapes."""
    out, at = bytearray(), 0
    plain = {"n": 10, "r": 13, "t": 9, "\\": 92, '"': 34, "'": 39}
    while at < len(text):
        if text[at] != "\\":
            out += text[at].encode("utf-8")
            at += 1
        elif text[at + 1] in plain:
            out.append(plain[text[at + 1]])
            at += 2
        else:
            digits = re.match(r"[0-7]{1,3}", text[at + 1 :]).group()
            out.append(int(digits, 8) & 255)
            at += 1 + len(digits)
    return bytes(out)


def blocks(text, name):
    """The contents of `name { … }`, braces in strings aside."""
    for match in re.finditer(name + r"\s*\{", text):
        depth, at, quoted = 1, match.end(), False
        while at < len(text) and depth:
            if text[at] == "\\" and quoted:
                at += 1
            elif text[at] == '"':
                quoted = not quoted
            elif not quoted:
                depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield text[match.end() : at - 1]


def hybrid(time):
    return [int(time) >> 12, int(time) & 4095]


def main(client_path, wal_path):
    with open(wal_path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    starts, commits = {}, {}
    for name, pattern, found in (("transaction", START, starts), ("transaction_state", COMMIT, commits)):
        for block in blocks(text, r"\b" + name):
            key, time = ID.search(block), pattern.search(block)
            if key and time:
                found[str(uuid.UUID(bytes=unescape(key.group(1))))] = hybrid(time.group(1))
    for client in common.lines(client_path):
        key = client.get("transaction")
        if key is None:
            start = commit = hybrid(client["read_time"])
        elif client.get("outcome", "committed") == "committed":
            start, commit = starts.get(key), commits.get(key)
        else:
            start = commit = starts.get(key)
        if start is None or commit is None:
            common.unknown("not in the log", client)
            continue
        common.emit(client, start, commit, key)


if __name__ == "__main__":
    main(*sys.argv[1:])
