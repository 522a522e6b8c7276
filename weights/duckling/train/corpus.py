#!/usr/bin/env python3
"""Public-domain English out of four Debian packages: run/text/*.txt to train on, ../heldout_text.txt to measure with.

    corpus.py            fetch what run/deb lacks, unpack, clean, write

r-cran-janeaustenr holds six novels as R strings, bible-kjv with bible-kjv-text the King James Bible, dict-jargon the Jargon
File, dict-devil The Devil's Dictionary (1911); their copyright files say that the texts are in the public domain.
Passages of the held-out part are cut out of the training text.
"""
import gzip
import re
import struct
import subprocess
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = HERE / "run"
TEXT = RUN / "text"
HELD_OUT = HERE.parent / "heldout_text.txt"
PACKAGES = ("r-cran-janeaustenr", "bible-kjv", "bible-kjv-text", "dict-jargon", "dict-devil")
# file -> (number of passages, characters of each)
HELD_OUT_PASSAGES = {"austen": (4, 9000), "bible": (2, 8000), "jargon": (1, 8000), "devil": (1, 6000)}


def unpack() -> Path:
    """The packages' files, under run/data."""
    debs, data = RUN / "deb", RUN / "data"
    debs.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if not list(debs.glob(f"{package}_*.deb")):
            subprocess.run(["apt-get", "download", package], cwd=debs, check=True)
        subprocess.run(["dpkg-deb", "-x", str(next(debs.glob(f"{package}_*.deb"))), str(data)], check=True)
    return data


def r_strings(serialised: bytes) -> list[str]:
    """The longest character vector of an R object in XDR form (R Internals, 1.8): type 16, then strings of type 9."""
    best: list[str] = []
    for start in (match.start() for match in re.finditer(b"\x00[\x00\x02]\x00?\x00?\x10", serialised)):
        at = serialised.index(b"\x10", start) + 1
        (count,) = struct.unpack_from(">i", serialised, at)
        at, lines = at + 4, []
        if not len(best) < count < 100_000:
            continue
        try:
            for _ in range(count):
                flags, length = struct.unpack_from(">Ii", serialised, at)
                if flags & 0xFF != 9:
                    break
                lines.append(serialised[at + 8:at + 8 + max(length, 0)].decode("utf-8"))
                at += 8 + max(length, 0)
        except (struct.error, UnicodeDecodeError):
            continue
        if len(lines) == count:
            best = lines
    return best


def novels(data: Path) -> list[str]:
    """Lines of each novel. The file is a row of chunks: length of the content (4 bytes), zlib stream."""
    packed = (data / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    found, at = [], 0
    while at < len(packed):
        stream = zlib.decompressobj()
        content = stream.decompress(packed[at + 4:])
        at = len(packed) - len(stream.unused_data)
        lines = r_strings(content)
        if len(lines) > 1000:
            found.append("\n".join(lines))
    return found


def bible(data: Path) -> str:
    """A paragraph a chapter, without verse numbers."""
    lib = data / "usr/lib"
    shown = subprocess.run([data / "usr/bin/bible", "-f", "gen1:1-rev22:21"], cwd=lib, check=True, capture_output=True, text=True)
    chapters: dict[str, list[str]] = {}
    for line in shown.stdout.splitlines():
        match = re.match(r"(\S+?\d+):\d+ (.*)", line)
        if match:
            chapters.setdefault(match[1], []).append(match[2].strip())
    return "\n\n".join(" ".join(verses) for verses in chapters.values())


def dictionary(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode("utf-8", "replace")


def cleaned(text: str, entries: bool = False) -> str:
    """ASCII punctuation, paragraphs on one line each, one blank line between them. `entries`: a line at the margin over
    indented ones begins a paragraph too."""
    for strange, plain in (("‘", "'"), ("’", "'"), ("“", '"'), ("”", '"'), ("—", "--"), ("–", "-"), ("\r", ""), ("\t", " "), ("_", "")):
        text = text.replace(strange, plain)
    text = re.sub(r"[{}]", "", text)
    text = re.sub(r"[-=*]{4,}", "", text)
    border = r"\n\s*\n|\n(?=\S[^\n]*\n {2,})" if entries else r"\n\s*\n"
    paragraphs = (" ".join(part.split()) for part in re.split(border, text))
    return "\n\n".join(part for part in paragraphs if len(part) > 2 and part.isprintable()) + "\n"


def split(text: str, passages: int, size: int) -> tuple[str, str]:
    """(what remains, held-out passages): evenly spread, whole paragraphs."""
    paragraphs = text.strip().split("\n\n")
    length, kept, held, taken, at = len(text), [], [], 0, 0
    for paragraph in paragraphs:
        start = (taken + 0.5) * length / passages
        if taken < passages and at >= start:
            held.append(paragraph)
            if sum(map(len, held)) >= (taken + 1) * size:
                taken += 1
        else:
            kept.append(paragraph)
        at += len(paragraph) + 2
    return "\n\n".join(kept) + "\n", "\n\n".join(held) + "\n"


def training_text() -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(TEXT.glob("*.txt"))}


def main():
    data = unpack()
    sources = {
        "austen": "\n\n".join(novels(data)),
        "bible": bible(data),
        "jargon": dictionary(data / "usr/share/dictd/jargon.dict.dz"),
        "devil": dictionary(data / "usr/share/dictd/devil.dict.dz"),
    }
    TEXT.mkdir(parents=True, exist_ok=True)
    held = []
    for name, text in sources.items():
        rest, out = split(cleaned(text, entries=name == "jargon"), *HELD_OUT_PASSAGES[name])
        (TEXT / f"{name}.txt").write_text(rest)
        held.append(out)
        print(f"{name:8} {len(rest):9,} characters to train on, {len(out):7,} held out")
    HELD_OUT.write_text("\n".join(held))


if __name__ == "__main__":
    main()
