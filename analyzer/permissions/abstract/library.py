"""Imported functions whose effect on memory is known: what they read and write through their arguments, that they keep none of
them, call nothing of the program's, and come back. Whatever is not here is an unknown function. Data, no logic.

A row is the letters of the arguments, and what is returned. Letters: "." a number, or of no interest; "r" memory read, "w"
written, "b" both, "f" freed; with a number that many bytes, with @n as many as argument n says; "c" copied to the first
argument's memory; a last letter with a star: all further arguments. Returned: "n" a number, "0" the first argument or something in its
object, "h" new memory, "x" an address from elsewhere.

Sources: ISO C, POSIX, the C++ ABI. Assumed: nobody has replaced them by functions that do something else.
"""

from __future__ import annotations

KNOWN: dict[str, tuple[str, str]] = {
    "malloc": (".", "h"),
    "calloc": (". .", "h"),
    "aligned_alloc": (". .", "h"),
    "memalign": (". .", "h"),
    "valloc": (".", "h"),
    "_Znwm": (".", "h"),
    "_Znam": (".", "h"),
    "_ZnwmRKSt9nothrow_t": (". .", "h"),
    "_ZnamRKSt9nothrow_t": (". .", "h"),
    "_ZnwmSt11align_val_t": (". .", "h"),
    "_ZnamSt11align_val_t": (". .", "h"),
    "free": ("f", "n"),
    "_ZdlPv": ("f", "n"),
    "_ZdlPvm": ("f .", "n"),
    "_ZdaPv": ("f", "n"),
    "_ZdaPvm": ("f .", "n"),
    "_ZdlPvSt11align_val_t": ("f .", "n"),
    "_ZdlPvmSt11align_val_t": ("f . .", "n"),
    "memset": ("w@2 . .", "0"),
    "memcpy": ("w@2 c@2 .", "0"),
    "memmove": ("w@2 c@2 .", "0"),
    "__memset_chk": ("w@2 . . .", "0"),
    "__memcpy_chk": ("w@2 c@2 . .", "0"),
    "__memmove_chk": ("w@2 c@2 . .", "0"),
    "bzero": ("w@1 .", "n"),
    "explicit_bzero": ("w@1 .", "n"),
    "memcmp": ("r@2 r@2 .", "n"),
    "memchr": ("r . .", "0"),
    "bcmp": ("r@2 r@2 .", "n"),
    "strlen": ("r", "n"),
    "strnlen": ("r .", "n"),
    "strcmp": ("r r", "n"),
    "strncmp": ("r r .", "n"),
    "strcasecmp": ("r r", "n"),
    "strcpy": ("w r", "0"),
    "strncpy": ("w r .", "0"),
    "strcat": ("b r", "0"),
    "strchr": ("r .", "0"),
    "strrchr": ("r .", "0"),
    "strstr": ("r r", "0"),
    "atoi": ("r", "n"),
    "atol": ("r", "n"),
    "atoll": ("r", "n"),
    "atof": ("r", "n"),
    "printf": ("r*", "n"),
    "__printf_chk": (". r*", "n"),
    "fprintf": ("b r*", "n"),
    "__fprintf_chk": ("b . r*", "n"),
    "sprintf": ("w r*", "n"),
    "__sprintf_chk": ("w . . r*", "n"),
    "snprintf": ("w . r*", "n"),
    "__snprintf_chk": ("w . . . r*", "n"),
    "puts": ("r", "n"),
    "putchar": (".", "n"),
    "fputs": ("r b", "n"),
    "fputc": (". b", "n"),
    "putc": (". b", "n"),
    "fwrite": ("r . . b", "n"),
    "fread": ("w . . b", "n"),
    "fgets": ("w . b", "0"),
    "fflush": ("b", "n"),
    "fopen": ("r r", "x"),
    "fclose": ("f", "n"),
    "sscanf": ("r w*", "n"),
    "__isoc99_sscanf": ("r w*", "n"),
    "__isoc23_sscanf": ("r w*", "n"),
    "fscanf": ("b w*", "n"),
    "__isoc99_fscanf": ("b w*", "n"),
    "__isoc23_fscanf": ("b w*", "n"),
    "strtol": ("r b .", "n"),
    "strtoul": ("r b .", "n"),
    "__isoc23_strtol": ("r b .", "n"),
    "__isoc23_strtoul": ("r b .", "n"),
    "strtod": ("r b", "n"),
    "strtof": ("r b", "n"),
    "getenv": ("r", "x"),
    "rand": ("", "n"),
    "srand": (".", "n"),
    "random": ("", "n"),
    "srandom": (".", "n"),
    "drand48": ("", "n"),
    "srand48": (".", "n"),
    **dict.fromkeys(("abs", "labs", "llabs"), (".", "n")),
    **dict.fromkeys(("isalpha", "isdigit", "isspace", "isalnum", "toupper", "tolower"), (".", "n")),
    **dict.fromkeys(("lrand48", "mrand48", "omp_get_wtime", "omp_get_num_threads", "omp_get_thread_num"), ("", "n")),
    **dict.fromkeys(("omp_get_max_threads", "omp_get_num_procs", "getppid", "getuid", "sched_getcpu"), ("", "n")),
    "difftime": (".", "n"),
    "times": ("w32", "n"),
    "getrusage": (". w144", "n"),
    "clock_getres": (". w16", "n"),
    "perror": ("r", "n"),
    "time": ("w8", "n"),
    "clock": ("", "n"),
    "gettimeofday": ("w16 w8", "n"),
    "clock_gettime": (". w16", "n"),
    "usleep": (".", "n"),
    "sleep": (".", "n"),
    "nanosleep": ("r16 w16", "n"),
    "sched_yield": ("", "n"),
    "getpid": ("", "n"),
    "write": (". r .", "n"),
    "read": (". w .", "n"),
    "close": (".", "n"),
    "__cxa_guard_acquire": ("b8", "n"),
    "__cxa_guard_release": ("b8", "n"),
    "_ZNSt6chrono3_V212steady_clock3nowEv": ("", "n"),
    "_ZNSt6chrono3_V212system_clock3nowEv": ("", "n"),
    "_ZNSolsEi": ("b .", "0"),
    "_ZNSolsEj": ("b .", "0"),
    "_ZNSolsEl": ("b .", "0"),
    "_ZNSolsEm": ("b .", "0"),
    "_ZNSolsEf": ("b .", "0"),
    "_ZNSolsEd": ("b .", "0"),
    "_ZNSolsEb": ("b .", "0"),
    "_ZNSolsEPKv": ("b .", "0"),
    "_ZNSo9_M_insertIdEERSoT_": ("b .", "0"),
    "_ZNSo9_M_insertIlEERSoT_": ("b .", "0"),
    "_ZNSo9_M_insertImEERSoT_": ("b .", "0"),
    "_ZNSo9_M_insertIbEERSoT_": ("b .", "0"),
    "_ZNSo3putEc": ("b .", "0"),
    "_ZNKSt5ctypeIcE13_M_widen_initEv": ("b", "n"),
    "_ZNKSt5ctypeIcE8do_widenEc": ("r .", "n"),
    "_ZNSo5flushEv": ("b", "0"),
    "_ZSt4endlIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_": ("b", "0"),
    "_ZSt5flushIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_": ("b", "0"),
    "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc": ("b r", "0"),
    "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_c": ("b .", "0"),
    "_ZSt16__ostream_insertIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_PKS3_l": ("b r .", "0"),
    **{f"{name}{width}": (".", "n") for width in ("", "f") for name in (
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log"),
        *("log2", "log10", "log1p", "pow", "sqrt", "cbrt", "hypot", "fabs", "floor", "ceil", "round", "trunc", "fmod"),
        *("lround", "lrint", "rint", "nearbyint", "fmin", "fmax", "erf", "erfc", "tgamma", "copysign"),
    )},
    "sincos": ("w8 w8", "n"),
    "sincosf": ("w4 w4", "n"),
}  # fmt: skip

