"""Attacks by files: every format, damaged in many ways, and names that command whatever shows them."""

import gzip
import json
import os
import random
import re
import tempfile

READERS = (["check"], ["check", "--lossy"], ["stats"], ["lint"], ["elle", "-m", "rw-register"])
NAME = "k\n::error::forged\r\x1b[2J\x9b31m\u202e\u2066\u2028\u2029\u200f\x7f]]><script>x</script>`|[a](http://b)\"\\"
ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def samples(run, folder):
    """A small history in every format that is one file, by the program's own writers."""
    source = os.path.join(folder, "h.jsonl")
    made = run("generate", "--sessions", "3", "--txns-per-session", "5", "--seed", "7", "-o", source)
    if made.returncode != 0:
        raise SystemExit(f"generate: {made.stderr}")
    found = {}
    for name in ("plume", "awdit", "dbcop", "elle-edn", "elle-json", "elle-jsonl", "timekiller", "anomalist"):
        path = os.path.join(folder, name)
        if run("convert", source, path, "--to", name, "--lossy").returncode == 0:
            found[name] = open(path, "rb").read()
    return found


def mutations(rng, data):
    """Damaged copies, each with what was done."""
    middle = len(data) // 2
    lines = data.split(b"\n")
    yield "cut", data[:middle]
    yield "cut at the end", data[:-1]
    yield "NULs", data[:middle] + bytes(64) + data[middle:]
    yield "only NULs", bytes(4096)
    yield "deep", b"[" * 200_000
    yield "deep inside", data[:middle] + b"[{" * 100_000
    yield "huge numbers", re.sub(rb"\d+", b"9" * 400, data, count=20)
    yield "minus", re.sub(rb"\d+", b"-99999999999999999999", data, count=5)
    yield "no UTF-8", data[:middle] + b"\xff\xfe\xc3\x28" + data[middle:]
    yield "mark", b"\xef\xbb\xbf" + data
    yield "two marks", b"\xef\xbb\xbf" * 2 + data
    yield "CRLF", data.replace(b"\n", b"\r\n")
    yield "CR", data.replace(b"\n", b"\r")
    yield "twice", data + data
    yield "first line again", b"\n".join(lines[:1] * 3 + lines)
    yield "a line without end", data + b"x" * (8 << 20)
    yield "bomb", gzip.compress(data + b" " * (64 << 20), 9)
    yield "damaged archive", gzip.compress(data)[:-9]
    yield "empty", b""
    for n in range(12):
        bytes_ = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            bytes_[rng.randrange(len(bytes_))] = rng.randrange(256)
        yield f"random {n}", bytes(bytes_)


def parsers(run):
    rng, results = random.Random(3), []
    with tempfile.TemporaryDirectory() as folder:
        for name, data in samples(run, folder).items():
            for what, damaged in mutations(rng, data):
                path = os.path.join(folder, "damaged")
                open(path, "wb").write(damaged)
                reader = READERS[len(results) % len(READERS)]
                forced = ["--format", name] if reader[0] != "elle" and len(results) % 2 else []
                done = run(*reader, path, *forced, "-q", "--memory", "500MB", timeout=60)
                wrong = done.returncode not in (0, 1, 2, 3) or b"panicked" in done.stderr
                results.append(f"{name}, {what}, {reader}: {done.returncode} {done.stderr[-200:]}" if wrong else None)
        for device in ("/dev/zero", "/dev/urandom"):
            for reader in (*READERS, ["verify", os.path.join(folder, "plume")]):
                done = run(*reader, device, "-q", "--memory", "500MB", timeout=60)
                results.append(f"{reader} {device}: {done.returncode}" if done.returncode not in (2, 3) else None)
    return results


OUTPUTS = ["--svg", "--dot", "--junit", "--sarif", "--markdown", "--gitlab", "--report"]


def injection(run):
    """Names from the author of a history reach no terminal and no document as anything but text."""
    results = []
    h = lambda n="": json.dumps(NAME + str(n))
    line = lambda s, i, ops: f'{{"session":{h(s)},"id":{h(i)},"ops":[{ops}],"meta":{{"level":{h()}}}}}\n'
    text = (line(1, 10, f'["w",{h()},{h(1)}],["w","y",1]') + line(1, 11, f'["w",{h()},{h(2)}]')
            + line(2, 12, f'["r",{h()},{h(2)}]') + line(2, 13, f'["r",{h()},{h(1)}]'))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, NAME.replace("/", "") + ".jsonl")
        open(path, "w").write(text)
        for command in (["check", path], ["check", path, "-vv", "--level", "causal"], ["lint", path], ["stats", path],
                        ["elle", "-m", "rw-register", "-v", path], ["watch", path], ["verify", path, path],
                        ["shrink", path, "--level", "causal", "-o", "/dev/null", "--to", "anomalist"],
                        ["convert", path, "/nowhere/x", "--to", "plume"], ["report", path, "-o", "/dev/null"]):
            for github in ("", "true"):
                done = run(*command, env={**os.environ, "GITHUB_ACTIONS": github})
                said = (done.stdout + done.stderr).decode(errors="replace")
                active = ACTIVE.search(said) or any(l.lstrip().startswith("::error::forged") for l in said.split("\n"))
                results.append(f"{command[:1]}: {said[:200]!r}" if active or done.returncode == 4 else None)
        for flag in OUTPUTS:
            out = os.path.join(folder, "out")
            done = run("check", path, flag, out, "-q")
            if b"unexpected argument" in done.stderr:
                continue
            made = open(out, encoding="utf-8", errors="replace").read() if os.path.isfile(out) else ""
            wrong = ACTIVE.search(made) or "<script>x</script>" in made
            results.append(f"{flag}: {ACTIVE.search(made)}" if wrong else None)
    return results


def register(attack, run):
    attack("parsers and bombs")(lambda: parsers(run))
    attack("output injection")(lambda: injection(run))
