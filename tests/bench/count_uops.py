#!/usr/bin/env python3
"""Vector uops per 8 weights of the compiled decode loops, by what instructions cost on Gracemont (docs/kernels.md).

count_uops.py OBJECT... [--ceiling T=LIMIT]...

Takes expert_avx2.cpp.o from the objects, disassembles the 128-bit kernels (forward<Fp9Narrow, E4m3Narrow>) and finds their inner
loops: a jump back over straight code with conversions of halves in it. A conversion makes eight weights, so a loop's multiply-adds
over its conversions are its tokens T. fp9 loops need half a vpand a conversion, e4m3 loops a whole one. Fails when a loop with a
ceiling is above it, and when it isn't found: the compiler then builds something else, and this count means nothing.
"""
import argparse
import re
import subprocess
import sys

SYMBOL = "forward<ductl::agent::(anonymous namespace)::Fp9Narrow"
LINE = re.compile(r"^\s+([0-9a-f]+):\s+(\S+)\s*(.*)$")

# ALU uops: 256-bit integer and floating-point operations are two on Gracemont, 128-bit ones are one; vcvtph2ps is two from either.
# Loads, stores and prefetches go through ports of their own and are counted apart.
HALVES_TO_FLOATS = "vcvtph2ps"
LOADS = ("vmovdqa", "vmovdqu", "vmovaps", "vmovups", "vbroadcastss", "vmovss", "vmovd", "vmovq", "vlddqu")
KNOWN = re.compile(r"v(p?(and|andn|or|xor)(ps|d|q)?|padd[bdwq]|psub[bdwq]|psll[wdq]|psr[al][wdq]|punpck[lh](bw|wd|dq|qdq)"
                   r"|pmov[sz]x[a-z]+|fn?m(add|sub)\d+ps|(add|mul|sub)ps|pshufd|pxor|xorps)$")
ONE_PORT = ("vextracti128", "vextractf128", "vinserti128", "vinsertf128", "vpshufb", "vpermq")


def disassemble(path):
    text = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    start = text.find("<void ductl::agent::(anonymous namespace)::" + SYMBOL)
    if start < 0:
        sys.exit(f"{path}: no {SYMBOL}, ...>: renamed, or inlined elsewhere")
    body = text[start:text.find("\n\n", start)]
    return [(int(m[1], 16), m[2], m[3]) for m in map(LINE.match, body.splitlines()) if m]


def inner_loops(code):
    """Straight stretches between a conditional jump back and its target."""
    place = {address: i for i, (address, _, _) in enumerate(code)}
    for end, (address, name, operands) in enumerate(code):
        target = re.match(r"([0-9a-f]+) <", operands)
        if not name.startswith("j") or not target or int(target[1], 16) >= address:
            continue
        begin = place.get(int(target[1], 16))
        if begin is None:
            continue
        body = code[begin:end]
        if not any(n.startswith("j") or n in ("call", "ret") for _, n, _ in body):
            yield body


def is_load(name, operands):  # "(...),%ymm0": the destination is a register and the source memory
    return name in LOADS and re.search(r"\),%[xy]mm\d+$", operands)


def is_store(name, operands):
    return name in LOADS and operands.endswith(")")


def uops(name, operands, unknown):
    wide = "%ymm" in operands
    if name == HALVES_TO_FLOATS or (wide and KNOWN.match(name)) or (wide and name in LOADS):
        return 2
    if KNOWN.match(name) or name in LOADS or name in ONE_PORT:
        return 1
    unknown.add(name)
    return 2 if wide else 1


def measure(body):
    count = {"alu": 0, "loads": 0, "stores": 0, "prefetches": 0, "weights": 0, "fma": 0, "and": 0, "unknown": set()}
    for _, name, operands in body:
        if name.startswith("prefetch"):
            count["prefetches"] += 1
        if not name.startswith("v"):
            continue
        if is_load(name, operands):
            count["loads"] += 1
        elif is_store(name, operands):
            count["stores"] += 1
        else:
            count["alu"] += uops(name, operands, count["unknown"])
            count["loads"] += "(" in operands
        count["weights"] += name == HALVES_TO_FLOATS
        count["fma"] += name.startswith("vfmadd")
        count["and"] += name in ("vpand", "vandps")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("objects", nargs="+")
    parser.add_argument("--ceiling", action="append", default=[], metavar="T=LIMIT", help="of fp9 with T tokens")
    arguments = parser.parse_args()
    objects = [o for word in arguments.objects for o in word.split(";") if "expert_avx2.cpp" in o]
    if len(objects) != 1:
        sys.exit(f"expert_avx2.cpp's object is not among {arguments.objects}")
    worst = {}
    for body in inner_loops(disassemble(objects[0])):
        count = measure(body)
        if count["weights"] == 0 or count["fma"] % count["weights"] != 0 or count["fma"] == 0:
            continue  # no conversions, or the loop decodes into scratch
        groups, tokens = count["weights"], count["fma"] // count["weights"]
        form = "fp9" if count["and"] * 4 < count["weights"] * 3 else "e4m3"
        print(f"{form:4} T={tokens} at {body[0][0]:#x}: {count['alu'] / groups:.2f} vector uops per 8 weights, "
              f"{count['loads'] / groups:.2f} loads, {count['stores'] / groups:.2f} stores ({groups} x 8 weights a turn)")
        if count["unknown"]:
            sys.exit(f"no cost is known here for {', '.join(sorted(count['unknown']))}: add it to {sys.argv[0]}")
        worst[form, tokens] = max(worst.get((form, tokens), 0), count["alu"] / groups)
    failed = False
    for ceiling in arguments.ceiling:
        tokens, limit = ceiling.split("=")
        found = worst.get(("fp9", int(tokens)))
        if found is None:
            sys.exit(f"no inner loop of fp9 with T={tokens} was found in {objects[0]}")
        failed |= found > float(limit)
        print(f"fp9 T={tokens}: {found:.2f}, ceiling {limit}{'' if found <= float(limit) else ': TOO MANY'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
