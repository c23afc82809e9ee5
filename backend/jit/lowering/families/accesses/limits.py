"""Whether addresses may be accessed: comparisons with latches and with the ends of spaces, inline, and what is called when they fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.ir import LANE_INDEX, Builder, Val, integer
from farlane.backend.jit.runtime.structures import SHARED_WINDOW, Latch

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


def corners_outside(e: Emitter, space: str, lowest: list[Val], span: int, shape: int) -> tuple[Val, str]:
    """Whether any of these, or what lies up to `span` accesses behind it, is misaligned or not where the site may access; and the site's latch, if
    it has one."""
    b = e.body
    if space == "shared":
        limit = support.shared_size(e)
        return corners_bad(e, lowest, less(e, element_count(e, limit, shape), span), shape), ""
    latch, low, count = run_of_pages(e)
    # The runtime has taken the span off the count.
    return corners_bad(e, [b.bin("sub", corner, low) for corner in lowest], count, shape), latch


def look_at_all(e: Emitter, space: str, whole: Val, latch: str, span: int, shape: int) -> None:
    """What follows when `corners_outside` holds, given all lanes' addresses: a fault, or another run of pages for the latch."""
    if space == "shared":
        tail = f"{support.shared_size(e)}, i64 {SHARED_WINDOW}, i32 {shape}, i32 {e.line}"
        e.body.line(f"call void @farlane_out_of_bounds(ptr %warp, {whole}, i32 -1, {tail})")
    else:
        tail = f"ptr {latch}, i32 {shape | span << 16}, i32 {e.line}"
        e.body.line(f"call void @farlane_miss(ptr %warp, {whole}, i32 -1, {tail})")


def run_of_pages(e: Emitter) -> tuple[str, Val, Val]:
    """A site's latch, where the run of pages starts that it found last, and up to how far from there accesses may begin."""
    b = e.body
    latch = support.latch(e, e.site())
    return latch, b.load("i64", False, latch), b.load("i64", False, b.gep(latch, Latch.end.offset))


def corners_bad(e: Emitter, offsets: list[Val], count: Val, shape: int) -> Val:
    """Whether an offset is misaligned or not below `count` elements."""
    b = e.body
    bad = b.icmp("uge", rotate(e, offsets[0], shape), count)
    for offset in offsets[1:]:
        bad = b.bin("or", bad, b.icmp("uge", rotate(e, offset, shape), count))
    return bad


def element_count(e: Emitter, limit: Val, shape: int) -> Val:
    """How many aligned accesses lie below a limit in bytes."""
    log = shape & 255
    return integer(int(limit.name) >> log, "i64") if limit.const else e.body.bin("lshr", limit, integer(log, "i64"))


def less(e: Emitter, count: Val, span: int) -> Val:
    if not span:
        return count
    if count.const:
        return integer(max(int(count.name) - span, 0), "i64")
    return e.body.call("usub.sat", "i64", [count, integer(span, "i64")])


def lane_bases(e: Emitter) -> Val:
    size = support.local_size(e)

    def make(p: Builder) -> Val:
        base = p.load("i64", False, support.warp_field(p, "local"))
        return p.bin("add", base, p.bin("mul", LANE_INDEX["i64"], size))

    return e.once("lane_bases", make)


def rotate(e: Emitter, offset: Val, shape: int) -> Val:
    log = shape & 255
    return e.body.call("fshr", offset.type, [offset, offset, integer(log, offset.type)]) if log else offset


def shape_of(size: int, write: bool) -> int:
    """What accesses.ll gets of an access: log2 of its size, and whether it writes."""
    return size.bit_length() - 1 | (256 if write else 0)


def bad_lanes(e: Emitter, ok: Val) -> Val:
    """The active lanes for which a check failed, as bits (a scalar check fails for all)."""
    b = e.body
    bad = b.invert(ok)
    if not ok.vec:
        return b.select(bad, e.mask_bits, integer(0, "i32"))
    bits = b.bits(bad)
    return bits if e.mask is None else b.bin("and", bits, e.mask_bits)


@dataclass(frozen=True, slots=True)
class Latched:
    """An access compared with the run of pages that its site found last. Neither way on is written yet."""

    latch: str
    low: Val  # where the run starts
    offset: Val  # the access's distance from it
    bad: Val  # the active lanes that lie elsewhere, as bits
    miss: str  # where they go on
    hit: str


def compare_latch(e: Emitter, address: Val, shape: int) -> Latched:
    """Compares, and leaves the block for `miss` or `hit`."""
    b = e.body
    latch, low, count = run_of_pages(e)
    offset = b.bin("sub", address, low)
    ok = b.icmp("ult", rotate(e, offset, shape), count)
    miss, hit = b.new_label("miss"), b.new_label("hit")
    bad = bad_lanes(e, ok)
    b.branch_if(b.icmp("ne", bad, integer(0, "i32")), miss, hit, unlikely=True)
    return Latched(latch, low, offset, bad, miss, hit)


def check_pages(e: Emitter, address: Val, shape: int) -> None:
    if e.kernel.options.untranslated:
        return
    b = e.body
    found = compare_latch(e, address, shape)
    bad, latch = found.bad, found.latch
    b.block(found.miss)
    if address.vec or e.kernel.options.checks:  # the report names all lanes
        every = b.splat(address)
        with e.reporting():
            b.line(f"call void @farlane_miss(ptr %warp, {every}, {bad}, ptr {latch}, i32 {shape}, i32 {e.line})")
    else:
        lane = support.first_lane(e)
        with e.reporting():
            b.line(f"call void @farlane_check(ptr %warp, {address}, {lane}, ptr {latch}, i32 {shape}, i32 {e.line})")
    b.branch(found.hit)
    b.block(found.hit)


def check_bounds(e: Emitter, offset: Val, limit: Val, window: int, shape: int) -> None:
    b = e.body
    elements = element_count(e, limit, shape)
    if offset.type != "i64":
        elements = integer(int(elements.name), "i32") if elements.const else b.cast("trunc", elements, offset.type)
    bad = bad_lanes(e, b.icmp("ult", rotate(e, offset, shape), elements))
    miss, hit = b.new_label("outside"), b.new_label("inside")
    b.branch_if(b.icmp("ne", bad, integer(0, "i32")), miss, hit, unlikely=True)
    b.block(miss)
    wide = b.splat(offset if offset.type == "i64" else b.cast("zext", offset, "i64"))
    tail = f"{limit}, i64 {window}, i32 {shape}, i32 {e.line}"
    with e.reporting():
        b.line(f"call void @farlane_out_of_bounds(ptr %warp, {wide}, {bad}, {tail})")
    b.branch(hit)
    b.block(hit)
