"""What functions of the C and C++ libraries do with memory: the rows of `library`, which says how to read them. Data,
no logic.

Sources: the declarations of the C standard, POSIX, and libstdc++'s ABI (sizes of its classes on x86-64).
"""

from __future__ import annotations

from collections.abc import Iterator

# Proofs rest on these. Assumed: the program has not replaced them by functions that do something else.
TRUSTED = """
. -> h: malloc valloc _Znwm _Znam
. . -> h: calloc aligned_alloc memalign _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t
    _ZnamSt11align_val_t
f -> n: free _ZdlPv _ZdaPv fclose
f . -> n: _ZdlPvm _ZdaPvm _ZdlPvSt11align_val_t
f . . -> n: _ZdlPvmSt11align_val_t
w@2 . . -> 0: memset
w@2 c@2 . -> 0: memcpy memmove
w@2 . . . -> 0: __memset_chk
w@2 c@2 . . -> 0: __memcpy_chk __memmove_chk
w@1 . -> n: bzero explicit_bzero
r@2 r@2 . -> n: memcmp bcmp
r . . -> p: memchr
r -> n: strlen atoi atol atoll atof puts perror
r . -> n: strnlen _ZNKSt5ctypeIcE8do_widenEc
r r -> n: strcmp strcasecmp
r r . -> n: strncmp
w r -> 0: strcpy
w<@2 r . -> 0: strncpy
b r -> 0: strcat
r . -> p: strchr strrchr
r r -> p: strstr
r* -> n: printf
. r* -> n: __printf_chk
l r* -> n: fprintf
l . r* -> n: __fprintf_chk
w r* -> n: sprintf
w . . r* -> n: __sprintf_chk
w<@1 . r* -> n: snprintf
w<@1 . . . r* -> n: __snprintf_chk
. -> n: putchar srand srandom srand48 abs labs llabs isalpha isdigit isspace isalnum toupper tolower difftime usleep
    sleep close sin cos tan asin acos atan atan2 sinh cosh tanh exp exp2 expm1 log log2 log10 log1p pow sqrt cbrt
    hypot fabs floor ceil round trunc fmod lround lrint rint nearbyint fmin fmax erf erfc tgamma copysign sinf cosf
    tanf asinf acosf atanf atan2f sinhf coshf tanhf expf exp2f expm1f logf log2f log10f log1pf powf sqrtf cbrtf
    hypotf fabsf floorf ceilf roundf truncf fmodf lroundf lrintf rintf nearbyintf fminf fmaxf erff erfcf tgammaf
    copysignf
r l -> n: fputs
. l -> n: fputc putc
r . . l -> n: fwrite
w . . l -> n: fread
w<@1 . l -> 0: fgets
l -> n: fflush _ZNKSt5ctypeIcE13_M_widen_initEv
r r -> x: fopen
r w* -> n: sscanf __isoc99_sscanf __isoc23_sscanf
l w* -> n: fscanf __isoc99_fscanf __isoc23_fscanf
r b<8 . -> n: strtol strtoul __isoc23_strtol __isoc23_strtoul
r b<8 -> n: strtod strtof
r -> x: getenv
-> n: rand random drand48 lrand48 mrand48 omp_get_wtime omp_get_num_threads omp_get_thread_num omp_get_max_threads
    omp_get_num_procs getppid getuid sched_getcpu clock sched_yield getpid _ZNSt6chrono3_V212steady_clock3nowEv
    _ZNSt6chrono3_V212system_clock3nowEv
w32 -> n: times
. w144 -> n: getrusage
. w16 -> n: clock_getres clock_gettime
w8 -> n: time
w16 w8 -> n: gettimeofday
r16 w16 -> n: nanosleep
. r . -> n: write
. w<@2 . -> n: read
l8 -> n: __cxa_guard_acquire __cxa_guard_release
o . -> 0: _ZNSolsEi _ZNSolsEj _ZNSolsEl _ZNSolsEm _ZNSolsEf _ZNSolsEd _ZNSolsEb _ZNSolsEPKv _ZNSo9_M_insertIdEERSoT_
    _ZNSo9_M_insertIlEERSoT_ _ZNSo9_M_insertImEERSoT_ _ZNSo9_M_insertIbEERSoT_ _ZNSo3putEc
    _ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_c
o -> 0: _ZNSo5flushEv _ZSt4endlIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_
    _ZSt5flushIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_
o r -> 0: _ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc
o r . -> 0: _ZSt16__ostream_insertIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_PKS3_l
w8 w8 -> n: sincos
w4 w4 -> n: sincosf
"""

