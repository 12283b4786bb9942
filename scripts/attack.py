"""Attacks on the program, by groups. An attack that has an effect has failed here: the program, not the attack.

Every attack is a function that returns nothing if the program stood, and a text if it did not.
"""

import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

import attack_inputs

ANOMALIST = os.environ["ANOMALIST"]
GROUPS = {}


def attack(group):
    """Adds a function to a group. It may return one text, or a list with an entry per attack."""

    def add(function):
        GROUPS.setdefault(group, []).append(function)
        return function

    return add


def run(*args, timeout=120, **more):
    return subprocess.run([ANOMALIST, *args], capture_output=True, timeout=timeout, **more)


class Weakdb:
    """A weakdb with small limits, ended on exit."""

    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        command = [ANOMALIST, "weakdb", "--level", "serializable", "--json", *self.flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        said = json.loads(self.process.stdout.readline())
        port = lambda name: int(re.search(r":(\d+)/", said[name]).group(1))
        self.postgres, self.mysql, self.http = port("postgres"), port("mysql"), port("http")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def memory(self):
        status = open(f"/proc/{self.process.pid}/status").read()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) << 10

    def post(self, path, body, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=timeout)
        connection.request("POST", path, body, headers or {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def sql(self, text, dialect="postgres", timeout=60):
        status, body = self.post("/sql", json.dumps({"sql": text, "dialect": dialect}), timeout=timeout)
        return status, json.loads(body)

    def stands(self):
        """Nothing if it lives and answers; else what is wrong."""
        if self.process.poll() is not None:
            return f"weakdb ended with {self.process.returncode}"
        status, answer = self.sql("SELECT 1 AS one")
        return None if (status, answer.get("rows")) == (200, [[1]]) else f"it answers {answer}"


def startup(port):
    stream = socket.create_connection(("127.0.0.1", port), timeout=30)
    body = b"\0\x03\0\0user\0a\0\0"
    stream.sendall(struct.pack(">i", len(body) + 4) + body)
    return stream


def message(kind, body):
    return kind + struct.pack(">i", len(body) + 4) + body


def packet(body, sequence=0):
    return struct.pack("<I", len(body))[:3] + bytes([sequence]) + body


LOGIN = packet(struct.pack("<IIB", 0x8 | 0x200 | 0x8000 | 0x10000, 1 << 24, 45) + bytes(23) + b"a\0\0weakdb\0", 1)
POSTGRES = [
    message(b"Q", b"SELECT 1;SELECT 2\0"),
    message(b"P", b"s\0SELECT $1::int\0\0\1\0\0\0\x17"),
    message(b"B", b"p\0s\0\0\1\0\1\0\1\0\0\0\4\0\0\0\7\0\0"),
    message(b"D", b"Ss\0") + message(b"E", b"p\0\0\0\0\0") + message(b"S", b""),
    message(b"C", b"Ss\0") + message(b"H", b"") + message(b"X", b""),
]
MYSQL = [
    packet(b"\x03SELECT 1"),
    packet(b"\x16SELECT ?"),
    packet(b"\x17\1\0\0\0\0\1\0\0\0\0\1\x08\0\7\0\0\0\0\0\0\0"),
    packet(b"\x18\1\0\0\0\0\0abc") + packet(b"\x1a\1\0\0\0"),
    packet(b"\x0c\xff\xff\xff\xff") + packet(b"\x1f") + packet(b"\x01"),
]
HTTP = [
    b"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n"
    b'{"sql":"SELECT 1"}',
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /kv HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"DELETE /session/1 HTTP/1.1\r\n\r\n",
]


def mutated(rng, pieces):
    data = bytearray(b"".join(rng.choice(pieces) for _ in range(rng.randint(1, 5))))
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                data[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\3"])
            case 2:
                del data[at : at + rng.randint(1, 9)]
            case 3:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
        data = data or bytearray(b"\0")
    return bytes(data)


@attack("wire and HTTP messages")
def mutated_messages():
    rng, results = random.Random(7), []
    with Weakdb("--statement-timeout", "2s") as weakdb:
        for n in range(1500):
            port, first, pieces = [
                (weakdb.postgres, message(b"", b"\0\x03\0\0user\0a\0\0"), POSTGRES),
                (weakdb.mysql, LOGIN, MYSQL),
                (weakdb.http, b"", HTTP),
            ][n % 3]
            data = (first if rng.random() < 0.9 else b"") + mutated(rng, pieces)
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
                    stream.sendall(data)
                    stream.shutdown(socket.SHUT_WR)
                    while stream.recv(1 << 16):
                        pass
            except OSError:
                pass
            results.append(None if weakdb.process.poll() is None else f"message {n}: {data!r}")
        results.append(weakdb.stands())
    return results


ENDLESS = [
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "SELECT * FROM generate_series(1, 1000000000000)",
    "SELECT g FROM generate_series(1, 1000000000000) g ORDER BY -g",
    "SELECT array_agg(g) FROM generate_series(1, 1000000000000) g",
    "SELECT string_agg(g::text, ',') FROM generate_series(1, 1000000000000) g",
    "WITH RECURSIVE e(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e) SELECT count(*) FROM e",
    "WITH RECURSIVE e(n) AS (SELECT 1 UNION SELECT n + 1 FROM e) SELECT max(n) FROM e",
    "SELECT max(a + b) FROM generate_series(1, 10000000) a, generate_series(1, 10000000) b",
    "SELECT pg_sleep(60)",
    "SELECT repeat('x', 2000000000)",
    "SELECT repeat(repeat('x', 60000), 60000)",
    "SELECT lpad('x', 2000000000)",
    "SELECT replace(repeat('x', 1000000), 'x', repeat('y', 1000000))",
    "SELECT 'a' ~ '((((a{1,100}){1,100}){1,100}){1,100})'",
    "SELECT repeat('a', 100000) ~ '(a*)*b'",
    "SELECT repeat('a', 100000) LIKE '%a%a%a%a%a%a%a%a%a%a%b'",
]
LARGE = [
    "WITH " + ", ".join(f"c{n} AS (SELECT {n})" for n in range(100_000)) + " SELECT 1",
    "SELECT " + "(" * 100_000 + "1" + ")" * 100_000,
    "SELECT " + "NOT " * 100_000 + "true",
    "SELECT " + "+".join("1" for _ in range(200_000)),
    "SELECT " + ",".join("1" for _ in range(100_000)),
    "SELECT 1 " + "UNION SELECT 1 " * 20_000,
    "SELECT 1 FROM " + ", ".join(f"pg_class c{n}" for n in range(3000)),
    "SELECT CASE " + "WHEN 1 = 2 THEN 1 " * 50_000 + "END",
    "SELECT 1 IN (" + ",".join(str(n) for n in range(500_000)) + ")",
    "SELECT '" + "x" * (20 << 20) + "'",
    "SELECT " + "[" * 50_000,
    "/*" * 100_000,
]
FILES = [
    "ATTACH DATABASE '/tmp/anomalist-attack.db' AS other",
    "VACUUM INTO '/tmp/anomalist-attack.db'",
    "PRAGMA writable_schema = 1",
    "SELECT load_extension('/tmp/x.so')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/anomalist-attack.db', 'x')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT LOAD_FILE('/etc/passwd')",
    "COPY t FROM PROGRAM 'id'",
    "COPY t TO '/tmp/anomalist-attack.db'",
    "SELECT 1 INTO OUTFILE '/tmp/anomalist-attack.db'",
    "SELECT * FROM sqlite_master",
    "SELECT edit('x')",
    'CREATE TABLE "x` AS SELECT 1; ATTACH \'/tmp/anomalist-attack.db\' AS y; CREATE TABLE y.t(a); --" (id INT)',
    "CREATE TABLE `x\" AS SELECT 1; ATTACH '/tmp/anomalist-attack.db' AS y; CREATE TABLE y.t(a); --` (id INT)",
    "CREATE TABLE empty",
    "CREATE TABLE sqlite_x (a INT)",
]


@attack("SQL attacks")
def hostile_statements():
    results = []
    with Weakdb("--statement-timeout", "2s", "--max-result", "64MB") as weakdb:
        for sql in ENDLESS + LARGE:
            began = time.monotonic()
            try:
                (status, answer), wrong = weakdb.sql(sql), None
            except (OSError, http.client.HTTPException, ValueError) as error:
                status, answer, wrong = 0, {}, f"{sql[:60]}: {error!r}"
            took = time.monotonic() - began
            if sql in ENDLESS[:9] and status == 200:
                wrong = f"{sql[:60]}: answered {str(answer)[:60]}"
            if took > 30:
                wrong = f"{sql[:60]}: {took:.0f} s"
            results.append(wrong or weakdb.stands())
        memory = weakdb.memory()
        results.append(f"{memory >> 20} MB" if memory > 1 << 30 else None)
        for sql in FILES:
            for dialect in ("postgres", "mysql"):
                status, answer = weakdb.sql(sql, dialect)
                rows = answer.get("rows")
                failed = os.path.exists("/tmp/anomalist-attack.db") or (status == 200 and rows not in (None, [], [[None]]))
                results.append(f"{sql}: {answer}" if failed else weakdb.stands())
    return results


@attack("server resources and origin")
def cancel_and_leave():
    results = []
    with Weakdb("--statement-timeout", "0") as weakdb:
        for polite in (b"", message(b"X", b"")):
            stream = startup(weakdb.postgres)
            stream.sendall(message(b"Q", ENDLESS[5].encode() + b"\0"))
            time.sleep(0.3)
            stream.sendall(polite)
            stream.close()
            time.sleep(2)
            before = os.sysconf("SC_CLK_TCK"), cpu(weakdb.process.pid)
            time.sleep(1)
            used = (cpu(weakdb.process.pid) - before[1]) / before[0]
            results.append(f"a statement without a client uses {used:.2f} s" if used > 0.5 else None)
        stream = startup(weakdb.postgres)
        said = b""
        while b"Z\0\0\0\5" not in said:
            said += stream.recv(4096)
        key = said[said.index(b"K\0\0\0\x0c") + 5 :][:8]
        results.append("the secret is the number" if key[:4] == key[4:] else None)
        stream.sendall(message(b"Q", ENDLESS[0].encode() + b"\0"))
        time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", weakdb.postgres)) as other:
            other.sendall(struct.pack(">ii", 16, 80877102) + key)
        stream.settimeout(10)
        results.append(None if b"57014" in stream.recv(4096) else "CancelRequest is ignored")
        results.append(weakdb.stands())
    return results


def cpu(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@attack("server resources and origin")
def foreign_pages():
    results = []
    body = json.dumps({"sql": "SELECT 1"})
    with Weakdb() as weakdb:
        for headers, status in [
            ({"Host": "evil.example"}, 403),
            ({"Host": "localhost.evil.example"}, 403),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Content-Type": "text/plain"}, 415),
            ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ]:
            found = weakdb.post("/sql", body, {"Content-Type": "application/json", **headers})[0]
            results.append(None if found == status else f"{headers}: {found}")
    return results


@attack("server resources and origin")
def floods():
    results = []
    with Weakdb("--max-result", "32MB", "--max-connections", "200") as weakdb:
        slow = []
        for n in range(600):
            try:
                stream = socket.create_connection(("127.0.0.1", [weakdb.postgres, weakdb.mysql, weakdb.http][n % 3]), timeout=5)
                stream.sendall([b"\0\0\0", b"", b"POST / HT"][n % 3])
                slow.append(stream)
            except OSError:
                pass
        results.append(weakdb.stands())
        [stream.close() for stream in slow]
        time.sleep(1)
        before = weakdb.memory()
        pushed = [startup(weakdb.postgres) for _ in range(20)]
        threads = [threading.Thread(target=push, args=(s, message(b"Q", b"")[:1] + struct.pack(">i", 60 << 20))) for s in pushed]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        grown = weakdb.memory() - before
        results.append(f"messages took {grown >> 20} MB" if grown > 400 << 20 else None)
        results.append(weakdb.stands())
    return results


def push(stream, head):
    try:
        stream.sendall(head)
        for _ in range(55):
            stream.sendall(bytes(1 << 20))
    except OSError:
        pass


@attack("server resources and origin")
def slow_clients_of_watch():
    process = subprocess.Popen([ANOMALIST, "watch", "--http", "0", "--json"], stdout=subprocess.PIPE)
    results = []
    try:
        port = int(json.loads(process.stdout.readline())["address"].rsplit(":", 1)[1])
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(128)]
        [stream.sendall(b"POST / HTTP/1.1\r\n") for stream in slow]
        time.sleep(1.5)
        for headers, status in [({}, 200), ({"Host": "evil.example"}, 403), ({"Origin": "http://evil.example"}, 403)]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/metrics", headers=headers)
            found = connection.getresponse().status
            results.append(None if found == status else f"GET /metrics {headers}: {found}")
    finally:
        process.kill()
        process.wait()
    return results


@attack("secrets")
def passwords():
    results = []
    for url in ["postgres://a:GEHEIM@127.0.0.1:1/x", "mysql://a:GEHEIM@127.0.0.1:1/x", "mysql://a:GEHEIM%4@h/x",
                "postgres://h:1/x?user=a&password=GEHEIM", "postgres://a:GEHEIM@127.0.0.1:1/x?nonsense=1"]:
        for command in (["test", url, "--txns", "5"], ["sql", url], ["test", url, "--json"]):
            with tempfile.TemporaryDirectory() as folder:
                done = run(*command, cwd=folder)
                left = subprocess.run(["grep", "-r", "GEHEIM", folder], capture_output=True).stdout
            leaked = b"GEHEIM" in done.stdout + done.stderr + left
            results.append(f"{command}: {done.stderr}" if leaked else None)
    return results


@attack("temporary files and servers")
def watch_folder():
    """The folder of a watch is private, has a random name, and the next run removes what a killed one left."""
    results = []
    with tempfile.TemporaryDirectory() as place:
        environment = {**os.environ, "TMPDIR": place}
        victim = os.path.join(place, "victim")
        os.mkdir(victim)
        start = lambda: subprocess.Popen([ANOMALIST, "watch", "--http", "0", "--json"], stdout=subprocess.PIPE, env=environment)
        process = start()
        process.stdout.readline()
        time.sleep(0.5)
        made = [name for name in os.listdir(place) if name.startswith("anomalist-")]
        process.kill()
        process.wait()
        results.append(None if len(made) == 1 else f"folders: {made}")
        for name in made:
            mode = stat.S_IMODE(os.stat(os.path.join(place, name)).st_mode)
            results.append(None if mode == 0o700 else f"mode {mode:o}")
            results.append(f"the name has the process's number: {name}" if str(process.pid) in name.split("-") else None)
        for pid in range(process.pid + 1, process.pid + 300):
            os.symlink(victim, os.path.join(place, f"anomalist-watch-{pid}-0"))
        process = start()
        process.stdout.readline()
        time.sleep(0.5)
        results.append(f"a planted link was followed: {os.listdir(victim)}" if os.listdir(victim) else None)
        left = [name for name in made if os.path.exists(os.path.join(place, name))]
        results.append(f"left behind: {left}" if left else None)
        process.send_signal(signal.SIGINT)
        process.wait(30)
        left = [n for n in os.listdir(place) if n.startswith("anomalist-") and not os.path.islink(os.path.join(place, n))]
        results.append(f"left at the end: {left}" if left else None)
    return results


@attack("temporary files and servers")
def other_accounts():
    """Another account of this machine tries to use a throw-away server."""
    if os.geteuid() != 0 or not shutil.which("runuser"):
        print("  not root: the attack of another account is left out", file=sys.stderr)
        return []
    results = []
    for engine, marker, client in [("postgres", "postgres", "psql -w -U postgres -h {} -p {} -c 'select 1' postgres"),
                                   ("mariadb", "mariadbd", "mariadb -u {user} -h {} -P {} -e 'select 1'")]:
        if not shutil.which(client.split()[0]):
            continue
        with tempfile.TemporaryDirectory() as runs:
            process = subprocess.Popen([ANOMALIST, "test", "--throwaway", engine, "--duration", "25s", "--runs", runs, "-q"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            port = listening(process.pid, marker)
            users = ["postgres"] if engine == "postgres" else ["root", "anomalist", "''"]
            for user in users:
                command = client.format("127.0.0.1", port, user=user)
                done = subprocess.run(["runuser", "-u", "nobody", "--", "sh", "-c", command], capture_output=True)
                results.append(f"{command}: {done.stdout}" if done.returncode == 0 or port is None else None)
            process.send_signal(signal.SIGINT)
            process.wait(60)
    return results


def listening(parent, marker):
    """The port of a server that a process has started, once there is one."""
    for _ in range(300):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = open(f"/proc/{pid}/cmdline").read().split("\0")
                if os.path.basename(words[0]) != marker or int(open(f"/proc/{pid}/stat").read().split()[3]) != parent:
                    continue
                if marker == "postgres":
                    lines = open(os.path.join(words[words.index("-D") + 1], "postmaster.pid")).read().split("\n")
                    if len(lines) > 7 and "ready" in lines[7]:
                        return int(lines[3])
                else:
                    port = int(next(word for word in words if word.startswith("--port=")).split("=")[1])
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    return port
            except (OSError, ValueError, StopIteration):
                continue
        time.sleep(0.1)
    return None


@attack("crash safety")
def full_disk():
    results = []
    with open("/dev/full", "w") as full:
        for args in (["--help"], ["--version"], ["check", "--help"], ["levels"], ["weakdb", "--help"]):
            status = subprocess.run([ANOMALIST, *args], stdout=full, stderr=subprocess.DEVNULL).returncode
            results.append(f"{args} > /dev/full: status 0" if status == 0 else None)
    return results


@attack("supply chain")
def sources():
    results = []
    lock = open("Cargo.lock").read()
    for package in lock.split("[[package]]")[1:]:
        if "source = " in package:
            fine = 'source = "registry+https://github.com/rust-lang/crates.io-index"' in package and "checksum = " in package
            results.append(None if fine else f"no checksum: {package[:80]}")
    for name in ("webpki", "rustls-pemfile"):
        if f'name = "{name}"\n' in lock:
            print(f"  known: {name}, which is no longer maintained, comes with the driver mysql", file=sys.stderr)
    if subprocess.run(["cargo", "deny", "--version"], capture_output=True).returncode == 0:
        done = subprocess.run(["cargo", "deny", "--locked", "check"], capture_output=True)
        results.append(None if done.returncode == 0 else "cargo deny found something")
    return results


def main(wanted):
    order = ["parsers and bombs", "output injection", "wire and HTTP messages", "SQL attacks", "server resources and origin",
             "secrets", "temporary files and servers", "crash safety", "supply chain"]
    tried_all = failed_all = 0
    lines = []
    for group in order:
        if wanted and not any(word in group for word in wanted):
            continue
        results = []
        for function in GROUPS.get(group, []):
            found = function()
            results += found if isinstance(found, list) else [found]
        failures = [text for text in results if text]
        for text in failures:
            print(f"  {group}: {text}", file=sys.stderr)
        note = "" if group in GROUPS else "   (no attack yet)"
        lines.append(f"{group:<30}{len(results):>7}{len(failures):>8}{note}")
        tried_all, failed_all = tried_all + len(results), failed_all + len(failures)
    print(f"{'group':<30}{'tried':>7}{'failed':>8}")
    print("\n".join(lines))
    print(f"{'all':<30}{tried_all:>7}{failed_all:>8}")
    return 1 if failed_all else 0


attack_inputs.register(attack, run)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
