"""What names alone tell: which imports are CUDA's, which functions never return, end the process, jump, or come back
twice."""

from __future__ import annotations

from functools import cache

NEVER_RETURNS = frozenset(
    [
        "exit",
        "_exit",
        "_Exit",
        "quick_exit",
        "abort",
        "longjmp",
        "_longjmp",
        "siglongjmp",
        "__longjmp_chk",
        "pthread_exit",
        "__assert_fail",
        "__assert_perror_fail",
        "__stack_chk_fail",
        "__fortify_fail",
        "__chk_fail",
        "err",
        "errx",
        "verr",
        "verrx",
        "__cxa_throw",
        "__cxa_rethrow",
        "__cxa_bad_cast",
        "__cxa_bad_typeid",
        "__cxa_throw_bad_array_new_length",
        "__cxa_throw_bad_array_length",
        "__cxa_call_unexpected",
        "__cxa_call_terminate",
        "__cxa_pure_virtual",
        "__cxa_deleted_virtual",
        "_Unwind_Resume",
        "__libc_start_main",
        "_ZSt9terminatev",
        "_ZSt10unexpectedv",
        "_ZSt17__throw_bad_allocv",
        "_ZSt16__throw_bad_castv",
        "_ZSt15__throw_bad_typeidv",
        "_ZSt19__throw_logic_errorPKc",
        "_ZSt20__throw_domain_errorPKc",
        "_ZSt24__throw_invalid_argumentPKc",
        "_ZSt20__throw_length_errorPKc",
        "_ZSt20__throw_out_of_rangePKc",
        "_ZSt24__throw_out_of_range_fmtPKcz",
        "_ZSt21__throw_runtime_errorPKc",
        "_ZSt19__throw_range_errorPKc",
        "_ZSt22__throw_overflow_errorPKc",
        "_ZSt23__throw_underflow_errorPKc",
        "_ZSt25__throw_bad_function_callv",
        "_ZSt20__throw_system_errori",
        "_ZSt20__throw_future_errori",
        "_ZSt28__throw_bad_array_new_lengthv",
        "_ZSt21__glibcxx_assert_failPKciS0_S0_",
        "_ZSt26__throw_bad_variant_accessPKc",
    ]
)

_NOT_THE_DRIVER = "cuFile"  # of a library of its own; all others write a small letter behind "cu"
_REGISTRATION = ("__cudaRegister", "__cudaUnregister", "__cudaInitModule")


@cache
def is_cuda(name: str) -> bool:
    """Whether an imported name is one of the runtime's or the driver's that does something when it is called in a
    loop."""
    if name.startswith(("cuda", "__cuda")):
        return not name.startswith(_REGISTRATION)
    return name.startswith("cu") and name[2:3].isupper() and not name.startswith(_NOT_THE_DRIVER)


# Known functions (`library.TRUSTED`) that may throw an exception.
_THROWING = frozenset({"_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"})


def may_throw(name: str, streams: bool) -> bool:
    """Whether a known function may throw: allocation, and, where `streams` do, output through them."""
    stream = name.startswith(("_ZNSo", "_ZSt4endl", "_ZSt5flush", "_ZStls", "_ZSt16__ostream"))
    return name in _THROWING or (streams and stream)


# std::endl, where it is inlined, asks the stream's character type, which is the standard one (docs/explanation/analyzer/how-it-works.md).
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
# Start threads, or have something done beside the program; imports that begin so.
THREADS = (
    "pthread_create",
    "thrd_create",
    "_ZNSt6thread15_M_start_thread",
    "GOMP_parallel",
    "__kmpc_fork_call",
    "clone",
)
CATCHES = "__cxa_begin_catch"