# Predictions alone know these: what they read is not told.
PREDICTED = """
-> n: vprintf vfprintf dprintf vdprintf __dprintf_chk __vprintf_chk putc_unlocked putchar_unlocked fputs_unlocked
    getc_unlocked _IO_putc _IO_getc clearerr __vfprintf_chk cfree _ZdaPvSt11align_val_t strncasecmp strspn strcspn
    strerror lldiv nan nanf isnan isinf finite __isnan __isnanf __isinf __isinff __finite __finitef __fpclassify
    __fpclassifyf __signbit __signbitf j0 j1 jn y0 y1 yn div ldiv secure_getenv isupper islower ispunct isxdigit
    isprint isgraph iscntrl isblank strcoll strverscmp __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc
    __errno_location gettid geteuid getpagesize get_nprocs pthread_self mkdir rmdir rename chdir system pclose
    isatty fileno sysconf access fopen64 fseek ftell fseeko ftello rewind feof ferror getc fgetc getchar ungetc
    remove unlink open lseek pwrite pwrite64 fsync fdatasync ftruncate fdopen freopen popen tmpfile fsetpos setbuf
    setbuffer setlinebuf setvbuf putenv setenv unsetenv setlocale localtime gmtime ctime asctime munmap mprotect
    madvise posix_madvise mlock munlock msync closedir sched_setaffinity setrlimit cabs cabsf carg cargf
    __cudaInitModule omp_set_num_threads omp_get_thread_limit omp_get_wtick omp_get_level omp_in_parallel
    omp_set_dynamic omp_get_dynamic omp_set_nested omp_set_max_active_levels __cxa_guard_abort __cxa_atexit
    __cxa_begin_catch __cxa_end_catch __cxa_get_exception_ptr __cxa_allocate_exception __cxa_free_exception
    __cxa_thread_atexit __dynamic_cast __cxa_finalize
    _ZNSt11this_thread11__sleep_forENSt6chrono8durationIlSt5ratioILl1ELl1EEEENS1_IlS2_ILl1ELl1000000000EEEE
    _ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base _ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base
    _ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base _ZSt18_Rb_tree_decrementPKSt18_Rb_tree_node_base
    _ZSt11_Hash_bytesPKvmm _ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm _ZSt16__throw_bad_castv
    _ZSt9use_facetISt5ctypeIcEERKT_RKSt6locale
-> h: realloc reallocarray strdup strndup
-> p: strpbrk index rindex strchrnul strcasestr memrchr
w@2 -> p: mempcpy __mempcpy_chk stpncpy
w -> p: stpcpy __stpcpy_chk
w@2 -> 0: __strncpy_chk
w@1 -> n: __explicit_bzero_chk
. w@2 -> n: bcopy swab
w -> 0: strncat __strcpy_chk __strcat_chk __strncat_chk
w -> n: vsprintf __vsprintf_chk gets fread_unlocked __fread_chk getloadavg
w<@1 -> n: vsnprintf __vsnprintf_chk getcwd strftime gethostname
w<@2 -> 0: __fgets_chk
. w<@2 -> n: __read_chk pread pread64
w8 w8 -> n: getline getdelim __getdelim
w8 -> n: asprintf vasprintf __asprintf_chk __vasprintf_chk posix_memalign modf
. w16 -> n: fgetpos getrlimit
. . w@1 -> n: sched_getaffinity
. w4096 -> n: realpath
. w26 -> n: ctime_r asctime_r
w4 -> n: frexpl remquol rand_r remquo remquof lgamma_r lgammaf_r frexp frexpf modff
w16 -> n: modfl timespec_get _ZNSt8__detail15_List_node_base9_M_unhookEv
w16 w16 -> n: sincosl _ZNSt8__detail15_List_node_base7_M_hookEPS0_
w* -> n: scanf __isoc99_scanf __isoc23_scanf
. w8 -> n: strtoll strtoull strtold __isoc23_strtoll __isoc23_strtoull __isoc23_strtod __isoc23_strtof
    __isoc23_strtold
. w144 -> n: stat fstat lstat stat64 fstat64 lstat64
. w32 w32 w32 -> n: _ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_
w32 w32 -> n: _ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_
w6 -> n: erand48 nrand48 jrand48
w56 -> n: mktime
. w56 -> n: localtime_r gmtime_r
. . . w16 -> n: clock_nanosleep
w390 -> n: uname
w112 -> n: sysinfo
. w -> n: getopt
. w . . w4 -> n: getopt_long
"""

