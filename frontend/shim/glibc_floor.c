// Functions that glibc 2.28 has no symbol for (glibc_floor.py): they are linked into what calls them, and seen by nothing else.
//
// Before glibc 2.33 a program had the stat functions in itself. On x86-64 and AArch64 the kernel's structure is the C library's. OWN_STAT:
// what this is linked into defines stat and stat64 itself.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN int floor_fstat(int file, void *status) __asm__("fstat");
int floor_fstat(int file, void *status) { return (int)syscall(SYS_fstat, file, status); }

HIDDEN int floor_fstat64(int file, void *status) __asm__("fstat64");
int floor_fstat64(int file, void *status) { return (int)syscall(SYS_fstat, file, status); }

#ifndef OWN_STAT
HIDDEN int floor_stat(const char *path, void *status) __asm__("stat");
int floor_stat(const char *path, void *status) { return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0); }

HIDDEN int floor_stat64(const char *path, void *status) __asm__("stat64");
int floor_stat64(const char *path, void *status) { return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0); }

#endif
HIDDEN int floor_lstat64(const char *path, void *status) __asm__("lstat64");
int floor_lstat64(const char *path, void *status) { return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW); }

HIDDEN int floor_fstatat64(int folder, const char *path, void *status, int flags) __asm__("fstatat64");
int floor_fstatat64(int folder, const char *path, void *status, int flags) {
    return (int)syscall(SYS_newfstatat, folder, path, status, flags);
}

// Since glibc 2.30.
HIDDEN int floor_gettid(void) __asm__("gettid");
int floor_gettid(void) { return (int)syscall(SYS_gettid); }
