"""What names alone tell: which imports are CUDA's, which functions never return."""

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
    """Whether an imported name is one of the runtime's or the driver's that does something when it is called in a loop."""
    if name.startswith(("cuda", "__cuda")):
        return not name.startswith(_REGISTRATION)
    return name.startswith("cu") and name[2:3].isupper() and not name.startswith(_NOT_THE_DRIVER)