_MATHEMATICS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
fmax fmin fmod hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround nearbyint nextafter
pow remainder rint round scalbn sin sinh sqrt tan tanh tgamma trunc
"""
MATHEMATICS = tuple(_MATHEMATICS.split())
_TWO = {"atan2", "copysign", "fdim", "fmax", "fmin", "fmod", "hypot", "nextafter", "pow", "remainder"}
# Functions whose result is one of their arguments alone -> how many floating-point arguments they have.
PURE = {
    name + width: 2 if name in _TWO else 3 if name == "fma" else 1
    for name in MATHEMATICS
    for width in ("", "f")
    if name != "lgamma"
}

# What compilers call where the processor has no instruction that may be used.
ARITHMETIC = [
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


def _random() -> Iterator[tuple[str, str]]:
    """Random numbers: an engine changes itself; a distribution itself and the engine that it is given. A copy of a
    function that the compiler made for certain arguments may have lost the first one."""
    for engine, size in _ENGINES:
        yield rf"_ZNK?{engine}|_ZSt18generate_canonical\w*{engine}", f"w{size} -> n"
        for distribution, own in _DISTRIBUTIONS:
            given = rf"_ZNK?{distribution}I\w*{engine}"
            yield rf"{given}\w*\.(isra|constprop)", f"w{size} w{size} -> n"
            yield given, f"w{own} w{size} -> n"
    for distribution, own in _DISTRIBUTIONS:
        yield rf"_ZNK?{distribution}I", f"w{own} -> n"


# Mangled names by their beginning, the first that fits.
PATTERNS: tuple[tuple[str, str], ...] = (
    # Objects on which an input or output hangs while it runs, and output of what a buffer holds.
    (r"_ZNS[io]6sentryC", "o16 -> n"),
    (r"_ZNSolsEPSt15", "o w -> n"),
    # Streams: output, insertion by functions, flushing; `operator<<` of strings and characters. Most return the stream.
    (
        r"_ZNSols|_ZNSo(3put|5flush|5write|9_M_insert)|_ZSt4endl|_ZSt5flush|_ZStlsI|_ZStlsR|_ZSt16__ostream_insert",
        "o -> 0",
    ),
    (r"_ZNSo\d|_ZNKSt9basic_ios", "o -> n"),
    # Input: into the second argument, at most a long double or a string.
    (r"_ZStrsI.*(PS3_|Pa|Ph)$|_ZNSirsEPSt15|_ZSt17__istream_extract", "o w -> n"),
    (r"_ZNSirs|_ZStrsI|_ZSt7getline|_ZNSi10_M_extract|_ZNSi3getERc", "o w32 -> n"),
    (r"_ZNSi4read|_ZNSi8readsome|_ZNSi7getline|_ZNSi3getEPc|_ZNSi3getERSt15", "o w -> n"),
    (r"_ZNSi\d", "o -> n"),
    (r"_ZNSdC|_ZNSdD", "w528 -> n"),
    # Strings: the first argument is the object, or where the result goes; these return it, or where they put the
    # result.
    (
        r"_ZNSt7__cxx1112basic_stringI\w+?E(9_M_append|10_M_replace|14_M_replace_aux|6append|6assign|7replace|pL|aS)E",
        "w32 -> 0",
    ),
    (r"_ZNSt7__cxx1112basic_stringI\w+?E(6insert|5erase)Em", "w32 -> 0"),
    (r"_ZNKSt7__cxx1112basic_stringI\w+?E6substrE|_ZStplI|_ZNSt7__cxx119to_string", "w32 -> 0"),
    (r"_ZNK?St7__cxx1112basic_string", "w32 -> n"),
    (r"_ZNK?Ss|_ZNKSt17bad_function|_ZNKSt9exception", " -> n"),
    # std::allocator, which is empty: its construction and destruction.
    (r"_ZNSaI.+E[CD][12]E", " -> n"),
    # Streams' own construction and destruction.
    (r"_ZNK?St14basic_ofstream|_ZNK?St14basic_ifstream|_ZNK?St13basic_fstream", "w528 -> n"),
    # What a string stream or buffer holds, as a string.
    (r"_ZNKSt7__cxx111[589]basic_(i|o|)string(stream|buf).*3strEv", "w32 -> 0"),
    (r"_ZNK?St7__cxx1118basic_stringstream|_ZNK?St7__cxx1119basic_[io]stringstream", "w392 -> n"),
    (r"_ZNK?St7__cxx1115basic_stringbuf", "w104 -> n"),
    (r"_ZNK?St13basic_filebuf|_ZNK?St12__basic_file", "w240 -> n"),
    (r"_ZNK?St9basic_ios|_ZNK?St8ios_base", "w264 -> n"),
    (r"_ZNK?St6locale", "w8 -> n"),
    (r"_ZNK?St13random_device", "w5000 -> n"),
    *_random(),
    # Exceptions' own construction and destruction.
    (
        r"_ZNK?St(9bad_alloc|11logic_error|13runtime_error|12out_of_range|16invalid_argument|12length_error|11range_error)",
        "w16 -> n",
    ),
    (r"_ZNK?St(14overflow_error|12domain_error|9exception|8bad_cast)", "w16 -> n"),
)
