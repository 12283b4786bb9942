"""Fails the system calls of commands one after another: the first write, the second, and so on, until the
command no longer makes so many; then the same with other calls and other errors.

strace injects the errors, so this is the program as it is. After each failure: the exit status says so (3, or
what it would have been if the call did not matter), an output is absent, whole or as it was, nothing
temporary is left, and the same command works when nothing fails.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

ANOMALIST = os.environ["ANOMALIST"]
# Calls and the errors that they may give.
CALLS = [
    ("write", "ENOSPC"),
    ("write", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("pwrite64", "EIO"),
    ("openat", "EROFS"),
    ("mkdir", "EROFS"),
    ("rename", "EIO"),
    ("ftruncate", "EIO"),
    ("fdatasync,fsync", "EIO"),
]


class Command:
    def __init__(self, name, argv, outputs, status=0, prepare=(), calls=None, keep=()):
        self.name, self.argv, self.outputs, self.status = name, argv, outputs, status
        self.prepare, self.calls, self.keep = prepare, calls, keep

    def run(self, folder, inject=None, argv=None):
        command = [ANOMALIST, *(argv or self.argv)]
        if inject:
            trace = os.path.join(folder, "..", "trace")
            calls = inject.split(":")[0]
            command = ["strace", "-f", "-qq", "-o", trace, "-e", f"trace={calls}", "-e", f"inject={inject}", *command]
        # Errors that go to a file are not of interest, so standard output and error are pipes.
        return subprocess.run(
            command, cwd=folder, capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": os.path.join(folder, "tmp"), "RUST_BACKTRACE": "0"},
        )


STREAM = ["--kind", "timestamped", "--level", "snapshot-isolation", "--arrival", "none", "--keys", "20"]
SMALL = ["--sessions", "4", "--txns-per-session", "30", "--ops-per-txn", "4"]
COMMANDS = [
    Command("generate", ["generate", *SMALL, "-o", "h.txt", "-q"], ["h.txt"]),
    Command("generate zst", ["generate", *SMALL, "-o", "h.jsonl.zst", "-q"], ["h.jsonl.zst"]),
    Command("generate folder", ["generate", *SMALL, "--to", "cobra", "--lossy", "-o", "c", "-q"], ["c"]),
    Command("generate stream", ["generate", *SMALL, *STREAM, "-o", "h.jsonl", "-q"], ["h.jsonl"]),
    Command(
        "convert", ["convert", "in.jsonl", "out.edn", "--to", "elle-edn", "--lossy", "-q"], ["out.edn"],
        prepare=[["generate", *SMALL, "--kind", "list-append", "--to", "anomalist", "-o", "in.jsonl"]], keep=["in.jsonl"],
    ),
    Command(
        "check", ["check", "in.txt", "--level", "read-atomic", "--certificate", "p.json", "--report", "r.html",
                  "--junit", "j.xml", "--sarif", "s.json", "--markdown", "m.md", "--svg", "svg", "-q"],
        ["p.json", "r.html", "j.xml", "s.json", "m.md", "svg"], status=1,
        prepare=[["generate", *SMALL, "--inject", "TAP-k", "-o", "in.txt"]], keep=["in.txt"],
    ),
    Command(
        "check --json", ["check", "in.txt", "--level", "read-atomic", "--json", "-q"], [], status=1,
        prepare=[["generate", *SMALL, "--inject", "TAP-k", "-o", "in.txt"]], keep=["in.txt"],
    ),
    Command(
        "watch --state", ["watch", "in.jsonl", "--level", "session-ser", "--state", "state", "--memory", "20kB",
                          "--settle", "0ms", "--json"],
        [], status=1, prepare=[["generate", *SMALL, *STREAM, "-o", "in.jsonl"]], keep=["in.jsonl", "state"],
    ),
    Command("test", ["test", "simulated:serializable", "--txns", "300", "--runs", "runs", "-q"], ["runs"]),
]


def content(path):
    if os.path.isdir(path):
        return {name: content(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


# What says how long something took is whole if its end is there.
ENDS = {".html": b"</html>", ".xml": b"</testsuites>"}


def is_whole(name, found, expected):
    end = ENDS.get(os.path.splitext(name)[1])
    if end:
        return found.rstrip().endswith(end)
    if isinstance(expected, dict):
        return all(is_whole(file, found[file], expected.get(file)) for file in found)
    return found == expected


def litter(folder):
    left = os.listdir(os.path.join(folder, "tmp"))
    for place, _, names in os.walk(folder):
        left += [name for name in names if name.endswith(".tmp")]
    return left


def standing(run):
    lines = run.stdout.decode().splitlines()
    return lines[-1].split('"standing":')[1].split(",")[0] if lines and '"standing":' in lines[-1] else None


def clean(command, folder):
    for name in os.listdir(folder):
        if name not in command.keep or name == "state":
            path = os.path.join(folder, name)
            shutil.rmtree(path, ignore_errors=True)
            if os.path.exists(path):
                os.remove(path)
    os.makedirs(os.path.join(folder, "tmp"))


def judge(command, folder, run, expected, reference, recorded):
    """What is wrong after a failure."""
    wrong = []
    if run.returncode not in (3, command.status) or run.returncode == 3 and not run.stderr.strip():
        wrong.append(f"exit status {run.returncode}: {run.stderr[-300:].decode(errors='replace')}")
    if run.returncode == command.status and "test" != command.name:
        for name, whole in expected.items():
            found = content(os.path.join(folder, name))
            if found is None or not is_whole(name, found, whole):
                wrong.append(f"the exit status is {command.status}, and {name} is not whole")
    if run.returncode == command.status and command.name == "check --json":
        if sorted(json.loads(run.stdout)) != recorded:
            wrong.append("the exit status is that of a whole answer, and the answer is not whole")
    for name, whole in expected.items():
        found = content(os.path.join(folder, name))
        if command.name != "test" and found not in (None, {}) and not is_whole(name, found, whole):
            wrong.append(f"{name} is there and not whole")
    if command.name == "test" and os.path.isdir(os.path.join(folder, "runs")):
        for kept in os.listdir(os.path.join(folder, "runs")):
            check = command.run(folder, argv=["check", f"runs/{kept}", "--level", "serializable"])
            if check.returncode not in (0, 2, 3):
                wrong.append(f"check of what was recorded: {check.returncode}")
    wrong += [f"left over: {name}" for name in litter(folder)]
    for name, whole in expected.items():
        # A folder that is there is not written again.
        if isinstance(whole, dict):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    again = command.run(folder)
    if again.returncode != command.status:
        wrong.append(f"the next run: {again.returncode} {again.stderr[-300:].decode(errors='replace')}")
    elif reference is not None and standing(again) != reference:
        wrong.append(f"the next run says {standing(again)}, not {reference}")
    return wrong


def main():
    chosen = sys.argv[1:]
    place = tempfile.mkdtemp(prefix="io-errors-")
    folder = os.path.join(place, "work")
    print(f"{'command':<16} {'failures':>8} {'wrong':>6}", flush=True)
    total = failures = 0
    for command in COMMANDS:
        if chosen and command.name not in chosen:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for argv in command.prepare:
            assert command.run(folder, argv=argv).returncode == 0
        clean(command, folder)
        whole = command.run(folder)
        assert whole.returncode == command.status, whole
        expected = {name: content(os.path.join(folder, name)) for name in command.outputs}
        reference = standing(whole) if command.name.startswith("watch") else None
        recorded = sorted(json.loads(whole.stdout)) if command.name == "check --json" else None
        tried = wrong = 0
        for call, error in CALLS:
            n, untouched = 0, 0
            while untouched == 0 and n < 400:
                n += 1
                clean(command, folder)
                run = command.run(folder, inject=f"{call}:error={error}:when={n}")
                trace = content(os.path.join(place, "trace")) or b""
                if b"(INJECTED)" not in trace:
                    untouched = 1
                    continue
                tried += 1
                # The first files that are opened are the system's libraries.
                if call == "openat" and run.returncode == 127:
                    continue
                for text in judge(command, folder, run, expected, reference, recorded):
                    wrong += 1
                    print(f"WRONG {command.name}, {call} number {n} fails with {error}: {text}", flush=True)
        print(f"{command.name:<16} {tried:>8} {wrong:>6}", flush=True)
        total, failures = total + tried, failures + wrong
    shutil.rmtree(place, ignore_errors=True)
    print(f"{total} failures injected, {failures} wrong")
    sys.exit(1 if failures else 0)


main()
