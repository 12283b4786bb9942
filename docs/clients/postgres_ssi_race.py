"""Three transactions that PostgreSQL's SERIALIZABLE commits although no order explains them (docs/databases.md).

    python3 postgres_ssi_race.py "host=127.0.0.1 user=postgres" [free]     needs psycopg, gdb, and the rights to attach to the server

T6 reads x before T2 writes it, and writes y; T4 reads x after T2 and y before T6: T4 < T6 < T2 < T4. PostgreSQL refuses one of them, unless
T2's process is slow at one place: others see its work already, but it has not yet released its predicate locks. gdb holds it there (with `free` it
does not); on a busy machine the scheduler does. T6 commits meanwhile, and when T2 goes on it forgets that T6 had read what T2 wrote, because T6 seems to have
committed first. T4, which knows better, is not stopped.
"""

import subprocess
import sys
import threading
import time

import psycopg


class Held:
    """Stops a process at a function, and lets it go."""

    def __init__(self, process, function):
        command = ["gdb", "-q", "-nx", "-p", str(process)]
        pipe = subprocess.PIPE
        self.gdb = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        self.stopped = threading.Event()
        threading.Thread(target=self.listen, daemon=True).start()
        self.say("handle SIGUSR1 nostop noprint pass", f"break {function}", "continue")
        time.sleep(3)

    def listen(self):
        for line in self.gdb.stdout:
            if "Breakpoint 1," in line:
                self.stopped.set()

    def say(self, *lines):
        self.gdb.stdin.write("".join(line + "\n" for line in lines))
        self.gdb.stdin.flush()

    def release(self):
        self.say("detach", "quit")
        self.gdb.wait()


def read(session, key):
    return session.execute("SELECT val FROM ssi_race WHERE id = %s", (key,)).fetchone()[0]


def write(session, key, value):
    session.execute("UPDATE ssi_race SET val = %s WHERE id = %s", (value, key))


def main(url, hold):
    t2, t4, t6 = (psycopg.connect(url, autocommit=True) for _ in range(3))
    t2.execute("DROP TABLE IF EXISTS ssi_race")
    t2.execute("CREATE TABLE ssi_race (id TEXT PRIMARY KEY, val TEXT)")
    t2.execute("INSERT INTO ssi_race VALUES ('x', 'old'), ('y', 'old'), ('z', 'old')")
    for session in (t2, t6):
        session.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    print("T2 reads x:", read(t2, "x"))
    print("T6 reads x:", read(t6, "x"))
    write(t6, "y", "T6")
    write(t2, "x", "T2")
    held = Held(t2.info.backend_pid, "ReleasePredicateLocks") if hold else None
    commit = threading.Thread(target=t2.execute, args=("COMMIT",))
    commit.start()
    if held:
        print("T2 commits; held:", held.stopped.wait(10))
    else:
        commit.join()
        print("T2 commits")
    t4.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    print("T4 reads x:", read(t4, "x"))
    t6.execute("COMMIT")
    print("T6 committed")
    if held:
        held.release()
        commit.join()
    try:
        print("T4 reads y:", read(t4, "y"))
        write(t4, "z", "T4")
        t4.execute("COMMIT")
        print("T4 committed: no order of the three explains what they read")
    except psycopg.errors.SerializationFailure as refused:
        print("T4 was refused:", str(refused).splitlines()[0])


main(sys.argv[1], "free" not in sys.argv[2:])
