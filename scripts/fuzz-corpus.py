"""The corpus of the fuzz targets that is kept in the repository: fuzz/kept/TARGET.txt, an input per line.

    scripts/fuzz-corpus.py unpack FOLDER             writes the inputs into FOLDER/TARGET
    scripts/fuzz-corpus.py pack TARGET FOLDER [KB]   keeps the shortest inputs of FOLDER, 16 KB of them by default

A line is the input as text: printable ASCII as it is, other bytes as \\xNN, a backslash as \\\\. The folder to
pack is what libFuzzer's -merge=1 leaves: inputs that each reach something that no shorter one does. Inputs
that were kept before stay: among them are those that found mistakes.
"""

import os
import re
import sys

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fuzz/kept")


def written(data):
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else "\\\\" if b == 92 else f"\\x{b:02x}" for b in data)


def read(line):
    byte = lambda found: b"\\" if found[0] == b"\\\\" else bytes([int(found[0][2:], 16)])
    return re.sub(rb"\\\\|\\x[0-9a-f]{2}", byte, line.encode("ascii"))


def kept(target):
    try:
        with open(os.path.join(KEPT, target + ".txt")) as file:
            return [read(line.rstrip("\n")) for line in file]
    except FileNotFoundError:
        return []


def pack(target, folder, limit):
    before = kept(target)
    found = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found.append(file.read())
    chosen, size = list(before), 0
    for data in sorted(set(found) - set(before), key=lambda data: (len(data), data)):
        size += len(written(data)) + 1
        if size > limit:
            break
        chosen.append(data)
    assert all(read(written(data)) == data for data in chosen)
    os.makedirs(KEPT, exist_ok=True)
    with open(os.path.join(KEPT, target + ".txt"), "w") as file:
        file.writelines(written(data) + "\n" for data in chosen)
    print(f"{target}: {len(before)} kept before, {len(chosen)} now")


def unpack(folder):
    for name in sorted(os.listdir(KEPT)):
        target = name.removesuffix(".txt")
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        for number, data in enumerate(kept(target)):
            with open(os.path.join(folder, target, f"kept-{number}"), "wb") as file:
                file.write(data)


match sys.argv[1:]:
    case ["unpack", folder]:
        unpack(folder)
    case ["pack", target, folder]:
        pack(target, folder, 16_000)
    case ["pack", target, folder, kilobytes]:
        pack(target, folder, int(kilobytes) * 1000)
    case _:
        sys.exit(__doc__)