# Of these, those that may throw an exception.
_THROWING = frozenset({"_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"})


def may_throw(name: str, streams: bool) -> bool:
    """Whether a known function may throw: allocation, and, where `streams` do, output through them."""
    stream = name.startswith(("_ZNSo", "_ZSt4endl", "_ZSt5flush", "_ZStls", "_ZSt16__ostream"))
    return name in _THROWING or (streams and stream)


# std::endl, where it is inlined, asks the stream's character type, which is the standard one (docs/analyzer.md).
WIDEN, BAD_CAST = "_ZNKSt5ctypeIcE8do_widenEc", "_ZSt16__throw_bad_castv"
# A stream throws only after basic_ios::exceptions has asked for it, which is inlined and calls this.
CLEAR = "_ZNSt9basic_iosIcSt11char_traitsIcEE5clearESt12_Ios_Iostate"
# Imported wherever there are landing pads, unless the C++ library is a part of the file.
UNWINDS = frozenset({"_Unwind_Resume", "__gxx_personality_v0"})


# Functions that end the process and come back nowhere. `exit` runs the program's own handlers first.
ENDS = frozenset(
    [
        "_exit",
        "_Exit",
        "abort",
        "__assert_fail",
        "__assert_perror_fail",
        "__stack_chk_fail",
        "__fortify_fail",
        "__chk_fail",
    ]
)
ENDS_WITH_HANDLERS = frozenset(["exit", "quick_exit", "err", "errx", "verr", "verrx"])
# End the process by std::terminate, whose handler may be the program's; and throws, where nothing catches.
TERMINATES = frozenset(["_ZSt9terminatev", "__cxa_call_terminate", "__cxa_pure_virtual", "__cxa_deleted_virtual"])
# Come back a second time, or elsewhere.
RETURNS_TWICE = frozenset(
    ["setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp", "vfork", "getcontext", "swapcontext"]
)
JUMPS = frozenset(["longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "setcontext", "swapcontext", "makecontext"])
SIGNALS = frozenset(
    ["signal", "sigaction", "bsd_signal", "sysv_signal", "__sysv_signal", "sigset", "signalfd", "sigvec"]
)
# Let functions of the program's run where none is called; so do `externals.interface.CALLS_BACK`.
REFUSED_IMPORTS = frozenset(
    [
        *("pthread_cancel", "process_vm_readv", "process_vm_writev", "ptrace", "userfaultfd", "printf_function"),
        *("register_printf_function", "register_printf_specifier", "register_printf_type", "fopencookie"),
    ]
)
CATCHES = "__cxa_begin_catch"
