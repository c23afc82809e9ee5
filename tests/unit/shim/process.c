// A guest in plain C that does what compilers' start-up code does, and what processes do to themselves. One scenario per
// run; what it prints is compared by test_process.py. Declarations are those of crt/host_runtime.h and cuda_runtime_api.h.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

typedef struct { unsigned x, y, z; } dim3;
extern void **__cudaRegisterFatBinary(void *wrapper);
extern void __cudaRegisterFatBinaryEnd(void **handle);
extern void __cudaUnregisterFatBinary(void **handle);
extern void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                                   void *bid, void *block, void *grid, int *warp);
extern void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
                              int global);
extern void __cudaRegisterManagedVar(void **handle, void **place, char *device, const char *name, int ext, size_t size,
                                     int constant, int global);
extern char __cudaInitModule(void **handle);
extern unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
extern int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
extern int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared, void *stream);
extern int cudaMalloc(void **pointer, size_t size);
extern int cudaFree(void *pointer);
extern int cudaDeviceSynchronize(void);
extern int cudaDeviceReset(void);
extern int cudaGetDeviceCount(int *count);
extern int cudaGetLastError(void);
extern int cudaPeekAtLastError(void);
extern int cudaGetSymbolAddress(void **pointer, const void *symbol);
extern int cudaLibraryLoadData(void **library, const void *code, void *, void *, unsigned, void *, void *, unsigned);
extern int cudaLibraryLoadFromFile(void **library, const char *path, void *, void *, unsigned, void *, void *, unsigned);
extern int cudaLibraryUnload(void *library);
extern int cudaLibraryGetKernel(void **kernel, void *library, const char *name);
extern int cudaLibraryGetKernelCount(unsigned *count, void *library);
extern int cudaLibraryEnumerateKernels(void **kernels, unsigned count, void *library);
extern int cudaLibraryGetGlobal(void **pointer, size_t *size, void *library, const char *name);
extern int cudaFuncGetParamInfo(void *kernel, size_t index, size_t *offset, size_t *size);
extern int cudaMemcpyToSymbol(const void *symbol, const void *source, size_t count, size_t offset, int kind);

