"""Kills commands with SIGKILL at random moments, then runs the next one and looks at what is there.

Each command is a class. `argv` is what is killed; `after` looks at what the kill left, runs the command once
more and returns what is wrong, a text each. After that nothing of the killed process may be left: no file
in the folder for temporary files, no file beside an output, no process.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ANOMALIST = os.environ["ANOMALIST"]
COMMANDS = {}
# The shares of the commands, per thousand kills.
SHARES = {}


def command(share):
    def add(cls):
        COMMANDS[cls.__name__.lower().replace("_", "-")] = cls
        SHARES[cls.__name__.lower().replace("_", "-")] = share
        return cls

    return add


class Trial:
    """A command in a folder of its own. `again` says that its folder stays the same from kill to kill."""

    variants = [None]

    def __init__(self, folder, variant, rng):
        self.folder, self.variant, self.rng = folder, variant, rng
        self.tmp = os.path.join(folder, "tmp")
        os.makedirs(self.tmp, exist_ok=True)
        self.prepare()

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def env(self):
        return {**os.environ, "TMPDIR": self.tmp, "RUST_BACKTRACE": "0"}

    def start(self, *args, **more):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more}
        return subprocess.Popen([ANOMALIST, *args], env=self.env(), cwd=self.folder, **more)

    def run(self, *args, **more):
        return subprocess.run(
            [ANOMALIST, *args], env=self.env(), cwd=self.folder, capture_output=True, timeout=180, **more
        )

    def prepare(self):
        pass

    def killed(self):
        """Starts the process that is killed."""
        return self.start(*self.argv())

    def duration(self):
        """Seconds that a whole run takes."""
        since = time.monotonic()
        self.killed().wait()
        return time.monotonic() - since

    def litter(self):
        """What a killed process left that the next run has not removed."""
        left = [os.path.join(self.tmp, name) for name in os.listdir(self.tmp)]
        for folder, _, names in os.walk(self.folder):
            if folder.startswith(self.tmp):
                continue
            left += [os.path.join(folder, name) for name in names if name.endswith(".tmp")]
        for path in left:
            # What one kill left is counted once.
            shutil.rmtree(path, ignore_errors=True)
            if os.path.exists(path):
                os.remove(path)
        return [f"left over: {name}" for name in left] + [f"still runs: {name}" for name in self.processes()]

    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = f"TMPDIR={self.tmp}\0".encode() in file.read() + b"\0"
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode(errors="replace")
                # A server changes its own environment, and is known by its folder.
                if ours or self.tmp in line:
                    found.append(f"{pid} {line[:100]}")
            except OSError:
                pass
        return found


def status(run, allowed, what):
    """Nothing if a run ended with one of these statuses."""
    if run.returncode in allowed:
        return []
    said = (run.stdout[-300:] + run.stderr[-600:]).decode(errors="replace")
    return [f"{what}: exit status {run.returncode}, not one of {allowed}: {said}"]


@command(200)
class Test(Trial):
    """SQLite keeps serializability: whatever the kill left is never a violation."""

    variants = ["list-append", "register", "counter", "bank", "set", "predicate"]

    def argv(self, txns="1500"):
        url = f"sqlite:{self.path('t.db')}"
        more = ["--to", "elle-edn"] if self.variant in ("list-append", "register") else []
        flags = ["--txns", txns, "--sessions", "6", "--runs", self.path("runs"), "-q", "--no-claim"]
        return ["test", url, *flags, "--workload", self.variant, "--report", self.path("r.html"), *more]

    def after(self):
        wrong = []
        latest = self.path("runs/latest")
        if os.path.isdir(latest):
            check = self.run("check", latest, "--level", "serializable", "--timeout", "20s")
            wrong += status(check, (0, 2, 3), "check of what the kill left")
            if check.returncode == 3 and not check.stderr.strip():
                wrong.append("check ended with 3 and said nothing")
            lossy = self.run("check", latest, "--level", "serializable", "--lossy", "--timeout", "20s")
            wrong += status(lossy, (0, 2, 3), "check --lossy of what the kill left")
            result = self.read("runs/latest/result.json")
            if result is not None:
                json.loads(result)
                if not os.path.exists(self.path("runs/latest/report.html")):
                    wrong.append("a result without its report")
        wrong += status(self.run(*self.argv("300")), (0,), "the next run")
        return wrong + status(self.run("check", latest, "--level", "serializable"), (0, 2), "check of the next run")


@command(20)
class Throwaway(Trial):
    """A killed test takes its server with it, and the next run removes the server's folder."""

    variants = ["postgres", "mariadb"]

    def argv(self):
        return ["test", "--throwaway", self.variant, "--txns", "300", "--runs", self.path("runs"), "-q"]

    def duration(self):
        return 6.0

    def after(self):
        return status(self.run(*self.argv()), (0,), "the next run")


