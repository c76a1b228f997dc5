"""Model files by the hundred thousand, altered or crafted, each made from its number.

`tried` has processes of their own try them: a crash is seen, counted and gone past, and whoever comes again with the
same folder goes on where it stopped. In those processes compiled loops check their bounds.
"""

import os
import random
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory

import paloma
from helpers import crafted
from paloma.persist import _about

TESTS = Path(__file__).parent.parent
MOST_CRASHES = 20


@dataclass
class Total:
    """The number of the file being tried, and how many were refused, loaded, wrong (with a line about each in the
    file `wrong`), and how many crashed."""

    at: int
    refused: int = 0
    loaded: int = 0
    wrong: int = 0
    crashed: int = 0

    def write(self, file):
        os.pwrite(file.fileno(), struct.pack("<5q", *(getattr(self, field.name) for field in fields(self))), 0)

    @classmethod
    def read(cls, path, first):
        return cls(*struct.unpack("<5q", path.read_bytes())) if path.exists() else cls(first)


def all_files():
    """A file of each kind of model, and rows to use it with."""
    out = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.paloma"
        for name, model, rows in crafted.models():
            paloma.save(model, path)
            out.append((name, path.read_bytes(), rows))
    return out


class Altered:
    """Files with bytes altered: nothing but the digest is looked at, and nothing loads."""

    def __init__(self, files):
        self.files, self.known = files, {raw for _, raw, _ in files}

    def attempt(self, number, path):
        """Whether file `number` loads: only if it is one of those that were not altered."""
        draw = random.Random(number)
        (_, raw, _), (_, other, _) = self.files[number % len(self.files)], draw.choice(self.files)
        altered = mutated(raw, other, draw)
        path.write_bytes(altered)
        if number % 10:
            loaded = crafted.plain_load(path) is not None
        else:
            loaded = crafted.load(path) is not None
        assert loaded == (altered in self.known), "loaded, though it was altered"
        return loaded


class Crafted:
    """Files with one thing wrong and the right digest, every one there is, in random order; then with two things."""

    def __init__(self, files):
        self.files = files
        self.singles = [(k, *single) for k, (_, raw, _) in enumerate(files) for single in crafted.singles(raw)]
        random.Random(0).shuffle(self.singles)

    def attempt(self, number, path):
        """Whether file `number` loads; if so it is used."""
        if number < len(self.singles):
            k, place, change = self.singles[number]
            _, raw, rows = self.files[k]
            path.write_bytes(crafted.spoiled(raw, place, change))
        else:
            draw = random.Random(number)
            _, raw, rows = draw.choice(self.files)
            path.write_bytes(crafted.crafted(raw, draw))
        model = crafted.load(path)
        if model is not None:
            crafted.use(model, rows, path)
        return model is not None


class Selftest:
    """Files 0 and 4 are refused, 1 and 5 load, 2 is wrong, 3 crashes."""

    def __init__(self, files):
        pass

    def attempt(self, number, path):
        if number == 3:
            os.abort()
        assert number != 2, "wrong"
        return number in (1, 5)


KINDS = {"altered": (Altered, all_files), "crafted": (Crafted, all_files), "selftest": (Selftest, list)}


def mutated(raw, other, draw):
    """A file with some of its bytes altered."""
    out, n = bytearray(raw), len(raw)
    a, b = sorted((draw.randrange(n), draw.randrange(n)))
    kind = draw.randrange(9)
    if kind == 0:
        out[a] ^= 1 << draw.randrange(8)
    elif kind == 1:
        out[a] = draw.randrange(256)
    elif kind == 2:
        del out[a:]
    elif kind == 3:
        del out[a : a + draw.randrange(1, 64)]
    elif kind == 4:
        out[a:a] = draw.randbytes(draw.randrange(1, 64))
    elif kind == 5:
        out[a:b] = bytes(b - a)
    elif kind == 6:
        out[a:] = other[a:]
    elif kind == 7:
        out[:8] = draw.randrange(1 << draw.randrange(1, 64)).to_bytes(8, "little")
    else:
        out += draw.randbytes(draw.randrange(1, 64))
    return bytes(out)


def tried(kind, folder, first, stop):
    """Try the files of these numbers in processes of their own; their total."""
    state, begun = folder / f"{kind} {first} {stop}", time.monotonic()
    checked = {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(folder / "bounds checked"),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-X", "faulthandler", "-m", "helpers.mass", kind, str(state), str(first), str(stop)]
    while (total := Total.read(state, first)).at < stop:
        done = subprocess.run(command, env={**os.environ, **checked}, capture_output=True, text=True)
        total = Total.read(state, first)
        if done.returncode == -signal.SIGTERM:  # ended from outside
            break
        if done.returncode:
            note(state, total.at, f"crash {done.returncode}: {done.stderr[-2000:]}")
            total.at, total.crashed = total.at + 1, total.crashed + 1
            with state.open("r+b" if state.exists() else "wb") as file:
                total.write(file)
            if total.crashed >= MOST_CRASHES:
                break
    seconds = time.monotonic() - begun
    print(
        f"{total.at - first:,} {kind} files in {seconds:.0f} s: {total.refused:,} refused, {total.loaded:,} loaded and "
        f"used, {total.wrong:,} wrong, {total.crashed:,} crashes",
        flush=True,
    )
    return total


def note(state, number, sentence):
    with state.with_name(state.name + " wrong").open("a") as file:
        file.write(f"{number}: {sentence}\n")


def main(kind, state, first, stop):
    state = Path(state)
    total = Total.read(state, int(first))
    os.fsync = lambda _: None  # the disk is not what is tried
    _about.threadpool_info = list
    memory = Path("/dev/shm")
    kind, files = KINDS[kind]
    files = kind(files())
    with (
        TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        state.open("r+b" if state.exists() else "w+b") as file,
    ):
        path = Path(folder) / "model.paloma"
        for number in range(total.at, int(stop)):
            total.at = number
            total.write(file)
            try:
                loaded = files.attempt(number, path)
                total.loaded, total.refused = total.loaded + loaded, total.refused + (not loaded)
            except Exception as error:
                total.wrong += 1
                note(state, number, repr(error)[:500])
        total.at = int(stop)
        total.write(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
