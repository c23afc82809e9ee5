/* Preloaded into a test program: guards the destinations of copies to the host that a manifest permits to be done later.
 *
 * GUARD_TABLE names a file of lines "SITE BITS": link-time return address in hex, then for each time the site is reached 1 or 0,
 * whether the copy may wait then. A copy that may wait is done, and the whole pages of its destination are made inaccessible until the
 * site is reached again: whoever touches them before, dies of it. Large blocks of malloc are page-aligned, so that a destination has
 * whole pages; freeing a guarded block aborts. GUARD_REPORT names a file that gets the number of guards set at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t), *__libc_memalign(size_t, size_t), *__libc_calloc(size_t, size_t);
extern void __libc_free(void *);

enum { PAGE = 4096, MAXIMUM = 256 };

static struct site {
    uintptr_t address;
    char *bits;
    size_t reached;
    char *low, *high; /* guarded now */
} sites[MAXIMUM];
static int count;
static long guards;
static uintptr_t base;

void *malloc(size_t size) {
    return size < PAGE ? __libc_malloc(size) : __libc_memalign(PAGE, (size + PAGE - 1) & ~(size_t)(PAGE - 1));
}

void *calloc(size_t number, size_t size) {
    if (size && number > SIZE_MAX / size) return NULL;
    if (number * size < PAGE) return __libc_calloc(number, size);
    void *block = malloc(number * size);
    return block ? memset(block, 0, number * size) : NULL;
}

void free(void *block) {
    for (int i = 0; i < count; ++i)
        if (sites[i].low && (char *)block >= sites[i].low && (char *)block < sites[i].high) {
            static const char text[] = "guard: a destination is freed before the loop comes back\n";
            fputs(text, stderr);
            abort();
        }
    __libc_free(block);
}

static int first_object(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    base = info->dlpi_addr;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("GUARD_TABLE");
    FILE *file = name ? fopen(name, "r") : NULL;
    char line[1 << 16], bits[1 << 16];
    dl_iterate_phdr(first_object, NULL);
    while (file && count < MAXIMUM && fgets(line, sizeof line, file)) {
        unsigned long address;
        if (sscanf(line, "%lx %65535s", &address, bits) != 2) abort();
        sites[count].address = address, sites[count++].bits = strdup(bits);
    }
    if (file) fclose(file);
}

__attribute__((destructor)) static void end(void) {
    const char *name = getenv("GUARD_REPORT");
    FILE *file = name ? fopen(name, "w") : NULL;
    if (file) fprintf(file, "%ld\n", guards), fclose(file);
}

static void open_up(struct site *site) {
    if (site->low) mprotect(site->low, site->high - site->low, PROT_READ | PROT_WRITE);
    site->low = site->high = NULL;
}

static struct site *arriving(void *return_address) {
    for (int i = 0; i < count; ++i)
        if (sites[i].address == (uintptr_t)return_address - base) {
            open_up(&sites[i]);
            return &sites[i];
        }
    return NULL;
}

static void leaving(struct site *site, void *to, size_t size) {
    if (!site) return;
    size_t now = site->reached++;
    if (now >= strlen(site->bits) || site->bits[now] != '1') return;
    char *low = (char *)(((uintptr_t)to + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    char *high = (char *)(((uintptr_t)to + size) & ~(uintptr_t)(PAGE - 1));
    if (low >= high) return;
    site->low = low, site->high = high;
    ++guards;
    if (mprotect(low, high - low, PROT_NONE)) abort();
}

int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    struct site *site = arriving(__builtin_return_address(0));
    int (*real)(void *, const void *, size_t, int) = (int (*)(void *, const void *, size_t, int))dlsym(RTLD_NEXT, "cudaMemcpy");
    int code = real(to, from, size, kind);
    leaving(site, to, size);
    return code;
}

/* Done when the stream is idle: a guard would not be told from the device's own writing. */
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    struct site *site = arriving(__builtin_return_address(0));
    int (*real)(void *, const void *, size_t, int, void *) = (int (*)(void *, const void *, size_t, int, void *))dlsym(RTLD_NEXT, "cudaMemcpyAsync");
    int (*wait)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "cudaStreamSynchronize");
    int code = real(to, from, size, kind, stream);
    if (site && code == 0) code = wait(stream);
    leaving(site, to, size);
    return code;
}

int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset, int kind) {
    struct site *site = arriving(__builtin_return_address(0));
    int (*real)(void *, const void *, size_t, size_t, int) = (int (*)(void *, const void *, size_t, size_t, int))dlsym(RTLD_NEXT, "cudaMemcpyFromSymbol");
    int code = real(to, symbol, size, offset, kind);
    leaving(site, to, size);
    return code;
}

/* The same of the driver API. */
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) {
    struct site *site = arriving(__builtin_return_address(0));
    int (*real)(void *, unsigned long long, size_t) = (int (*)(void *, unsigned long long, size_t))dlsym(RTLD_NEXT, "cuMemcpyDtoH_v2");
    int code = real(to, from, size);
    leaving(site, to, size);
    return code;
}

int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size, void *stream) {
    struct site *site = arriving(__builtin_return_address(0));
    int (*real)(void *, unsigned long long, size_t, void *) = (int (*)(void *, unsigned long long, size_t, void *))dlsym(RTLD_NEXT, "cuMemcpyDtoHAsync_v2");
    int (*wait)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "cuStreamSynchronize");
    int code = real(to, from, size, stream);
    if (site && code == 0) code = wait(stream);
    leaving(site, to, size);
    return code;
}