@command(80)
class Sql(Trial):
    variants = ["file", "own"]

    def argv(self):
        url = [f"sqlite:{self.path('s.db')}"] if self.variant == "file" else []
        flags = ["--duration", "400ms", "--scripts", self.path("scripts"), "--report", self.path("s.html"), "-q"]
        return ["sql", *url, *flags]

    def after(self):
        wrong = status(self.run(*self.argv()), (0, 2), "the next run")
        if b"</html>" not in (self.read("s.html") or b""):
            wrong.append("no whole report")
        if self.variant == "file":
            tables = subprocess.run(
                ["python3", "-c", "import sqlite3, sys; print(*[r[0] for r in sqlite3.connect(sys.argv[1]).execute("
                 "'SELECT name FROM sqlite_master')])", self.path("s.db")],
                capture_output=True, text=True,
            )
            if tables.stdout.strip() or tables.returncode:
                wrong.append(f"tables are left in the database: {tables.stdout}{tables.stderr}")
        return wrong


CLIENT = """
import json, os, urllib.request
def post(path, body):
    url = os.environ["ANOMALIST_HTTP_URL"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))
for client in ["a", "b"]:
    session = post("/session", {})["session"]
    post("/kv", {"session": session, "operations": [["begin"], ["read", "n"], ["write", "n", client], ["commit"]]})
"""


@command(60)
class Explore(Trial):
    def argv(self):
        flags = ["--runs", "6", "--record", self.path("h.jsonl"), "-q"]
        return ["explore", "--level", "causal", *flags, "--", "python3", "-c", CLIENT]

    def after(self):
        return status(self.run(*self.argv()), (0,), "the next run")


ENDS = {".html": b"</html>", ".xml": b"</testsuites>"}


class Output(Trial):
    """Writes files that depend on the input alone: after a kill they are absent or whole."""

    outputs = []
    allowed = (0,)

    def whole(self):
        if not hasattr(self, "expected"):
            run = self.run(*self.argv())
            self.wrong = status(run, self.allowed, "the first run")
            self.expected = {name: self.files(name) for name in self.names()}
            for name in self.timed:
                self.expected[name] = ENDS[os.path.splitext(name)[1]]
            if any(not content for content in self.expected.values()):
                self.wrong.append(f"no output: {[n for n, c in self.expected.items() if not c]}")
        return self.expected

    def names(self):
        return self.outputs

    def files(self, name):
        """The content of a file, or of all files of a folder."""
        if not os.path.isdir(self.path(name)):
            return self.read(name)
        return {file: self.read(os.path.join(name, file)) for file in sorted(os.listdir(self.path(name)))}

    def duration(self):
        self.whole()
        return super().duration()

    def killed(self):
        expected = self.whole()
        # A file that is there already is replaced or stays.
        for name in expected:
            shutil.rmtree(self.path(name), ignore_errors=True)
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        if self.rng.random() < 0.3 and self.replaces():
            for name in expected:
                with open(self.path(name), "wb") as file:
                    file.write(b"old")
        return super().killed()

    def replaces(self):
        return all(isinstance(content, bytes) for content in self.expected.values())

    def after(self):
        wrong, self.wrong = self.wrong, []
        for name, content in self.expected.items():
            found = self.files(name) if os.path.exists(self.path(name)) else None
            same = self.is_whole(name, found)
            if isinstance(content, dict) and found is not None and self.partial:
                same = all(content.get(file) == text for file, text in found.items() if not file.endswith(".tmp"))
            if found is not None and found != b"old" and not same:
                wrong.append(f"{name} is there and not whole")
            if isinstance(content, dict):
                shutil.rmtree(self.path(name), ignore_errors=True)
        wrong += status(self.run(*self.argv()), self.allowed, "the next run")
        for name, content in self.expected.items():
            if not self.is_whole(name, self.files(name)):
                wrong.append(f"{name} of the next run differs")
        return wrong

    # Files that say how long the run took: they are whole if their end is there.
    timed = []

    def is_whole(self, name, found):
        content = self.expected[name]
        if name in self.timed:
            return found is not None and found.rstrip().endswith(content)
        return found == content

    # Whether a folder may have some of its files.
    partial = False


@command(130)
class Generate(Output):
    variants = ["h.txt", "h.jsonl.zst", "h.edn.gz", "cobra", "viper", "h.stream"]

    def names(self):
        return [self.variant]

    def argv(self):
        flags = {
            "h.txt": ["--txns-per-session", "1200"],
            "h.jsonl.zst": ["--txns-per-session", "800"],
            "h.edn.gz": ["--kind", "list-append", "--txns-per-session", "200", "--to", "elle-edn"],
            "cobra": ["--to", "cobra", "--lossy", "--txns-per-session", "200"],
            "viper": ["--to", "viper", "--lossy", "--txns-per-session", "200"],
            "h.stream": ["--kind", "timestamped", "--arrival", "none", "--txns-per-session", "300"],
        }[self.variant]
        return ["generate", "--seed", "3", "-o", self.path(self.variant), "-q", *flags]