static const char PTX[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter;\n"
    ".visible .entry kernel(.param .u64 pointer, .param .u8 byte, .param .u64 number)\n{\n ret;\n}\n"
    ".visible .entry strange(.param .unheard_of x)\n{\n ret;\n}\n";

// A wrapper, a container and one entry with PTX, as nvcc lays them out.
struct image {
    struct { uint32_t magic, version; const void *container; const void *second; } wrapper;
    struct { uint32_t magic; uint16_t version, header; uint64_t size; } container;
    struct {
        uint16_t kind, version; uint32_t header; uint64_t payload; uint32_t compressed, options; uint16_t minor, major;
        uint32_t architecture, name, name_length; uint64_t flags, reserved, size;
    } entry;
    char text[512];
};

static void make(struct image *image) {
    memset(image, 0, sizeof *image);
    image->wrapper.magic = 0x466243b1;
    image->wrapper.version = 1;
    image->wrapper.container = &image->container;
    image->container.magic = 0xba55ed50;
    image->container.version = 1;
    image->container.header = 16;
    image->container.size = sizeof image->entry + sizeof image->text;
    image->entry.kind = 1;
    image->entry.version = 0x101;
    image->entry.header = sizeof image->entry;
    image->entry.payload = sizeof image->text;
    image->entry.architecture = 70;
    image->entry.flags = 0x11;
    strcpy(image->text, PTX);
}

static struct image good;
static char host_kernel[16], host_strange[16], host_missing[16], host_variable[16];
static void **handle;
static const dim3 one = {1, 1, 1};

static void **register_image(void *wrapper, const char *kernel) {
    void **registered = __cudaRegisterFatBinary(wrapper);
    __cudaRegisterFunction(registered, kernel, (char *)"kernel", "kernel", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(registered);
    return registered;
}

static void unregister(void) { __cudaUnregisterFatBinary(handle); }

// Before main, as the compilers do it.
__attribute__((constructor)) static void start(void) {
    make(&good);
    handle = register_image(&good.wrapper, host_kernel);
    __cudaRegisterFunction(handle, host_strange, (char *)"strange", "strange", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(handle, host_missing, (char *)"missing", "missing", -1, 0, 0, 0, 0, 0);
    __cudaRegisterVar(handle, host_variable, (char *)"counter", "counter", 0, 4, 0, 0);
    atexit(unregister);
}

static int launch(const char *kernel) {
    void *pointer = 0;
    char byte = 1;
    long number = 2;
    void *args[] = {&pointer, &byte, &number};
    return cudaLaunchKernel(kernel, one, one, args, 0, 0);
}

static int entries(const char *folder) {
    int count = 0;
    DIR *directory = opendir(folder);
    while (readdir(directory)) ++count;
    closedir(directory);
    return count - 2;
}

static void show(const char *what, int value) { printf("%s %d\n", what, value); fflush(stdout); }

// Scenarios -----------------------------------------------------------------------------------------------------------

static void nothing(void) {
    show("threads", entries("/proc/self/task"));
    show("descriptors", entries("/proc/self/fd") - 1);
}

static void use(void) {
    show("launch", launch(host_kernel));
    show("strange", launch(host_strange));
    show("missing", launch(host_missing));
    show("unknown", launch("no kernel"));
    show("peek", cudaPeekAtLastError());
    show("last", cudaGetLastError());
    show("last", cudaGetLastError());
    int value = 7;
    show("to symbol", cudaMemcpyToSymbol(host_variable, &value, 4, 0, 1));
    show("beyond symbol", cudaMemcpyToSymbol(host_variable, &value, 4, 4, 1));
    show("no symbol", cudaMemcpyToSymbol(host_kernel, &value, 4, 0, 1));
    show("synchronize", cudaDeviceSynchronize());
    show("reset", cudaDeviceReset());
    show("launch", launch(host_kernel));
    show("to symbol", cudaMemcpyToSymbol(host_variable, &value, 4, 0, 1));
    show("synchronize", cudaDeviceSynchronize());
}

static void configuration(void) {
    dim3 grid, block;
    size_t shared;
    void *stream;
    show("pop", __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    dim3 a = {1, 2, 3}, b = {4, 5, 6};
    show("push", __cudaPushCallConfiguration(a, b, 7, (void *)8));
    show("pop", __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    printf("%u %u %u %u %u %u %zu %p\n", grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream);
}

// Each damage spoils its own module, and nothing else.
static void malformed(void) {
    enum { KINDS = 14 };
    static struct image images[KINDS];
    static char kernels[KINDS][16];
    char *hole = mmap(0, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < KINDS; ++i) {
        struct image *image = &images[i];
        void *wrapper = &image->wrapper;
        make(image);
        switch (i) {
        case 0: wrapper = 0; break;
        case 1: wrapper = hole; break;
        case 2: image->wrapper.magic = 0; break;
        case 3: image->wrapper.version = 9; break;
        case 4: image->wrapper.container = 0; break;
        case 5: image->wrapper.container = hole; break;
        case 6: image->container.magic = 0; break;
        case 7: image->container.size = 1ull << 62; break;
        case 8: image->container.size = 1ull << 30; break;
        case 9: image->entry.payload = 1 << 20; break;
        case 10: image->entry.flags = 0x8011; image->entry.size = 100; image->entry.compressed = 100; break;
        case 11: image->entry.flags = 0x2011; image->entry.size = 1ull << 40; image->entry.compressed = 100; break;
        case 12: memset(image->text, '{', sizeof image->text); break;
        case 13: image->wrapper.version = 2; image->container.size = 0; image->wrapper.second = hole; break;
        }
        register_image(wrapper, kernels[i]);
    }
    for (int i = 0; i < KINDS; ++i) {
        int first = launch(kernels[i]);
        printf("malformed %d: %d %d\n", i, first, launch(kernels[i]));
    }
    show("good", launch(host_kernel));
    show("synchronize", cudaDeviceSynchronize());
}

static void managed(void) {
    static int *pointer;
    static struct image image;
    static char kernel[16];
    make(&image);
    void **registered = register_image(&image.wrapper, kernel);
    __cudaRegisterManagedVar(registered, (void **)&pointer, (char *)"m", "m", 0, 64, 0, 0);
    show("initialized", __cudaInitModule(registered));
    show("value", *pointer);
    show("launch", launch(kernel));
    show("good", launch(host_kernel));
}

static void forked(void) {
    pid_t child = fork();
    if (child == 0) {
        show("early child", launch(host_kernel));
        show("early child", cudaDeviceSynchronize());
        exit(0);
    }
    waitpid(child, 0, 0);
    show("parent", launch(host_kernel));
    child = fork();
    if (child == 0) {
        int count;
        void *pointer;
        show("child", launch(host_kernel));
        show("child", cudaMalloc(&pointer, 4));
        show("child", cudaFree(0));
        show("child", cudaGetDeviceCount(&count));
        show("child", cudaDeviceSynchronize());
        show("child last", cudaGetLastError());
        if (fork() == 0) { show("grandchild", launch(host_kernel)); exit(0); }
        wait(0);
        exit(5);
    }
    int status;
    waitpid(child, &status, 0);
    show("status", WEXITSTATUS(status));
    show("system", system("echo unrelated"));
    show("parent", launch(host_kernel));
    show("parent", cudaDeviceSynchronize());
}

static atomic_int stop;

static void *work(void *failures) {
    for (int i = 0; !stop && i < 2000; ++i) {
        if (launch(host_kernel)) ++*(atomic_int *)failures;
    }
    return 0;
}

static void threads(void) {
    pthread_t all[8];
    atomic_int failures = 0;
    for (int i = 0; i < 8; ++i) pthread_create(&all[i], 0, work, &failures);
    for (int i = 0; i < 8; ++i) pthread_join(all[i], 0);
    show("failures", failures);
    show("synchronize", cudaDeviceSynchronize());
}

// Forks while other threads are at work: no child may hang.
static void fork_among_threads(void) {
    pthread_t all[4];
    atomic_int failures = 0;
    for (int i = 0; i < 4; ++i) pthread_create(&all[i], 0, work, &failures);
    int right = 0;
    for (int i = 0; i < 30; ++i) {
        pid_t child = fork();
        if (child == 0) exit(launch(host_kernel) == 3 || i == 0 ? 0 : 1);
        int status;
        waitpid(child, &status, 0);
        right += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    for (int i = 0; i < 4; ++i) pthread_join(all[i], 0);
    show("right", right);
    show("failures", failures);
    show("synchronize", cudaDeviceSynchronize());
}

static void *leave(void *nothing) {
    (void)nothing;
    usleep(20000);
    printf("leaving\n");
    exit(7);
}

// One thread exits the process while others launch.
static void exit_in_thread(void) {
    pthread_t all[4], last;
    static atomic_int failures;
    for (int i = 0; i < 4; ++i) pthread_create(&all[i], 0, work, &failures);
    pthread_create(&last, 0, leave, 0);
    pthread_join(last, 0);
}

static void late(void) {
    show("late launch", launch(host_kernel));
    show("late synchronize", cudaDeviceSynchronize());
}

static int in_destructor;

__attribute__((destructor)) static void destroy(void) {
    if (in_destructor) {
        show("unregistered", launch(host_kernel));
        show("destructor", cudaDeviceSynchronize());
    }
}

// Handlers and destructors of the program that come after main: the session is still there.
static void at_exit(void) {
    show("launch", launch(host_kernel));
    atexit(late);
    in_destructor = 1;
}

static void pending(void) {
    for (int i = 0; i < 100; ++i) launch(host_kernel);
    printf("done\n");
}

static void at_once(void) {
    pending();
    fflush(stdout);
    _exit(3);
}

// A library with an image, opened and closed again and again. Its symbols are this program's own.
static void reopen(void) {
    static struct image image;
    static char kernel[16];
    int failures = 0, found = 0;
    for (int i = 0; i < 50; ++i) {
        make(&image);
        image.text[sizeof image.text - 1] = (char)(i % 3);
        void **registered = register_image(&image.wrapper, kernel);
        failures += launch(kernel) != 0;
        __cudaUnregisterFatBinary(registered);
        found += launch(kernel) != 98;
        // A second time is harmless.
        __cudaUnregisterFatBinary(registered);
    }
    show("failures", failures);
    show("found", found);
    show("synchronize", cudaDeviceSynchronize());
}

// An image that is larger than what is sent unasked, and than one record; `text` tells it from others.
static void large(void) {
    enum { BYTES = 3 << 20 };
    static char kernel[16];
    show("first", launch(host_kernel));
    struct image *image = malloc(sizeof *image + BYTES);
    make(image);
    memset(image->text, ' ', sizeof image->text + BYTES);
    memcpy(image->text, PTX, sizeof PTX - 1);
    const char *text = getenv("TEXT");
    memcpy(image->text + BYTES, text, strlen(text));
    image->entry.payload += BYTES;
    image->container.size += BYTES;
    register_image(&image->wrapper, kernel);
    show("launch", launch(kernel));
    show("launch", launch(kernel));
    show("synchronize", cudaDeviceSynchronize());
}

static void library(void) {
    void *loaded, *kernel, *kernels[4] = {0}, *pointer = 0;
    size_t offset, size;
    unsigned number;
    show("garbage", cudaLibraryLoadData(&loaded, "garbage", 0, 0, 0, 0, 0, 0));
    show("nowhere", cudaLibraryLoadData(&loaded, (void *)8, 0, 0, 0, 0, 0, 0));
    show("no file", cudaLibraryLoadFromFile(&loaded, "/nowhere", 0, 0, 0, 0, 0, 0));
    show("wrapper", cudaLibraryLoadData(&loaded, &good.wrapper, 0, 0, 0, 0, 0, 0));
    show("unload", cudaLibraryUnload(loaded));
    show("container", cudaLibraryLoadData(&loaded, &good.container, 0, 0, 0, 0, 0, 0));
    show("unload", cudaLibraryUnload(loaded));
    show("text", cudaLibraryLoadData(&loaded, PTX, 0, 0, 0, 0, 0, 0));
    show("count", cudaLibraryGetKernelCount(&number, loaded));
    show("kernels", number);
    show("enumerate", cudaLibraryEnumerateKernels(kernels, 4, loaded));
    show("kernel", cudaLibraryGetKernel(&kernel, loaded, "kernel"));
    show("same", kernel == kernels[0] && !kernels[2]);
    show("no kernel", cudaLibraryGetKernel(&kernels[2], loaded, "absent"));
    show("parameter", cudaFuncGetParamInfo(kernel, 2, &offset, &size));
    printf("%zu %zu\n", offset, size);
    show("no parameter", cudaFuncGetParamInfo(kernel, 3, &offset, &size));
    show("launch", launch(kernel));
    show("global", cudaLibraryGetGlobal(&pointer, &size, loaded, "counter"));
    printf("%zu %d\n", size, pointer != 0);
    show("no global", cudaLibraryGetGlobal(&pointer, &size, loaded, "absent"));
    show("unload", cudaLibraryUnload(loaded));
    show("unload again", cudaLibraryUnload(loaded));
    show("launch", launch(kernel));
    show("synchronize", cudaDeviceSynchronize());
}

int main(int count, char **arguments) {
    const struct { const char *name; void (*run)(void); } scenarios[] = {
        {"nothing", nothing}, {"use", use}, {"configuration", configuration}, {"malformed", malformed},
        {"managed", managed}, {"forked", forked}, {"threads", threads}, {"fork_among_threads", fork_among_threads},
        {"exit_in_thread", exit_in_thread}, {"at_exit", at_exit}, {"pending", pending}, {"at_once", at_once},
        {"reopen", reopen}, {"large", large}, {"library", library},
    };
    for (unsigned i = 0; i < sizeof scenarios / sizeof *scenarios; ++i) {
        if (count == 2 && strcmp(arguments[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    return 64;
}
