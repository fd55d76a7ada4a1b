"""Our collectives against Open MPI's, MPICH's, Intel MPI's and gloo's, in turns.

Every library's ranks are started once for a place ("where") and sleep until it is their turn; in each round,
and for each size, all libraries measure the same cell one after the other, in an order that changes. What
is timed, and how, is the same for all: collectives/peer.h. The ratio of a round is the time of
the best peer over ours; what counts is its median over the rounds, beside its spread, against the bar. A bar
that is missed is "beyond" where the floor, the same with no library around it, misses it in the same rounds.

  bench_collectives.py --build build/release [--rounds 5] [--where host2-arena,...] [--kind all_reduce,...]
                       [--sizes 4,64K,...] [--ms 50] [--json FILE] [--markdown FILE]

Run by `./dev bench --peers collectives`. A peer that is not installed is left out, and said so.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "collectives"))

import bars
import build
import libraries

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)


def size_name(size):
    for unit in "GMK":
        if size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]} {unit}"
    return str(size)


def parse_arguments():
    parser = argparse.ArgumentParser(description="our collectives against the peers', in turns")
    parser.add_argument("--build", required=True, help="our build directory, build/release")
    parser.add_argument("--impi", help="a virtual environment that has impi-devel")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--where", help="of: " + ", ".join(bars.PLACES))
    parser.add_argument("--ranks", type=int, help="only places of so many ranks")
    parser.add_argument("--kind", default="all", help="all (default; with more ranks than 2 only all_reduce), or of: " + ", ".join(bars.KINDS))
    parser.add_argument("--sizes", help="bytes, K and M multiply by 1024; default: the place's own")
    parser.add_argument("--ms", type=float, default=50, help="milliseconds for a cell (default 50)")
    parser.add_argument("--json", help="where to write every sample")
    parser.add_argument("--markdown", help="where to write the tables as docs/BENCHMARKS.md has them")
    args = parser.parse_args()
    names = args.where.split(",") if args.where else list(bars.PLACES)
    kinds = list(bars.KINDS) if args.kind == "all" else args.kind.split(",")
    for given, known, what in ((names, bars.PLACES, "place"), (kinds, bars.KINDS, "kind")):
        for name in given:
            if name not in known:
                parser.error(f"no such {what}: {name} (there are: {', '.join(known)})")
    args.places = [bars.PLACES[name] for name in names]
    if args.ranks:
        args.places = [place for place in args.places if place.ranks == args.ranks]
    args.kinds = kinds
    return args


HOPELESS_TIMES, HOPELESS_US = 10, 1000


def hopeless(rounds):
    """Who was so far behind in the first round that it cannot be the best peer: not asked again."""
    if not rounds or not rounds[0]:
        return ()
    best = min(rounds[0].values())
    return [name for name, us in rounds[0].items() if us > HOPELESS_TIMES * best and us > HOPELESS_US
            and name != bars.OURS]


def measure_round(running, kind, size, milliseconds, left_out):
    """Microseconds by library: the best of its ways to do the kind. Who fails is out from then on."""
    times = {}
    for library in random.sample(list(running), len(running)):
        if library.name in left_out:
            continue
        try:
            cells = [library.measure(kind, size, variant, milliseconds)
                     for variant in range(len(library.variants(kind)))]
        except libraries.PeerFailed as problem:
            print(f"  {library.name} is out: {problem}", flush=True)
            library.stop()
            running.remove(library)
            continue
        for cell in cells:
            if cell["wrong"]:
                sys.exit(f"{library.name}: {kind} of {size} bytes: {cell['wrong']} wrong values")
        if cells:
            times[library.name] = min(cell["us"] for cell in cells)
    return times


def summarise(place, kind, size, rounds):
    """One row: medians by library, and per bar the ratio of each round with its verdict."""
    names = sorted({name for times in rounds for name in times})
    row = {"where": place.name, "kind": kind, "size": size,
           "us": {name: statistics.median(t[name] for t in rounds if name in t) for name in names},
           "rounds": rounds, "bars": []}
    floors = [t[bars.OURS] / t[bars.FLOOR] for t in rounds if bars.OURS in t and bars.FLOOR in t]
    if floors:
        row["over_floor"] = statistics.median(floors)
    for bar in bars.bars_of(place, kind, size):
        ratios, floor_ratios = [], []
        for times in rounds:
            peers = [times[name] for name in times
                     if name not in (bars.OURS, bars.FLOOR) and (bar.peers is None or name in bar.peers)]
            if peers and bars.OURS in times:
                ratios.append(min(peers) / times[bars.OURS])
            if peers and bars.FLOOR in times:
                floor_ratios.append(min(peers) / times[bars.FLOOR])
        if ratios:
            median = statistics.median(ratios)
            row["bars"].append({"against": bar.against, "ratio": median, "least": min(ratios),
                                "most": max(ratios), "bar": bar.factor,
                                "floor_ratio": statistics.median(floor_ratios) if floor_ratios else None,
                                "met": bar.factor is None or median >= bar.factor})
    return row


FLOOR_HOLDS = 0.9


def verdict_of(bar):
    """met; missed; or beyond: what has no library around it would miss the bar too (and ours is no faster)."""
    if not bar["bar"]:
        return ""
    if bar["met"]:
        return "met"
    floor = bar["floor_ratio"]
    return "beyond" if floor and floor < bar["bar"] and bar["ratio"] * FLOOR_HOLDS <= floor else "missed"


def print_header(place, kind, names):
    print(f"\n{place.name}: {kind}, {place.title}")
    print(f"{'bytes':>8}" + "".join(f"{name:>12}" for name in names)
          + f"{'x floor':>9}{'ratio':>9}  {'least to most':<16}{'bar':>5}")


def print_row(row, names):
    cells = "".join(f"{row['us'][name]:12.3f}" if name in row["us"] else f"{'-':>12}" for name in names)
    over = f"{row['over_floor']:9.2f}" if "over_floor" in row else f"{'-':>9}"
    first = f"{size_name(row['size']):>8}{cells}{over}"
    for bar in row["bars"] or [None]:
        line = first
        if bar is not None:
            spread = f"{bar['least']:.2f} to {bar['most']:.2f}"
            wanted = f"{bar['bar']:5.2f}" if bar["bar"] else "    -"
            verdict = verdict_of(bar).replace("missed", "MISSED")
            line += f"{bar['ratio']:9.2f}  {spread:<16}{wanted} {verdict:<7}{bar['against']}"
        print(line.rstrip(), flush=True)
        first = " " * len(first)


def compare_place(place, args, programs, directory):
    with libraries.Network(place) as network:
        if network.refused:
            print(f"\n{place.name}: left out: {network.refused}", flush=True)
            return []
        running = libraries.start_all(place, programs, network, directory)
        rows = []
        try:
            for kind in args.kinds:
                if args.kind == "all" and kind not in place.kinds:
                    continue
                names = [library.name for library in running if library.variants(kind)]
                if bars.OURS not in names:
                    continue
                print_header(place, kind, names)
                sizes = [parse_size(s) for s in args.sizes.split(",")] if args.sizes else place.sizes
                for size in bars.sizes_of(place, kind, sizes):
                    rounds = []
                    for _ in range(args.rounds):
                        rounds.append(measure_round(running, kind, size, args.ms, hopeless(rounds)))
                    if any(rounds):
                        rows.append(summarise(place, kind, size, rounds))
                        print_row(rows[-1], names)
        finally:
            for library in running:
                library.stop()
    return rows


LIBRARY_TITLES = {"ringfence": "Ringfence", "openmpi": "Open MPI", "openmpi-tcp": "Open MPI", "mpich": "MPICH",
                  "impi": "Intel MPI", "gloo": "gloo", "gloo-busy": "gloo, busy-poll", "floor": "floor"}


def short(microseconds):
    """Three digits, and no exponents."""
    return f"{microseconds:.3g}" if microseconds < 999.5 else f"{microseconds:.0f}"


def markdown_table(rows):
    """One place and kind."""
    names = [name for name in LIBRARY_TITLES if any(name in row["us"] for row in rows)]
    lines = ["| bytes | " + " | ".join(LIBRARY_TITLES[name] for name in names)
             + " | × floor | times faster | least to most | bar | |", "|---" * (len(names) + 6) + "|"]
    for row in rows:
        times = " | ".join(short(row["us"][name]) if name in row["us"] else "–" for name in names)
        times += f" | {row['over_floor']:.2f}" if "over_floor" in row else " | –"
        for bar in row["bars"]:
            wanted = f"{bar['bar']:g}" if bar["bar"] else "–"
            verdict = verdict_of(bar)
            verdict = {"missed": "**missed**", "beyond": f"beyond: floor {bar['floor_ratio'] or 0:.2f}"}.get(verdict, verdict)
            if bar["against"] != "best peer":
                verdict = (verdict + f" ({bar['against']})").strip()
            lines.append(f"| {size_name(row['size'])} | {times} | **{bar['ratio']:.2f}** | "
                         f"{bar['least']:.2f} to {bar['most']:.2f} | {wanted} | {verdict} |")
            times = " | ".join("" for _ in range(len(names) + 1))
    return "\n".join(lines) + "\n"


def other_kinds_table(rows):
    """All other kinds of a place side by side: our microseconds, and how many times faster; and the floor's."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    lines = ["| bytes | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for size in sorted({row["size"] for row in rows}):
        cells = []
        for kind in kinds:
            found = [row for row in rows if (row["kind"], row["size"]) == (kind, size) and row["bars"]]
            for bar in found[0]["bars"][:1] if found else []:
                missed = {"missed": " **missed**", "beyond": " beyond"}.get(verdict_of(bar), "")
                us = found[0]["us"]
                floor = f"; floor {short(us[bars.FLOOR])} µs, {bar['floor_ratio']:.2f}" if bar["floor_ratio"] else ""
                cells.append(f"{short(us[bars.OURS])} µs, **{bar['ratio']:.2f}** "
                             f"({bar['least']:.2f} to {bar['most']:.2f}){missed}{floor}")
            if not found:
                cells.append("–")
        lines.append(f"| {size_name(size)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_markdown(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for where in dict.fromkeys(row["where"] for row in rows):
            own = [row for row in rows if row["where"] == where]
            title = bars.PLACES[where].title
            first = [row for row in own if row["kind"] == "all_reduce"]
            rest = [row for row in own if row["kind"] != "all_reduce"]
            if first:
                file.write(f"All-reduce, {title} (`--where {where}`), µs:\n\n{markdown_table(first)}\n")
            if rest:
                bar = rest[0]["bars"][0]["bar"]
                file.write(f"The others, {title}{f'; bar {bar:g}' if bar else ''}:\n\n"
                           f"{other_kinds_table(rest)}\n")


def main():
    args = parse_arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: ranks and namespaces are taken down
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    rows = []
    # In memory where possible: what the ranks share is not to be written to a disk meanwhile.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as directory:
        programs = build.build_all(args.build, args.impi)
        print(f"microseconds, medians of {args.rounds} rounds; ratio: best peer over ours, median of the "
              "rounds; floor: the same with no library around it; x floor: ours over that", flush=True)
        for place in args.places:
            rows += compare_place(place, args, programs, directory)
    judged = [bar for row in rows for bar in row["bars"] if bar["bar"]]
    verdicts = [verdict_of(bar) for bar in judged]
    print(f"\n{verdicts.count('met')} of {len(judged)} bars met, {verdicts.count('beyond')} beyond the floor, "
          f"{verdicts.count('missed')} missed")
    if args.markdown:
        write_markdown(args.markdown, rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"rounds": args.rounds, "rows": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
