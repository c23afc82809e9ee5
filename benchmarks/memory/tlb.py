"""TLB hierarchies on the same generated page requests, in one run: S3's directories and their rivals against the goals.

    python benchmarks/memory/tlb.py [--preset mgpusim] [--programs gemm,fft] [--grid] [--cost]

Every hierarchy gets the same requests and begins empty. The streams are generated from index arithmetic (tlb_streams.py), not recorded from programs.
`--grid` tries the thresholds of S3; `--cost` compares the compiled model with the reference, and the fast mode with the exact one. All counts are the same
in every run; only the times differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Sequence

from farlane.backend.memory import config
from farlane.backend.memory.paging import PageTable
from farlane.backend.memory.tlb import Counts, Spec, Stream
from farlane.backend.memory.tlb import rivals as rival
from farlane.backend.memory.tlb.fast import FastTlb
from tlb_streams import PROGRAMS, Program

SHARING = 0.5  # a sharing program: the oracle finds at least this part of the private misses in a peer
WALK_GOALS = {"fft": -0.35, "spmv": -0.25}
FILLS, SPARES = (2, 3, 4, 5), (2, 3, 4)


def hierarchies(base: Spec) -> dict[str, Spec]:
    """S3 as it stands, with the nearest holder asked, with other policies, with a small directory; and the rivals."""
    s3, peers = config.preset("mgpusim-s3").tlb, config.preset("mgpusim-peers").tlb
    literal = dataclasses.replace(base, sharing="directory", directory=s3.directory, policy=s3.policy)
    nearest = dataclasses.replace(literal, directory=dataclasses.replace(s3.directory, route="nearest"))
    pool = config.preset("mgpusim-pool").tlb
    pooled = dataclasses.replace(base, sharing="directory", directory=pool.directory, policy=pool.policy)
    tuned = dataclasses.replace(base, sharing="directory", directory=peers.directory, policy=peers.policy)
    small = dataclasses.replace(tuned, directory=dataclasses.replace(tuned.directory, entries=128, radius=2))
    found = {
        "none": rival.baseline(base),
        "s3": literal,
        "s3-nearest": nearest,
        "pool": pooled,
        "peers": tuned,
        "peers-small": small,
        "larger": rival.larger(literal),
        "larger-small": rival.larger(small),
        "probe": rival.probe(literal),
        "oracle": rival.oracle(literal),
        "perfect": rival.perfect(literal),
    }
    print(
        f"bits per core: private TLB {base.private.entries * base.private_entry_bits}, directory {literal.directory_bits} (small:"
        f" {small.directory_bits}); the same bits as private entries: {found['larger'].private.entries} (small: {found['larger-small'].private.entries})"
    )
    return found


def total(spec: Spec, table: PageTable, streams: Sequence[Stream]) -> Counts:
    """All kernels of a program, one after the other."""
    model = FastTlb(spec, table)
    counts = Counts()
    for stream in streams:
        counts = counts + model.run(stream)
    return counts


def line(name: str, counts: Counts, base: Counts) -> str:
    requests = counts.requests
    return (
        f"  {name:13}{counts.mean_latency:9.1f} {counts.latency / base.latency - 1:+7.1%} {counts.cycles / base.cycles - 1:+7.1%}"
        f" {counts.private_hits / requests:7.1%} {counts.merged / requests:7.1%} {counts.peer_share:7.1%} {counts.peer_misses:8} {counts.shared_accesses:8}"
        f" {counts.walks:8} {counts.walks / base.walks - 1:+7.1%} {counts.hops:9} {counts.update_messages:10}"
        f" {counts.walk_wait / max(1, counts.walks):7.0f} {counts.shared_wait / max(1, counts.shared_accesses):7.1f}"
    )


HEAD = (
    f"  {'':13}{'latency':>9} {'':7} {'cycles':>7} {'private':>7} {'merged':>7} {'peer':>7} {'stale':>8} {'shared':>8}"
    f" {'walks':>8} {'':7} {'hops':>9} {'updates':>10} {'w.wait':>7} {'s.wait':>7}"
)


def compare(program: Program, specs: dict[str, Spec]) -> dict[str, Counts]:
    base = specs["none"]
    table = program.space.table(base.page_bytes)
    streams = list(program.streams(base.cores, base.page_shift))
    pages = len({int(page) for stream in streams for page in set(stream.page.tolist())})
    requests = sum(stream.requests for stream in streams)
    print(f"\n{program.name}: {program.about}; {requests} requests, {pages} pages, {len(streams)} kernels")
    print(HEAD)
    found = {}
    for name, spec in specs.items():
        found[name] = total(spec, table, streams)
        print(line(name, found[name], found["none"]), flush=True)
    return found


def verdict(met: bool) -> str:
    return "met" if met else "missed"


def goals(results: dict[str, dict[str, Counts]], scheme: str) -> None:
    print(f"\nGoals, {scheme}:")
    sharing = [name for name, found in results.items() if found["oracle"].peer_share >= SHARING]
    print(f"  sharing programs (the oracle serves at least half of the private misses): {', '.join(sharing) or 'none'}")
    for name, found in results.items():
        none, ours, oracle = found["none"], found[scheme], found["oracle"]
        gain, most = none.latency - ours.latency, none.latency - oracle.latency
        parts = [f"peers {ours.peer_share:6.1%} of private misses (oracle {oracle.peer_share:6.1%})"]
        if name in sharing:
            parts[0] += f" half: {verdict(ours.peer_share >= 0.5)}"
        if most > 0.01 * none.latency:
            parts.append(
                f"{gain / most:7.0%} of the oracle's gain ({most / none.latency:.1%}) 80 %: {verdict(gain >= 0.8 * most)}"
            )
        else:
            parts.append(f"the oracle gains {most / none.latency:.1%}: nothing to reach for")
        if name in WALK_GOALS:
            change = ours.walks / none.walks - 1
            bound = oracle.walks / none.walks - 1
            parts.append(
                f"walks {change:+.1%} (oracle {bound:+.1%}) {WALK_GOALS[name]:+.0%}: {verdict(change <= WALK_GOALS[name])}"
            )
        slower = ours.cycles / none.cycles - 1
        parts.append(f"cycles {slower:+.1%} 1 %: {verdict(slower <= 0.01)}")
        print(f"  {name:10} " + "; ".join(parts))


def grid(programs: Sequence[Program], base: Spec) -> None:
    """S3's thresholds: mean latency against the baseline."""
    print("\nThresholds (fill / spare): latency against no sharing, per program, and the mean of the ratios")
    s3 = config.preset("mgpusim-s3").tlb
    work = [(p, p.space.table(base.page_bytes), list(p.streams(base.cores, base.page_shift))) for p in programs]
    plain = [total(rival.baseline(base), table, streams).latency for _, table, streams in work]
    print(f"  {'':8}" + "".join(f"{p.name:>10}" for p in programs) + f"{'mean':>10}")
    best = {}
    for fill in FILLS:
        for spare in SPARES:
            policy = dataclasses.replace(s3.policy, fill_threshold=fill, spare_degree=spare)
            spec = dataclasses.replace(base, sharing="directory", directory=s3.directory, policy=policy)
            ratios = [
                total(spec, table, streams).latency / none
                for (_, table, streams), none in zip(work, plain, strict=True)
            ]
            best[fill, spare] = statistics.geometric_mean(ratios)
            print(
                f"  {fill} / {spare}   "
                + "".join(f"{r - 1:+10.1%}" for r in ratios)
                + f"{best[fill, spare] - 1:+10.1%}",
                flush=True,
            )
    fill, spare = min(best, key=lambda key: best[key])
    print(f"  best: fill at {fill}, spare from {spare} on ({best[fill, spare] - 1:+.1%})")


