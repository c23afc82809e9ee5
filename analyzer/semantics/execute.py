"""What instructions do to a state. Calls and jumps are the engine's business.

Mnemonics that `moves`, `arithmetic` and `vectors` name are executed; of all others it is only known what they change,
which becomes OPAQUE.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.instruction import Instruction
from farlane.analyzer.semantics import arithmetic, moves, vectors
from farlane.analyzer.semantics.operands import unknown
from farlane.analyzer.values.state import State


def execute(state: State, instruction: Instruction) -> None:
    """Changes the state as the instruction does."""
    state.memory.at = instruction.address
    handler = HANDLERS.get(instruction.mnemonic)
    if handler is not None:
        handler(state, instruction)
    elif instruction.mnemonic.startswith("j"):
        pass
    elif instruction.mnemonic.startswith("cmov"):
        moves.conditional_move(state, instruction)
    elif instruction.mnemonic.startswith("set"):
        moves.set_byte(state, instruction)
    else:
        unknown(state, instruction)


def _nothing(state: State, instruction: Instruction) -> None:
    pass


HANDLERS: dict[str, Callable[[State, Instruction], None]] = {
    **moves.HANDLERS,
    **arithmetic.HANDLERS,
    **vectors.HANDLERS,
    **dict.fromkeys(("nop", "endbr64", "ret"), _nothing),
}
