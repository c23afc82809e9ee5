"""What functions of the C and C++ libraries do to the program's memory. Data, and how to look a name up.

An effect is the places that a call may write, as (argument, bytes): bytes are a number, `by(n)` for as many as argument n
says, or ANY. None of the functions here keeps an address it is given, but inside an object of its own. A function that is
not listed is unknown: it may keep and change whatever it can reach.

Source: the declarations of the C standard, POSIX, and libstdc++'s ABI (sizes of its classes on x86-64).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

ANY = -1
STREAM = 528  # the largest of the standard streams


class Effect(NamedTuple):
    """What a call does.

    Attributes:
        writes: (argument, bytes); bytes <= -2 mean as many as argument -2 - bytes says.
        stream: whether the first argument is a stream, which matters only when it lies in the frame.
        allocates: whether the result is memory that nothing else points to.
        returns: the number of the argument that is also the result; None for another result.
        points: whether the result may point into what the first argument points to.
    """

    writes: tuple[tuple[int, int], ...] = ()
    stream: bool = False
    allocates: bool = False
    returns: int | None = None
    points: bool = False


def by(argument: int) -> int:
    return -2 - argument


NOTHING = Effect()
_STREAM = Effect(stream=True)
_ALLOCATES = Effect(allocates=True)

_MATHEMATICS = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "fabs",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "ilogb",
    "ldexp",
    "lgamma",
    "llrint",
    "llround",
    "log",
    "log10",
    "log1p",
    "log2",
    "logb",
    "lrint",
    "lround",
    "nearbyint",
    "nextafter",
    "pow",
    "remainder",
    "rint",
    "round",
    "scalbn",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
]

_TWO = {"atan2", "copysign", "fdim", "fmax", "fmin", "fmod", "hypot", "nextafter", "pow", "remainder"}
# Functions whose result is one of their arguments alone -> how many floating-point arguments they have.
PURE = {
    name + width: 2 if name in _TWO else 3 if name == "fma" else 1
    for name in _MATHEMATICS
    for width in ("", "f")
    if name != "lgamma"
}

_HARMLESS = [
    "printf",
    "puts",
    "putchar",
    "putc",
    "fprintf",
    "vprintf",
    "vfprintf",
    "fputs",
    "fputc",
    "fwrite",
    "fflush",
    "perror",
    "dprintf",
    "vdprintf",
    "__dprintf_chk",
    "__vprintf_chk",
    "putc_unlocked",
    "putchar_unlocked",
    "fputs_unlocked",
    "getc_unlocked",
    "_IO_putc",
    "_IO_getc",
    "clearerr",
    "__printf_chk",
    "__fprintf_chk",
    "__vfprintf_chk",
    "free",
    "cfree",
    "_ZdlPv",
    "_ZdlPvm",
    "_ZdaPv",
    "_ZdaPvm",
    "_ZdlPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "strlen",
    "strnlen",
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "memcmp",
    "bcmp",
    "strspn",
    "strcspn",
    "strerror",
    "atoi",
    "atol",
    "atoll",
    "atof",
    "abs",
    "labs",
    "llabs",
    "lldiv",
    "nan",
    "nanf",
    "isnan",
    "isinf",
    "finite",
    "__isnan",
    "__isnanf",
    "__isinf",
    "__isinff",
    "__finite",
    "__finitef",
    "__fpclassify",
    "__fpclassifyf",
    "__signbit",
    "__signbitf",
    "j0",
    "j1",
    "jn",
    "y0",
    "y1",
    "yn",
    "difftime",
    "div",
    "ldiv",
    "rand",
    "random",
    "lrand48",
    "drand48",
    "mrand48",
    "srand",
    "srandom",
    "srand48",
    "getenv",
    "secure_getenv",
    "isalpha",
    "isdigit",
    "isspace",
    "isalnum",
    "isupper",
    "islower",
    "ispunct",
    "isxdigit",
    "isprint",
    "isgraph",
    "iscntrl",
    "isblank",
    "strcoll",
    "strverscmp",
    "toupper",
    "tolower",
    "__ctype_b_loc",
    "__ctype_tolower_loc",
    "__ctype_toupper_loc",
    "__errno_location",
    "usleep",
    "sleep",
    "nanosleep",
    "sched_yield",
    "clock",
    "getpid",
    "gettid",
    "getppid",
    "getuid",
    "geteuid",
    "getpagesize",
    "get_nprocs",
    "sched_getcpu",
    "pthread_self",
    "mkdir",
    "rmdir",
    "rename",
    "chdir",
    "system",
    "pclose",
    "isatty",
    "fileno",
    "sysconf",
    "access",
    "fopen",
    "fopen64",
    "fclose",
    "fseek",
    "ftell",
    "fseeko",
    "ftello",
    "rewind",
    "feof",
    "ferror",
    "getc",
    "fgetc",
    "getchar",
    "ungetc",
    "remove",
    "unlink",
    "open",
    "close",
    "lseek",
    "write",
    "pwrite",
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fdopen",
    "freopen",
    "popen",
    "tmpfile",
    "fsetpos",
    "setbuf",
    "setbuffer",
    "setlinebuf",
    "setvbuf",
    "putenv",
    "setenv",
    "unsetenv",
    "setlocale",
    "localtime",
    "gmtime",
    "ctime",
    "asctime",
    "munmap",
    "mprotect",
    "madvise",
    "posix_madvise",
    "mlock",
    "munlock",
    "msync",
    "closedir",
    "sched_setaffinity",
    "setrlimit",
    "cabs",
    "cabsf",
    "carg",
    "cargf",
    "__cudaInitModule",
    "omp_get_wtime",
    "omp_get_num_threads",
    "omp_get_max_threads",
    "omp_get_thread_num",
    "omp_set_num_threads",
    "omp_get_num_procs",
    "omp_get_thread_limit",
    "omp_get_wtick",
    "omp_get_level",
    "omp_in_parallel",
    "omp_set_dynamic",
    "omp_get_dynamic",
    "omp_set_nested",
    "omp_set_max_active_levels",
    "__cxa_guard_acquire",
    "__cxa_guard_release",
    "__cxa_guard_abort",
    "__cxa_atexit",
    "__cxa_begin_catch",
    "__cxa_end_catch",
    "__cxa_get_exception_ptr",
    "__cxa_allocate_exception",
    "__cxa_free_exception",
    "__cxa_thread_atexit",
    "__dynamic_cast",
    "__cxa_finalize",
    "_ZNSt11this_thread11__sleep_forENSt6chrono8durationIlSt5ratioILl1ELl1EEEENS1_IlS2_ILl1ELl1000000000EEEE",
    "_ZNSt6chrono3_V212steady_clock3nowEv",
    "_ZNSt6chrono3_V212system_clock3nowEv",
    "_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base",
    "_ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base",
    "_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base",
    "_ZSt18_Rb_tree_decrementPKSt18_Rb_tree_node_base",
    "_ZSt11_Hash_bytesPKvmm",
    "_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm",
    "_ZNKSt5ctypeIcE13_M_widen_initEv",
    "_ZNKSt5ctypeIcE8do_widenEc",
    "_ZSt16__throw_bad_castv",
    "_ZSt9use_facetISt5ctypeIcEERKT_RKSt6locale",
]

# What compilers call where the processor has no instruction that may be used.
_ARITHMETIC = [
    *(
        f"__{name}{width}2"
        for name in ("popcount", "parity", "clz", "ctz", "ffs", "clrsb")
        for width in ("si", "di", "ti")
    ),
    *(f"__{name}ti3" for name in ("div", "udiv", "mod", "umod", "mul", "ashl", "ashr", "lshr")),
    *(f"__{name}{width}3" for name in ("mul", "div") for width in ("sc", "dc", "hc")),
    *(f"__powi{width}2" for width in ("sf", "df")),
    *(f"__float{sign}ti{width}" for sign in ("", "un") for width in ("sf", "df")),
    *(f"__fix{sign}{width}ti" for sign in ("", "uns") for width in ("sf", "df")),
    *("__extendhfsf2", "__extendhfdf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2"),
]

_ALLOCATORS = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "memalign",
    "valloc",
    "strdup",
    "strndup",
    "_Znwm",
    "_Znam",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
]

EFFECTS: dict[str, Effect] = {
    **dict.fromkeys((*_HARMLESS, *_ARITHMETIC), NOTHING),
    **{f"{name}{suffix}": NOTHING for name in _MATHEMATICS for suffix in ("", "f", "l")},
    **{f"__{name}{suffix}_finite": NOTHING for name in _MATHEMATICS for suffix in ("", "f")},
    **dict.fromkeys(_ALLOCATORS, _ALLOCATES),
    **dict.fromkeys(
        ("strchr", "strrchr", "strstr", "strpbrk", "memchr", "index", "rindex", "strchrnul", "strcasestr", "memrchr"),
        Effect(points=True),
    ),
    **dict.fromkeys(("mempcpy", "__mempcpy_chk", "stpncpy"), Effect(((0, by(2)),), points=True)),
    **dict.fromkeys(("stpcpy", "__stpcpy_chk"), Effect(((0, ANY),), points=True)),
    **{
        name: Effect(((0, by(2)),), returns=0)
        for name in ("memset", "memcpy", "memmove", "__memset_chk", "__memcpy_chk", "__memmove_chk", "strncpy")
    },
    "__strncpy_chk": Effect(((0, by(2)),), returns=0),
    **dict.fromkeys(("bzero", "explicit_bzero", "__explicit_bzero_chk"), Effect(((0, by(1)),))),
    "bcopy": Effect(((1, by(2)),)),
    "swab": Effect(((1, by(2)),)),
    **{
        name: Effect(((0, ANY),), returns=0)
        for name in ("strcpy", "strcat", "strncat", "__strcpy_chk", "__strcat_chk", "__strncat_chk")
    },
    **{name: Effect(((0, ANY),)) for name in ("sprintf", "vsprintf", "__sprintf_chk", "__vsprintf_chk", "gets")},
    **{
        name: Effect(((0, by(1)),))
        for name in ("snprintf", "vsnprintf", "__snprintf_chk", "__vsnprintf_chk", "getcwd", "strftime", "gethostname")
    },
    "fgets": Effect(((0, by(1)),), returns=0),
    "__fgets_chk": Effect(((0, by(2)),), returns=0),
    **dict.fromkeys(("fread", "fread_unlocked", "__fread_chk"), Effect(((0, ANY),))),
    "__read_chk": Effect(((1, by(2)),)),
    "read": Effect(((1, by(2)),)),
    "pread": Effect(((1, by(2)),)),
    "pread64": Effect(((1, by(2)),)),
    **dict.fromkeys(("getline", "getdelim", "__getdelim"), Effect(((0, 8), (1, 8)))),
    **dict.fromkeys(("asprintf", "vasprintf", "__asprintf_chk", "__vasprintf_chk"), Effect(((0, 8),))),
    "posix_memalign": Effect(((0, 8),)),
    "fgetpos": Effect(((1, 16),)),
    "getrlimit": Effect(((1, 16),)),
    "sched_getaffinity": Effect(((2, by(1)),)),
    "realpath": Effect(((1, 4096),)),
    **dict.fromkeys(("ctime_r", "asctime_r"), Effect(((1, 26),))),
    **dict.fromkeys(("frexpl", "remquol"), Effect(((0, 4),))),
    "modfl": Effect(((0, 16),)),
    "sincosl": Effect(((0, 16), (1, 16))),
    **{
        name: Effect(((1, ANY), (2, ANY), (3, ANY), (4, ANY), (5, ANY)))
        for name in ("scanf", "__isoc99_scanf", "__isoc23_scanf")
    },
    **{
        name: Effect(((2, ANY), (3, ANY), (4, ANY), (5, ANY)))
        for name in ("fscanf", "sscanf", "__isoc99_fscanf", "__isoc99_sscanf", "__isoc23_fscanf", "__isoc23_sscanf")
    },
    **{
        f"{prefix}{name}": Effect(((1, 8),))
        for prefix in ("", "__isoc23_")
        for name in ("strtol", "strtoul", "strtoll", "strtoull", "strtod", "strtof", "strtold")
    },
    "gettimeofday": Effect(((0, 16), (1, 8))),
    "clock_gettime": Effect(((1, 16),)),
    "clock_getres": Effect(((1, 16),)),
    "timespec_get": Effect(((0, 16),)),
    "time": Effect(((0, 8),)),
    "times": Effect(((0, 32),)),
    "getrusage": Effect(((1, 144),)),
    **dict.fromkeys(("stat", "fstat", "lstat", "stat64", "fstat64", "lstat64"), Effect(((1, 144),))),
    # The links of nodes in trees and lists; those of nodes further on are nothing that a program reads itself.
    "_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_": Effect(((1, 32), (2, 32), (3, 32))),
    "_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_": Effect(((0, 32), (1, 32))),
    "_ZNSt8__detail15_List_node_base7_M_hookEPS0_": Effect(((0, 16), (1, 16))),
    "_ZNSt8__detail15_List_node_base9_M_unhookEv": Effect(((0, 16),)),
    "rand_r": Effect(((0, 4),)),
    **dict.fromkeys(("erand48", "nrand48", "jrand48"), Effect(((0, 6),))),
    "mktime": Effect(((0, 56),)),
    **dict.fromkeys(("localtime_r", "gmtime_r"), Effect(((1, 56),))),
    "clock_nanosleep": Effect(((3, 16),)),
    "uname": Effect(((0, 390),)),
    "sysinfo": Effect(((0, 112),)),
    "getloadavg": Effect(((0, ANY),)),
    **dict.fromkeys(("remquo", "remquof"), Effect(((0, 4),))),
    **dict.fromkeys(("lgamma_r", "lgammaf_r"), Effect(((0, 4),))),
    "getopt": Effect(((1, ANY),)),
    "getopt_long": Effect(((1, ANY), (4, 4))),
    "frexp": Effect(((0, 4),)),
    "frexpf": Effect(((0, 4),)),
    "modf": Effect(((0, 8),)),
    "modff": Effect(((0, 4),)),
    "sincos": Effect(((0, 8), (1, 8))),
    "sincosf": Effect(((0, 4), (1, 4))),
}

# Engines of random numbers, and distributions, with their bytes; the first that fits.
_ENGINES = (
    ("St26linear_congruential_engine", 8),
    ("St23mersenne_twister_engineImLm64ELm312E", 2504),
    ("St23mersenne_twister_engine", 5000),
)
_DISTRIBUTIONS = (
    (r"St2\duniform_\w+_distribution", 16),
    (r"St19normal_distribution", 32),
    (r"St\d+\w+_distribution", 64),
)


def _random() -> Iterator[tuple[str, Effect]]:
    """Random numbers: an engine changes itself; a distribution itself and the engine that it is given. A copy of a function that the compiler
    made for certain arguments may have lost the first one."""
    for engine, size in _ENGINES:
        yield rf"_ZNK?{engine}|_ZSt18generate_canonical\w*{engine}", Effect(((0, size),))
        for distribution, own in _DISTRIBUTIONS:
            given = rf"_ZNK?{distribution}I\w*{engine}"
            yield rf"{given}\w*\.(isra|constprop)", Effect(((0, size), (1, size)))
            yield given, Effect(((0, own), (1, size)))
    for distribution, own in _DISTRIBUTIONS:
        yield rf"_ZNK?{distribution}I", Effect(((0, own),))


# Mangled names by their beginning, the first that fits.
_PATTERNS: tuple[tuple[str, Effect], ...] = (
    # Objects on which an input or output hangs while it runs, and output of what a buffer holds.
    (r"_ZNS[io]6sentryC", Effect(((0, 16),), stream=True)),
    (r"_ZNSolsEPSt15", Effect(((1, ANY),), stream=True)),
    # Streams: output, insertion by functions, flushing; `operator<<` of strings and characters. Most return the stream.
    (
        r"_ZNSols|_ZNSo(3put|5flush|5write|9_M_insert)|_ZSt4endl|_ZSt5flush|_ZStlsI|_ZStlsR|_ZSt16__ostream_insert",
        Effect(stream=True, returns=0),
    ),
    (r"_ZNSo\d|_ZNKSt9basic_ios", _STREAM),
    # Input: into the second argument, at most a long double or a string.
    (r"_ZStrsI.*(PS3_|Pa|Ph)$|_ZNSirsEPSt15|_ZSt17__istream_extract", Effect(((1, ANY),), stream=True)),
    (r"_ZNSirs|_ZStrsI|_ZSt7getline|_ZNSi10_M_extract|_ZNSi3getERc", Effect(((1, 32),), stream=True)),
    (r"_ZNSi4read|_ZNSi8readsome|_ZNSi7getline|_ZNSi3getEPc|_ZNSi3getERSt15", Effect(((1, ANY),), stream=True)),
    (r"_ZNSi\d", _STREAM),
    (r"_ZNSdC|_ZNSdD", Effect(((0, STREAM),))),
    # Strings: the first argument is the object, or where the result goes; these return it, or where they put the result.
    (
        r"_ZNSt7__cxx1112basic_stringI\w+?E(9_M_append|10_M_replace|14_M_replace_aux|6append|6assign|7replace|pL|aS)E",
        Effect(((0, 32),), returns=0),
    ),
    (r"_ZNSt7__cxx1112basic_stringI\w+?E(6insert|5erase)Em", Effect(((0, 32),), returns=0)),
    (r"_ZNKSt7__cxx1112basic_stringI\w+?E6substrE|_ZStplI|_ZNSt7__cxx119to_string", Effect(((0, 32),), returns=0)),
    (r"_ZNK?St7__cxx1112basic_string", Effect(((0, 32),))),
    (r"_ZNK?Ss|_ZNKSt17bad_function|_ZNKSt9exception", NOTHING),
    # std::allocator, which is empty: its construction and destruction.
    (r"_ZNSaI.+E[CD][12]E", NOTHING),
    # Streams' own construction and destruction.
    (r"_ZNK?St14basic_ofstream|_ZNK?St14basic_ifstream|_ZNK?St13basic_fstream", Effect(((0, STREAM),))),
    # What a string stream or buffer holds, as a string.
    (r"_ZNKSt7__cxx111[589]basic_(i|o|)string(stream|buf).*3strEv", Effect(((0, 32),), returns=0)),
    (r"_ZNK?St7__cxx1118basic_stringstream|_ZNK?St7__cxx1119basic_[io]stringstream", Effect(((0, 392),))),
    (r"_ZNK?St7__cxx1115basic_stringbuf", Effect(((0, 104),))),
    (r"_ZNK?St13basic_filebuf|_ZNK?St12__basic_file", Effect(((0, 240),))),
    (r"_ZNK?St9basic_ios|_ZNK?St8ios_base", Effect(((0, 264),))),
    (r"_ZNK?St6locale", Effect(((0, 8),))),
    (r"_ZNK?St13random_device", Effect(((0, 5000),))),
    *_random(),
    # Exceptions' own construction and destruction.
    (
        r"_ZNK?St(9bad_alloc|11logic_error|13runtime_error|12out_of_range|16invalid_argument|12length_error|11range_error)",
        Effect(((0, 16),)),
    ),
    (r"_ZNK?St(14overflow_error|12domain_error|9exception|8bad_cast)", Effect(((0, 16),))),
)
_COMPILED = tuple((re.compile(pattern), effect) for pattern, effect in _PATTERNS)
_looked_up: dict[str, Effect | None] = {}


def effect(name: str) -> Effect | None:
    """What a function does; None when that is not known."""
    if name not in _looked_up:
        found = EFFECTS.get(name)
        if found is None:
            found = next((each for pattern, each in _COMPILED if pattern.match(name)), None)
        if len(_looked_up) > 100_000:
            _looked_up.clear()
        _looked_up[name] = found
    return _looked_up[name]