@command(110)
class Convert(Output):
    variants = ["c.txt", "c.edn", "c.json.zst", "cobra"]

    def prepare(self):
        flags = ["--kind", "list-append"] if self.variant in ("c.edn", "c.json.zst") else []
        self.run("generate", "-o", self.path("h.jsonl"), "--to", "anomalist", "--txns-per-session", "300", *flags)

    def names(self):
        return [self.variant]

    def argv(self):
        to = {"c.txt": "plume", "c.edn": "elle-edn", "c.json.zst": "elle-json", "cobra": "cobra"}[self.variant]
        return ["convert", self.path("h.jsonl"), self.path(self.variant), "--to", to, "--lossy", "-q"]


@command(140)
class Check(Output):
    outputs = ["proof.json", "page.html", "j.xml", "s.sarif", "m.md", "svg", "dot"]
    timed = ["page.html", "j.xml"]
    partial = True
    allowed = (1,)

    def prepare(self):
        flags = ["--inject", "TAP-k", "--inject", "lost-update", "--level", "snapshot-isolation"]
        self.run("generate", "-o", self.path("h.txt"), "--txns-per-session", "60", *flags)

    def argv(self):
        files = ["--certificate", "proof.json", "--report", "page.html", "--junit", "j.xml", "--sarif", "s.sarif"]
        more = ["--markdown", "m.md", "--svg", "svg", "--dot", "dot", "-q"]
        return ["check", "h.txt", "--level", "read-atomic", *files, *more]

    def after(self):
        wrong = super().after()
        return wrong + status(self.run("verify", "h.txt", "proof.json"), (0,), "verify")


@command(30)
class Shrink(Output):
    outputs = ["small.txt"]

    def prepare(self):
        self.run("generate", "-o", self.path("h.txt"), "--txns-per-session", "60", "--inject", "TAP-k")

    def argv(self):
        return ["shrink", "--level", "read-atomic", "h.txt", "-o", "small.txt", "-q"]


@command(40)
class Report(Output):
    outputs = ["page.html"]

    def prepare(self):
        self.run("generate", "-o", self.path("h.txt"), "--txns-per-session", "60", "--inject", "TAP-k")
        with open(self.path("result.json"), "wb") as file:
            file.write(self.run("check", "h.txt", "--json").stdout)

    def argv(self):
        return ["report", "result.json", "-o", "page.html", "-q"]


@command(150)
class Watch(Trial):
    """Killed again and again in one state folder; the last one goes on to the end and says what was right.

    `first` is killed while there is no state yet, `tight` has so little memory that most of it is on disk,
    `piped` reads from a pipe, which cannot be read again.
    """

    variants = ["first", "roomy", "tight", "piped"]

    def prepare(self):
        txns = "150" if self.variant == "first" else "1200"
        flags = ["--sessions", "8", "--txns-per-session", txns, "--ops-per-txn", "4", "--keys", "200"]
        shape = ["--kind", "timestamped", "--level", "snapshot-isolation", "--arrival", "none"]
        self.run("generate", "-o", self.path("h.jsonl"), *shape, *flags)
        self.expected = self.standing(self.run("watch", "h.jsonl", "--level", "session-ser", "--json"))
        assert self.expected > 10, self.expected
        self.seen, self.kills = {}, 0

    def standing(self, run):
        if run.returncode not in (0, 1):
            return run.stderr.decode(errors="replace") + f" (status {run.returncode})"
        return json.loads(run.stdout.splitlines()[-1])["standing"]

    def argv(self):
        memory = "60kB" if self.variant == "tight" else "1GB"
        source = "-" if self.variant == "piped" else "h.jsonl"
        flags = ["--state", "state", "--checkpoint", "10ms", "--memory", memory, "--settle", "5ms"]
        return ["watch", source, "--level", "session-ser", "--json", *flags]

    def killed(self):
        source = open(self.path("h.jsonl"), "rb") if self.variant == "piped" else subprocess.DEVNULL
        self.printed = open(self.path("printed"), "wb")
        if self.variant == "first":
            shutil.rmtree(self.path("state"), ignore_errors=True)
            self.seen = {}
        return self.start(*self.argv(), stdin=source, stdout=self.printed)

    def duration(self):
        took = super().duration()
        shutil.rmtree(self.path("state"))
        return took * (0.6 if self.variant == "first" else 1)

    def note(self, printed):
        wrong = []
        lines = printed.split(b"\n")
        for line in lines[:-1]:
            event = json.loads(line)
            if isinstance(event.get("seq"), int) and self.seen.setdefault(event["seq"], event) != event:
                wrong.append(f"two events with the number {event['seq']}")
        return wrong

    def after(self):
        wrong = self.note(self.read("printed"))
        self.kills += 1
        # Some kills follow each other without a run to the end.
        if self.variant != "first" and self.rng.random() < 0.6:
            return wrong
        source = self.read("h.jsonl") if self.variant == "piped" else b""
        run = self.run(*self.argv(), input=source)
        found = self.standing(run)
        if found != self.expected:
            return wrong + [f"after {self.kills} kills {found} violations stand, not {self.expected}"]
        wrong += self.note(run.stdout)
        balance = {}
        for event in self.seen.values():
            what = {key: value for key, value in event.items() if key not in ("seq", "event", "settled")}
            kind = {"violation": 1, "retracted": -1}.get(event["event"], 0)
            what = json.dumps(what, sort_keys=True)
            balance[what] = balance.get(what, 0) + kind
        standing = sum(balance.values())
        if standing != self.expected:
            wrong.append(f"{standing} violations stand by what was printed, not {self.expected}")
        shutil.rmtree(self.path("state"))
        self.seen, self.kills = {}, 0
        return wrong


