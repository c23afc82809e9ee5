"""Why a loop that reads has no slice: one word each, which docs/reference/reasons.md explains.

Words that say the same of a loop's description ("Reasons" there) are the same words.
"""

MEMORY = "memory-changed"
HOST_CALL = "host-call"
INSTRUCTION = "instruction"
UNKNOWN_FUNCTION = "unknown-function"
UNKNOWN_API = "unknown-api"
UNKNOWN_KERNEL = "unknown-kernel"
UNKNOWN_COPY = "unknown-copy"
CONTROL = "control"
IRREDUCIBLE = "irreducible"
NESTED = "nested"
CALLEE = "callee"
ESCAPES = "escapes"
THREADS = "threads"
SIGNALS = "signals"
EXCEPTIONS = "exceptions"
CLOCK = "clock"
SYSTEM_CALL = "system-call"
ENTRY = "entry"
TOO_LONG = "too-long"
TIME = "time"
ALL = frozenset(value for name, value in list(globals().items()) if name.isupper() and isinstance(value, str))
