"""Atomic sums, minima and maxima of f16, bf16 and pairs of them: text for the helpers of atomics.py.

Hosts have no such operations: a loop of compare-and-swap round f32 arithmetic. In shared memory, which one CPU thread uses at a time, a
plain update. Minima and maxima prefer a number to a NaN.
Source: PTX ISA, "atom".
"""

from __future__ import annotations

KINDS = {"half", "bfloat", "<2 x half>", "<2 x bfloat>"}


def update(rmw: str, kind: str, carrier: str, order: str, shared: bool) -> list[str]:
    """Text that sets %old and updates *%pointer with %x0."""
    size = 4 if carrier == "i32" else 2
    if shared:
        return [
            f"  %old = load {carrier}, ptr %pointer, align {size}",
            *_compute(rmw, kind, carrier, "%old"),
            f"  store {carrier} %new, ptr %pointer, align {size}",
        ]
    failure = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    return [
        f"  %guess = load atomic {carrier}, ptr %pointer monotonic, align {size}",
        "  br label %try",
        "try:",
        f"  %old = phi {carrier} [ %guess, %loop ], [ %found, %try ]",
        *_compute(rmw, kind, carrier, "%old"),
        f"  %pair = cmpxchg ptr %pointer, {carrier} %old, {carrier} %new {order} {failure}, align {size}",
        f"  %found = extractvalue {{ {carrier}, i1 }} %pair, 0",
        f"  %swapped = extractvalue {{ {carrier}, i1 }} %pair, 1",
        "  br i1 %swapped, label %stored, label %try",
        "stored:",
    ]


def _shaped(kind: str, element: str) -> str:
    return f"<2 x {element}>" if kind.startswith("<") else element


def _splat(kind: str, value: str) -> str:
    return f"splat ({value})" if kind.startswith("<") else value.split()[1]


def _widen(kind: str, carrier: str, source: str, name: str) -> list[str]:
    half, word, single = _shaped(kind, "i16"), _shaped(kind, "i32"), _shaped(kind, "float")
    lines = [f"  %{name}.h = bitcast {carrier} {source} to {half}"]
    if "bfloat" in kind:
        return [
            *lines,
            f"  %{name}.w = zext {half} %{name}.h to {word}",
            f"  %{name}.s = shl {word} %{name}.w, {_splat(kind, 'i32 16')}",
            f"  %{name} = bitcast {word} %{name}.s to {single}",
        ]
    shown = _shaped(kind, "half")
    return [
        *lines,
        f"  %{name}.f = bitcast {half} %{name}.h to {shown}",
        f"  %{name} = fpext {shown} %{name}.f to {single}",
    ]


def _compute(rmw: str, kind: str, carrier: str, old: str) -> list[str]:
    """%new from an old value and %x0."""
    single, word, half, flag = (_shaped(kind, item) for item in ("float", "i32", "i16", "i1"))
    lines = [*_widen(kind, carrier, old, "a"), *_widen(kind, carrier, "%x0", "c")]
    if rmw == "fadd":
        lines.append(f"  %s = fadd {single} %a, %c")
    else:
        lines += [
            f"  %better = fcmp {'olt' if rmw == 'fmin' else 'ogt'} {single} %a, %c",
            f"  %alone = fcmp uno {single} %c, %c",
            f"  %keep = or {flag} %better, %alone",
            f"  %s = select {flag} %keep, {single} %a, {single} %c",
        ]
    if "bfloat" not in kind:
        shown = _shaped(kind, "half")
        return [*lines, f"  %t = fptrunc {single} %s to {shown}", f"  %new = bitcast {shown} %t to {carrier}"]
    return [
        *lines,
        f"  %raw = bitcast {single} %s to {word}",
        f"  %high = lshr {word} %raw, {_splat(kind, 'i32 16')}",
        f"  %last = and {word} %high, {_splat(kind, 'i32 1')}",
        f"  %bias = add {word} %last, {_splat(kind, 'i32 32767')}",
        f"  %sum = add {word} %raw, %bias",
        f"  %quiet = or {word} %raw, {_splat(kind, 'i32 4194304')}",
        f"  %nan = fcmp uno {single} %s, %s",
        f"  %picked = select {flag} %nan, {word} %quiet, {word} %sum",
        f"  %top = lshr {word} %picked, {_splat(kind, 'i32 16')}",
        f"  %narrow = trunc {word} %top to {half}",
        f"  %new = bitcast {half} %narrow to {carrier}",
    ]
