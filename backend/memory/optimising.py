"""From a unit's LLVM code (compiling.py) to an object: for all that it may be asked, or for one case that is known beforehand.

Code reads what it works on through a table of words (`TABLE`: the table's address and a word's number). What is known of them becomes part of the code: lengths end loops, a specification decides what
is there at all, and arrays that lie at known distances from the table need no addresses. Needs LLVM, not Numba.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import llvmlite.binding as llvm

TABLE = "farlane.table"


class Known(NamedTuple):
    """Words of the table by their number: what they are; how many bytes behind the table what they are addresses of lies; the words that never change at the address that they are."""

    words: tuple[tuple[int, int], ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    contents: tuple[tuple[int, tuple[int, ...]], ...] = ()


def optimised(symbol: str, bitcode: bytes, known: Known) -> bytes:
    """The object. All but its entry can be called from within only, so that LLVM optimises it as a whole."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_bitcode(bitcode)
    module.triple = llvm.get_default_triple()
    definitions = llvm.parse_assembly("\n".join(_table(known)))
    definitions.triple, definitions.data_layout = module.triple, module.data_layout
    module.link_in(definitions)
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"  # what Numba has for Python; nothing here asks for it
    module.verify()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, reloc="pic", codemodel="default"
    )
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


def _table(known: Known) -> Iterable[str]:
    """LLVM's text of the function that reads the table. Its words do not change while code runs."""
    cases: dict[int, list[str]] = {number: [f"ret i64 {word}"] for number, word in known.words}
    for number, place in known.places:
        cases[number] = [f"%place{number} = add nuw i64 %address, {place}", f"ret i64 %place{number}"]
    for number, words in known.contents:
        listed = ", ".join(f"i64 {word}" for word in words)
        yield f"@contents{number} = internal constant [{len(words)} x i64] [{listed}], align 64"
        cases[number] = [f"ret i64 ptrtoint (ptr @contents{number} to i64)"]
    yield f"define i64 @{TABLE}(i64 %address, i64 %number) alwaysinline {{"
    yield "  switch i64 %number, label %unknown ["
    yield from (f"    i64 {number}, label %case{number}" for number in cases)
    yield "  ]"
    for number, lines in cases.items():
        yield f"case{number}:"
        yield from (f"  {line}" for line in lines)
    yield "unknown:"
    yield "  %rows = inttoptr i64 %address to ptr"
    yield "  %row = getelementptr i64, ptr %rows, i64 %number"
    yield "  %word = load i64, ptr %row, !invariant.load !0"
    yield "  ret i64 %word"
    yield "}"
    yield "!0 = !{}"
