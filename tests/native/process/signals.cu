// A handler of a signal that comes while the program waits for the device. `signals WHEN HOW WHAT`. A second thread
// sends the signal once the first one sleeps.
// WHEN: the handler is installed before the first call of CUDA's (early) or after many (late).
// HOW: by which function (system: by the system call).
// WHAT: the handler makes CUDA calls (calls), leaves the wait by longjmp (leaves), or ends the program (ends).
// Prints first how many changes of the thread's signal mask a launch and its synchronization took before the handler,
// and with it. Built with -rdynamic: the shim finds the program's pthread_sigmask.
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support.cuh"

static long changes;

extern "C" int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    static auto real = reinterpret_cast<decltype(&pthread_sigmask)>(dlsym(RTLD_NEXT, "pthread_sigmask"));
    __atomic_fetch_add(&changes, 1, __ATOMIC_RELAXED);
    return real(how, set, old);
}

__global__ void work(unsigned *value, unsigned rounds) {
    unsigned state = *value;
    for (unsigned i = 0; i < rounds; ++i) {
        state = state * 1664525u + 1013904223u;
    }
    *value = state;
}

static const char *what;
static unsigned *device;
static volatile sig_atomic_t handled;
static sigjmp_buf outside;

static void handle(int) {
    handled = 1;
    if (!std::strcmp(what, "calls")) {
        unsigned value = 0;
        CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
        CHECK(cudaDeviceSynchronize());
    } else if (!std::strcmp(what, "leaves")) {
        siglongjmp(outside, 1);
    } else {
        std::exit(7);
    }
}

#ifdef __x86_64__
extern "C" void restore();
asm("restore: mov $15, %eax\n syscall");

static void install_by_system_call() {
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)();
        unsigned long mask;
    } action = {handle, SA_RESTART | 0x04000000, restore, 0};
    if (syscall(SYS_rt_sigaction, SIGUSR1, &action, nullptr, 8)) std::abort();
}
#else
static void install_by_system_call() { std::abort(); }
#endif

static void install(const char *how) {
    struct sigaction action = {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    if (!std::strcmp(how, "sigaction")) sigaction(SIGUSR1, &action, nullptr);
    else if (!std::strcmp(how, "signal")) signal(SIGUSR1, handle);
    else if (!std::strcmp(how, "ssignal")) ssignal(SIGUSR1, handle);
    else if (!std::strcmp(how, "sysv_signal")) sysv_signal(SIGUSR1, handle);
    else if (!std::strcmp(how, "sigset")) sigset(SIGUSR1, handle);
    else if (!std::strcmp(how, "system")) install_by_system_call();
    else std::abort();
}

// For each of so many launches and their synchronizations.
static double changes_of_mask() {
    const int rounds = 50;
    long before = changes;
    for (int i = 0; i < rounds; ++i) {
        work<<<1, 1>>>(device, 1);
        CHECK(cudaDeviceSynchronize());
    }
    return double(changes - before) / rounds;
}

// Whether the thread sleeps at a futex: it waits, and sends nothing any more.
static bool sleeps(const std::string &file) {
    long call = -1, operation = -1;
    if (FILE *state = std::fopen(file.c_str(), "r")) {
        if (std::fscanf(state, "%ld %*x %lx", &call, &operation) != 2) call = -1; // "running"
        std::fclose(state);
    } else {
        std::abort();
    }
    operation &= FUTEX_CMD_MASK;
    return call == SYS_futex && (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET);
}

static void interrupt(pthread_t thread, int number) {
    std::string file = "/proc/self/task/" + std::to_string(number) + "/syscall";
    while (!sleeps(file)) usleep(50);
    pthread_kill(thread, SIGUSR1);
}

int main(int, char **argv) {
    const char *how = argv[2];
    what = argv[3];
    bool early = !std::strcmp(argv[1], "early");
    signal(SIGUSR2, SIG_IGN); // no handler
    signal(SIGSEGV, [](int) { _exit(9); }); // of a fault
    if (early) install(how);
    CHECK(cudaMalloc(&device, sizeof *device));
    CHECK(cudaMemset(device, 1, sizeof *device));
    std::printf("%.2f", changes_of_mask());
    if (!early) install(how);
    std::printf(" %.2f\n", changes_of_mask());
    std::fflush(stdout);
    work<<<1, 1>>>(device, 200000000u);
    std::thread(interrupt, pthread_self(), int(syscall(SYS_gettid))).detach();
    if (!sigsetjmp(outside, 1)) {
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaDeviceSynchronize());
    unsigned value = 0;
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    std::printf(handled ? "PASS\n" : "no signal came\n");
    return !handled;
}
