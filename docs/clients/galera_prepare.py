"""A transaction that MariaDB Galera acknowledges and half forgets (docs/databases.md).

    python3 galera_prepare.py PORT1 PORT2 PORT3 [SECONDS]     three nodes on 127.0.0.1, user and database `anomalist`, no password

Two clients on two nodes insert the same key. Galera lets one of them commit and aborts the other, which has to learn it from its next
answer. The first client runs, between its INSERT and its COMMIT, a query: as text, prepared before the transaction, or prepared within it.
Printed are, for each, its acknowledged commits, and how many of those inserted nothing. Speaks the protocol itself, so no driver is involved.
"""

import random
import socket
import struct
import sys
import threading
import time


class Failed(Exception):
    pass


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.receive()
        # Long passwords, long flags, a database, protocol 4.1, transactions, native passwords, plugins.
        capabilities = 0x1 | 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000
        login = struct.pack("<IIB23x", capabilities, 1 << 24, 45)
        self.send(login + b"anomalist\0" + b"\0" + b"anomalist\0" + b"mysql_native_password\0")
        self.answer()

    def exactly(self, count):
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise Failed("connection closed")
            data += chunk
        return data

    def receive(self):
        head = self.exactly(4)
        self.number = head[3] + 1
        return self.exactly(int.from_bytes(head[:3], "little"))

    def send(self, packet):
        self.socket.sendall(len(packet).to_bytes(3, "little") + bytes([self.number & 255]) + packet)

    def command(self, kind, body):
        self.number = 0
        self.send(bytes([kind]) + body)

    def answer(self):
        packet = self.receive()
        if packet[0] == 0xFF:
            raise Failed(int.from_bytes(packet[1:3], "little"))
        return packet

    def skip(self, count):
        for _ in range(count + 1 if count else 0):
            self.receive()

    def rows(self):
        first = self.answer()
        if first[0] == 0:
            return []
        self.skip(first[0])
        rows = []
        while True:
            packet = self.answer()
            if packet[0] == 0xFE and len(packet) < 9:
                return rows
            rows.append(packet)

    def query(self, sql):
        self.command(0x03, sql.encode())
        return self.rows()

    def prepare(self, sql):
        self.command(0x16, sql.encode())
        statement, columns, parameters = struct.unpack("<IHH", self.answer()[1:9])
        self.skip(parameters)
        self.skip(columns)
        return statement

    def execute(self, statement):
        self.command(0x17, struct.pack("<IBI", statement, 0, 1))
        return self.rows()

    def close(self, statement):
        self.command(0x19, struct.pack("<I", statement))

    def rollback(self):
        try:
            self.query("ROLLBACK")
        except Failed:
            pass


QUERY = "SELECT COUNT(*) FROM kept WHERE k = 0"


def work(variant, ports, first, until, counts):
    one, other, observer = Client(ports[0]), Client(ports[1]), Client(ports[0])
    observer.query("SET SESSION wsrep_sync_wait = 1")
    prepared = one.prepare(QUERY)
    for key in range(first, first + 10**7):
        if time.time() > until:
            return
        inserted = threading.Event()

        def insert():
            inserted.wait()
            time.sleep(random.random() * 0.006)
            try:
                other.query(f"INSERT INTO kept VALUES ({key}, 2)")
            except Failed:
                pass

        rival = threading.Thread(target=insert)
        rival.start()
        try:
            one.query("START TRANSACTION")
            one.query(f"INSERT INTO kept VALUES ({key}, 1)")
            inserted.set()
            for _ in range(3):
                if variant == "text":
                    one.query(QUERY)
                elif variant == "prepared before":
                    one.execute(prepared)
                else:
                    statement = one.prepare(QUERY)
                    one.execute(statement)
                    one.close(statement)
            one.query("COMMIT")
            acknowledged = True
        except Failed:
            one.rollback()
            acknowledged = False
        inserted.set()
        rival.join()
        if acknowledged:
            counts["acknowledged"] += 1
            kept = observer.query(f"SELECT v FROM kept WHERE k = {key}")
            counts["lost"] += kept[0][1:] != b"1"


def main():
    ports, seconds = [int(port) for port in sys.argv[1:4]], float((sys.argv[4:] or ["20"])[0])
    Client(ports[0]).query("CREATE TABLE IF NOT EXISTS kept (k BIGINT PRIMARY KEY, v BIGINT)")
    for variant in ("text", "prepared before", "prepared within"):
        counts = {"acknowledged": 0, "lost": 0}
        first, until = random.randrange(1 << 40), time.time() + seconds
        threads = [
            threading.Thread(target=work, args=(variant, ports[n:] + ports[:n], first + n * 10**7, until, counts))
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(variant, counts, flush=True)


main()
