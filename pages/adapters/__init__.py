"""Which commands measure which tables of docs/results: a row for each, in the order of the pages."""

from __future__ import annotations

from adapters import host, loops, memory, others
from adapters.reading import Source, Suite

LIFETIMES = tuple(
    f"python benchmarks/memory/slots_long.py --jobs 100000 --lifetimes {kind}" for kind in memory.LIFETIMES
)
READING = "farlane bench roundtrips --only cg-host,cg-device,cg,cg-tenth --distances 500 --turns 5"
#: `make test-fleet` makes this environment, which has Ray.
FLEET = ".cache/fleet/bin/python benchmarks/fleet"

SOURCES = (
    Source("latency", ("python benchmarks/latency.py",), host.latency, ("round-trips",), quick=True),
    Source("latency", ("python benchmarks/copies.py",), host.copies, ("copies",), quick=True),
    Source("latency", ("python benchmarks/sessions.py",), host.sessions, ("sessions",), quick=True),
    Source("latency", ("python benchmarks/starting.py",), host.starting, ("starting",), quick=True),
    Source("latency", ("python benchmarks/replay/records.py",), host.records, ("records",), quick=True),
    Source(
        "latency",
        (
            "python benchmarks/host/fairness.py 64 20 --only equal",
            "python benchmarks/host/fairness.py 63 20 --only weights",
        ),
        host.shares,
        ("shares",),
    ),
    Source(
        "latency",
        ("python benchmarks/host/fairness.py 64 6 --only latency",),
        host.interactive,
        ("interactive",),
        quick=True,
    ),
    Source("loops", (READING,), loops.reading, ("reading",), quick=True),
    Source("loops", ("python benchmarks/shapes.py --distance 500",), loops.shapes, ("shapes",), quick=True),
    Source("loops", ("python benchmarks/recorder.py",), host.recorder, ("recorder",), quick=True),
    Source("analyzer", ("python benchmarks/analyzer.py",), others.analyzer, ("time", "angr")),
    Source("analyzer", ("python benchmarks/analyzer/coverage.py",), others.coverage, ("own",), exact=True),
    Source("analyzer", ("python benchmarks/analyzer/evaluating.py",), others.evaluating, ("evaluating",)),
    Source("gpu", ("python benchmarks/gpu/run.py --only ratios",), others.gpu, ("workloads",)),
    Source("kernels", ("FARLANE_JIT_TIERS=off python benchmarks/compiler/jit.py",), others.jit, ("kernels",)),
    Source("kernels", ("python benchmarks/compiler/jit_compile.py",), others.jit_compile, ("compile",), quick=True),
    Source("python-guests", ("python benchmarks/guests/arrays.py --rounds 15",), others.arrays, ("arrays",)),
    Source("python-guests", ("python benchmarks/guests/cold_start.py",), others.cold_start, ("cold",)),
    Source(
        "memory-reuse", ("python benchmarks/memory/oversubscription.py",), memory.policies, ("policies",), exact=True
    ),
    Source("memory-reuse", ("python benchmarks/memory/planner.py",), memory.planner, ("goals", "traces")),
    Source(
        "task-switching",
        ("python benchmarks/memory/switching.py",),
        memory.switching,
        ("moved",),
        exact=True,
        quick=True,
    ),
    Source(
        "slots", ("python benchmarks/memory/slots_long.py --only full",), memory.full, ("full",), exact=True, quick=True
    ),
    Source("slots", LIFETIMES, memory.lifetimes, ("lifetimes",), exact=True, quick=True, each=True),
    Source(
        "slots", ("python benchmarks/memory/slots.py --only waits",), memory.waits, ("waits",), exact=True, quick=True
    ),
    Source(
        "slots",
        ("python benchmarks/memory/slots_long.py --only waits",),
        memory.long_waits,
        ("long-waits",),
        exact=True,
        quick=True,
    ),
    Source(
        "slots",
        ("python benchmarks/memory/slots.py --only queues",),
        memory.queues,
        ("queues",),
        exact=True,
        quick=True,
    ),
    Source(
        "tlb-programs",
        ("python benchmarks/memory/tlb_programs.py",),
        memory.tlb_programs,
        ("hierarchies", "requests"),
        exact=True,
    ),
    Source(
        "tlb-programs", ("python benchmarks/memory/tlb_programs.py --preset gem5",), memory.gem5, ("gem5",), exact=True
    ),
    Source("tlb-streams", ("python benchmarks/memory/tlb.py",), memory.streams, ("streams",), exact=True, quick=True),
    Source("tlb-cost", ("python benchmarks/memory/tlb_programs.py --cost",), memory.cost, ("kernels",)),
    Source("tlb-cost", ("python benchmarks/memory/whole_programs.py --runs 7",), memory.whole, ("whole",)),
    Source("fleet", ("farlane fleet simulate",), others.fleet, ("placement",)),
    Source(
        "fleet",
        (f"{FLEET}/cluster.py", f"{FLEET}/cluster.py --hosts 8 --sessions 100 --at-once 16"),
        others.cluster,
        ("cluster",),
        each=True,
    ),
    Source("fleet", (f"{FLEET}/placing.py",), others.placing, ("placing", "parts", "asking")),
    Source(
        "faults",
        ("python benchmarks/faults/campaign.py --trials 1000 --seed 101",),
        others.campaign,
        ("campaign",),
        exact=True,
        statuses=(0, 1),
    ),
    Source("faults", ("python benchmarks/faults/parsers.py",), others.parsers, ("parsers",)),
)
#: Pages that a command writes, from results that it keeps beside them.
SUITES = (
    Suite("roundtrips", "farlane bench roundtrips --output docs/results/roundtrips"),
    Suite("numba-suite", "make test-numba"),
    Suite("cupy-suite", "make test-cupy"),
    Suite("tutorials", "make test-tutorials"),
)
AREAS = tuple(dict.fromkeys((*(source.page for source in SOURCES), *(suite.page for suite in SUITES))))

__all__ = ["AREAS", "SOURCES", "SUITES", "Source", "Suite"]
