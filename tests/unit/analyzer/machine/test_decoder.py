"""Instructions that are known from another place."""

from __future__ import annotations

from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.machine.instruction import Immediate, Memory

CODE = bytes.fromhex(
    "e800000000"  # call
    "f2e810000000"  # bnd call
    "eb02"  # jmp, short
    "e9fcffffff"  # jmp, near and backward
    "7405"  # je, short
    "0f8500010000"  # jne, near
    "e2fe"  # loop
    "e302"  # jrcxz
    "66e90000"  # jmp with a prefix, which processors take differently
    "c7f800000000"  # xbegin
    "488d0510000000"  # lea rax, [rip + 0x10]
    "833df0ffffff07"  # cmp dword ptr [rip - 0x10], 7
    "ff2500000000"  # jmp qword ptr [rip]
    "64488b042528000000"  # mov rax, qword ptr fs:[0x28]
    "48b81122334455667788"  # movabs
    "6aff"  # push -1
    "f30fb8c1"  # popcnt, which tells the registers that it writes
    "c3"
)


def test_equal_bytes_elsewhere_are_decoded_as_if_they_were_new() -> None:
    decoder = Decoder()
    for address in (0x1000, 0x401234, 0x7FFFFFFFF000, 0x10):
        found = decoder.decode(CODE, address)
        assert found == Decoder().decode(CODE, address)
        assert sum(each.size for each in found) == len(CODE)
        assert found[0].operands == (Immediate(address + 5, 8),)


def test_direct_calls_and_long_jumps_lead_where_the_disassembler_says() -> None:
    decoder = Decoder()
    for start in ("e8", *(f"0f8{condition:x}" for condition in range(16))):
        for distance in (0, 5, 0x7FFFFFFF, -1, -0x200, -0x80000000):
            code = bytes.fromhex(start) + distance.to_bytes(4, "little", signed=True)
            for address in (0x10, 0x401234, 0x7FFFFFFFF000):
                (found,) = decoder.decode(code, address)
                ((at, text),) = decoder.text(code, address)
                mnemonic, _, operand = text.partition(" ")
                assert (found.address, found.size, found.mnemonic, found.writes) == (at, len(code), mnemonic, ())
                (target,) = found.operands
                assert isinstance(target, Immediate)
                assert (target.value % 2**64, target.size) == (int(operand, 0), 8)


def test_places_beside_the_code_move_with_it() -> None:
    decoder = Decoder()
    code = bytes.fromhex("488d0510000000")
    for address in (0x1000, 0x2000):
        (found,) = decoder.decode(code, address)
        memory = found.operands[1]
        assert isinstance(memory, Memory)
        assert memory.displacement == found.end + 0x10
