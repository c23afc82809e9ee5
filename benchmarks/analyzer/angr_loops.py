"""Runs in angr's own environment: the loops of one executable as angr finds them, and how long that took.

Prints JSON: {"seconds": of CFGFast and LoopFinder, "loops": {function: [headers]}}, addresses as in the file.
"""

import json
import logging
import sys
import time

logging.disable(logging.CRITICAL)
import angr  # noqa: E402


def repeats(project: "angr.Project", address: int) -> bool:
    instructions = project.factory.block(address).capstone.insns
    return bool(instructions) and instructions[0].mnemonic.startswith("rep")


def main() -> None:
    project = angr.Project(sys.argv[1], auto_load_libs=False)
    base = project.loader.main_object.mapped_base - project.loader.main_object.linked_base
    started = time.process_time()
    graph = project.analyses.CFGFast(normalize=True)
    functions = [f for f in graph.kb.functions.values() if not f.is_plt and not f.is_simprocedure]
    finder = project.analyses.LoopFinder(functions=functions, normalize=True)
    seconds = time.process_time() - started
    loops: dict[int, list[int]] = {}
    for loop in finder.loops:
        node = graph.model.get_any_node(loop.entry.addr)
        # A repeated string instruction is a loop to angr, and one instruction to us.
        if node is not None and not repeats(project, loop.entry.addr):
            loops.setdefault(node.function_address - base, []).append(loop.entry.addr - base)
    print(json.dumps({"seconds": seconds, "loops": {str(k): sorted(set(v)) for k, v in loops.items()}}))


if __name__ == "__main__":
    main()