def cost(programs: Sequence[Program], base: Spec, specs: dict[str, Spec]) -> None:
    """Time per request; and what leaving out certain hits changes."""
    print(
        "\nCost per request, medians of 3 (CPU time), on at most 400 requests of each core; and the fast mode against the exact one, whole programs"
    )
    for program in programs:
        table, streams = program.space.table(base.page_bytes), list(program.streams(base.cores, base.page_shift))
        short = streams[0].slice(0, 400)
        for name in ("none", "s3"):
            FastTlb(specs[name], table).run(short.slice(0, 5))
            runs = []
            for _ in range(3):
                model = FastTlb(specs[name], table)
                start = time.process_time()
                model.run(short)
                runs.append((time.process_time() - start) / len(short) * 1e6)
            exact = total(specs[name], table, streams)
            less = total(specs[name], table, [stream.compress() for stream in streams])
            left = 1 - sum(len(stream.compress()) for stream in streams) / exact.requests
            print(
                f"  {program.name:10} {name:5} {statistics.median(runs):6.2f} us; fast mode leaves out {left:5.1%}: latency {less.latency / exact.latency - 1:+.2%},"
                f" walks {less.walks / exact.walks - 1:+.2%}, cycles {less.cycles / exact.cycles - 1:+.2%}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="mgpusim", help="private and shared TLB, walkers and page size")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--hierarchies", default="", help="some of them only, besides none and oracle")
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--cost", action="store_true")
    arguments = parser.parse_args()
    base = config.preset(arguments.preset).tlb
    print(f"preset {arguments.preset}; generated streams, until the simulated device records what kernels touch")
    specs = hierarchies(base)
    if arguments.hierarchies:
        chosen = {"none", "oracle", *arguments.hierarchies.split(",")}
        specs = {name: spec for name, spec in specs.items() if name in chosen}
    programs = [PROGRAMS[name]() for name in arguments.programs.split(",")]
    if arguments.grid:
        grid(programs, base)
    if arguments.cost:
        cost(programs, base, specs)
    if not arguments.grid and not arguments.cost:
        results = {program.name: compare(program, specs) for program in programs}
        for scheme in ("s3", "s3-nearest", "pool", "peers", "peers-small"):
            if scheme in specs:
                goals(results, scheme)


if __name__ == "__main__":
    main()
