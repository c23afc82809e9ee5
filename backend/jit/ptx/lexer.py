"""Tokens of PTX text, and the small cursor that the parsers share.

Owns the lexical grammar only. Bounded: a text is tokenised once, in time linear in its length. Newlines are tokens, so that
the cursor knows its line; the cursor skips them.
Source: PTX ISA, "Syntax".
"""

from __future__ import annotations

import re
import struct

from farlane.backend.jit.ptx.declarations import PtxError
from farlane.backend.jit.ptx.model import Immediate

MAX_TEXT = 64 << 20  # of what is read at once: a body, a declaration

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(\*/|\Z)", re.DOTALL)
_TOKEN = re.compile(
    r"\n"
    r"|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?"
    r"|[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+U?"
    r"|\.(?:reg|local|shared|param)(?=\.)"  # cuda_fp16.hpp writes `.reg.b32` without a space
    r"|[%.$A-Za-z_][\w.$%]*(?:::\w[\w.]*)*"
    r'|"[^"\n]*"'
    r"|[^\s]"
)
_WORD = re.compile(r"[%.$A-Za-z_]")


def strip_comments(text: str) -> str:
    """Blanks comments, keeping the newlines inside them. Raises PtxError for one without an end."""
    if "/" not in text:
        return text
    return _COMMENT.sub(_blank, text)


def _blank(comment: re.Match[str]) -> str:
    if comment.group(1) == "":
        raise PtxError("unterminated comment", comment.string.count("\n", 0, comment.start()) + 1)
    return "\n" * comment.group().count("\n") or " "


def is_word(token: str) -> bool:
    return bool(token) and _WORD.match(token) is not None


class Cursor:
    """A position in a token list. `peek` returns "" at the end."""

    __slots__ = ("index", "line", "tokens")

    def __init__(self, text: str, line: int = 1) -> None:
        if len(text) > MAX_TEXT:
            raise PtxError(f"PTX text longer than {MAX_TEXT} bytes")
        self.tokens: list[str] = _TOKEN.findall(text)
        self.tokens.append("")
        self.index = 0
        self.line = line
        self._skip()

    def _skip(self) -> None:
        tokens, index = self.tokens, self.index
        while tokens[index] == "\n":
            index += 1
            self.line += 1
        self.index = index

    @property
    def peek(self) -> str:
        return self.tokens[self.index]

    def next(self) -> str:
        token = self.tokens[self.index]
        if not token:
            raise PtxError("unexpected end of text", self.line)
        self.index += 1
        self._skip()
        return token

    def accept(self, token: str) -> bool:
        if self.tokens[self.index] != token:
            return False
        self.next()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise PtxError(f"expected '{token}', found '{self.peek or 'end of text'}'", self.line)

    def word(self, what: str) -> str:
        if not is_word(self.peek):
            raise PtxError(f"expected {what}, found '{self.peek or 'end of text'}'", self.line)
        return self.next()

    def integer(self, what: str) -> int:
        negative = self.accept("-")
        value = number(self.next(), self.line)
        if value.kind != "i":
            raise PtxError(f"expected an integer as {what}", self.line)
        return -value.value if negative else value.value

    def size(self, what: str, limit: int = 1 << 40) -> int:
        line = self.line
        value = self.integer(what)
        if not 0 <= value <= limit:
            raise PtxError(f"{what} out of range: {value}", line)
        return value

    def skip_braces(self) -> None:
        """Skips a brace-enclosed block whose '{' was consumed."""
        depth = 1
        while depth:
            token = self.next()
            depth += (token == "{") - (token == "}")


def number(token: str, line: int) -> Immediate:
    """A numeric literal."""
    head = token[:2].lower()
    if len(token) > 400:
        raise PtxError("number too long", line)
    try:
        if head == "0f" and len(token) == 10:
            return Immediate(int(token[2:], 16), "f32")
        if head == "0d" and len(token) == 18:
            return Immediate(int(token[2:], 16), "f64")
        digits = token.removesuffix("U")
        if head == "0x":
            value = int(digits[2:], 16)
        elif head == "0b":
            value = int(digits[2:], 2)
        elif "." in token or (digits.isascii() and "e" in digits.lower()):
            return Immediate(struct.unpack("<Q", struct.pack("<d", float(token)))[0], "f64")
        elif len(digits) > 1 and digits[0] == "0" and digits.isascii():
            value = int(digits, 8)
        else:
            if not digits.isascii():
                raise ValueError
            value = int(digits)
    except (ValueError, OverflowError):
        raise PtxError(f"malformed number '{token[:40]}'", line) from None
    if value >= 1 << 64:
        raise PtxError(f"number '{token[:40]}' does not fit 64 bits", line)
    return Immediate(value)