@command(40)
class Ui(Trial):
    """The application is killed while a test runs in it."""

    def prepare(self):
        self.run("generate", "-o", self.path("h.txt"), "--txns-per-session", "40")

    def killed(self):
        process = self.start("ui", "--folder", self.path("runs"), stdout=subprocess.PIPE)
        line = process.stdout.readline().decode()
        process.stdout.close()
        address, token = line.split("http://", 1)[1].strip().split("/?token=")
        self.ask(address, token, "/api/jobs", {"command": "test", "fields": {"url": "simulated:serializable"}})
        return process

    def ask(self, address, token, path, body):
        cookie = f"anomalist-{address.split(':')[1]}={token}"
        head = {"Content-Type": "application/json", "Origin": f"http://{address}", "Cookie": cookie}
        request = urllib.request.Request(f"http://{address}{path}", json.dumps(body).encode(), head)
        return json.load(urllib.request.urlopen(request, timeout=30))

    def duration(self):
        return 1.0

    def after(self):
        wrong = []
        deadline = time.monotonic() + 20
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        for run in os.listdir(self.path("runs")) if os.path.isdir(self.path("runs")) else []:
            check = self.run("check", self.path(f"runs/{run}"), "--level", "serializable")
            wrong += status(check, (0, 2, 3), "check of what the kill left")
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        again = self.start("ui", "--folder", self.path("runs"), stdout=subprocess.PIPE)
        if b"token=" not in again.stdout.readline():
            wrong.append("it does not start again")
        again.send_signal(2)
        again.wait(30)
        return wrong


def main():
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    chosen = sys.argv[2:] or list(COMMANDS)
    seed = int(os.environ.get("SEED", "1"))
    sum_of_shares = sum(SHARES[name] for name in chosen)
    place = tempfile.mkdtemp(prefix="kills-")
    # Throw-away servers run under another account.
    os.chmod(place, 0o711)
    print(f"{'command':<12} {'kills':>6} {'too late':>9} {'wrong':>6}", flush=True)
    failures = tries = 0
    for name in chosen:
        cls = COMMANDS[name]
        count = max(1, round(total * SHARES[name] / sum_of_shares))
        kills = late = wrong = 0
        rng = random.Random(f"{seed} {name}")
        trials = []
        for i, variant in enumerate(cls.variants):
            folder = os.path.join(place, f"{name}-{i}")
            os.makedirs(folder)
            trial = cls(folder, variant, rng)
            trials.append((trial, trial.duration()))
        attempts = 0
        while kills < count and attempts < 3 * count:
            trial, whole = trials[attempts % len(trials)]
            attempts += 1
            process = trial.killed()
            # A third of the kills are in the first tenth: that is where files are made.
            share = rng.random() * 0.1 if rng.random() < 0.33 else rng.random()
            time.sleep(whole * share)
            ended = process.poll() is not None
            process.kill()
            process.wait()
            late += ended
            kills += not ended
            found = trial.after()
            if found is not None:
                found += trial.litter()
            for text in found or []:
                failures += 1
                wrong += 1
                print(f"WRONG {name} {trial.variant} at {whole * share:.3f} s: {text}", flush=True)
        tries += kills
        print(f"{name:<12} {kills:>6} {late:>9} {wrong:>6}", flush=True)
        for trial, _ in trials:
            shutil.rmtree(trial.folder, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)
    print(f"{tries} kills, {failures} wrong")
    sys.exit(1 if failures else 0)


main()
