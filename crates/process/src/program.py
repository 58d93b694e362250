"""A program to save: it holds bytes that it was given, counts, and answers when it is asked.

Arguments: KIND (memory, threads, tree), a folder, the size. The bytes come through standard input.
Whoever asks renames a file to FOLDER/ask: `ping N` or `sum N`. The answer in FOLDER/answer is N,
then for each part of the bytes how far it has counted and, for a sum, its CRC-32.
"""

import os
import select
import sys
import threading
import time
import zlib

# Whatever whoever has started us had open: it would tie us to them.
os.closerange(3, 1024)
kind, folder, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
PARTS = 1 if kind == "memory" else 4
STEP_S = 0.002
# A thread may get no processor for as long where others need it; after that it stands still.
STANDS_S = 10


def part_bytes(index):
    return size * (index + 1) // PARTS - size * index // PARTS


def receive(count):
    part = bytearray(count)
    view, done = memoryview(part), 0
    while done < count:
        got = os.readv(0, [view[done : done + (1 << 20)]])
        if got == 0:
            sys.exit("the bytes end too early")
        done += got
    return part


class Own:
    """A part in this process; with `threads`, a thread counts for it."""

    def __init__(self, index):
        self.part, self.count, self.told = receive(part_bytes(index)), 0, 0
        if kind == "threads":
            threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            time.sleep(STEP_S)
            self.count += 1

    def answer(self, word):
        if kind != "threads":
            self.count += 1
        until = time.monotonic() + STANDS_S
        while self.count == self.told and time.monotonic() < until:
            time.sleep(STEP_S)
        self.told = self.count
        return f"{self.count} {zlib.crc32(self.part) if word == 'sum' else 0}"


class Child:
    """A part in a child, which is spoken to through pipes."""

    def __init__(self, index):
        (self.heard, ask), (answer, said) = os.pipe(), os.pipe()
        self.ask, self.said = ask, answer
        if os.fork() == 0:
            os.close(ask)
            os.close(answer)
            self.serve(receive(part_bytes(index)), said)
        os.close(self.heard)
        os.close(said)
        os.read(self.said, 1)

    def serve(self, part, said):
        quiet()
        os.write(said, b"+")
        count = 0
        while True:
            count += 1
            if not select.select([self.heard], [], [], STEP_S)[0]:
                continue
            word = os.read(self.heard, 16)
            if not word:
                os._exit(0)
            value = zlib.crc32(part) if word == b"sum" else 0
            os.write(said, f"{count} {value}\n".encode())

    def answer(self, word):
        os.write(self.ask, word.encode())
        return os.read(self.said, 64).decode().strip()


def quiet():
    """Hold nothing open that belongs to whoever has started us."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.close(nothing)


def write(name, text):
    with open(f"{folder}/{name}.new", "w") as file:
        file.write(text)
    os.rename(f"{folder}/{name}.new", f"{folder}/{name}")


parts = [Child(i) if kind == "tree" and i else Own(i) for i in range(PARTS)]
quiet()
log = os.open(f"{folder}/counter", os.O_RDWR | os.O_CREAT, 0o600)
write("answer", "0")
last, count = "", 0
while True:
    count += 1
    os.pwrite(log, f"{count:20}".encode(), 0)
    try:
        with open(f"{folder}/ask") as file:
            asked = file.read()
    except FileNotFoundError:
        asked = ""
    if asked != last:
        last = asked
        word, number = asked.split()
        write("answer", "\n".join([number, *(part.answer(word) for part in parts)]))
    time.sleep(STEP_S)
