// Runs CUDA programs in the three deferral modes and prints what each cost: the guest container's only program of its own.
//
//     compare "PROGRAM ARGUMENT..." ...
//
// Static, because the image has neither a shell nor Python. Each run gets the shim by LD_PRELOAD and leaves a report, from
// which the counts come. The first mode's output is the expectation; another mode that prints something else is a failure.
// Each program runs before that until the host, which analyses a program when it first sees it, has sent its manifest.
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MODES 3
#define WORDS 16
#define ANALYSIS_SECONDS 120.0

static const char *const modes[MODES] = {"none", "calls", "loops"};
static const char *const report = "/tmp/report.json";

struct result {
    char *output;
    size_t size;
    double seconds;
    bool analyzed;  // the host had sent the program's manifest
    long long round_trips, bytes_up, bytes_down;
};

static void die(const char *what) {
    fprintf(stderr, "compare: %s: %s\n", what, strerror(errno));
    exit(2);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static char *read_all(int from, size_t *size) {
    char *bytes = NULL;
    size_t room = 0;
    *size = 0;
    for (;;) {
        if (*size + 1 >= room) {
            room = room ? 2 * room : 1 << 16;
            bytes = realloc(bytes, room);
            if (!bytes) die("memory");
        }
        const ssize_t got = read(from, bytes + *size, room - *size - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) die("read");
        if (got == 0) break;
        *size += (size_t)got;
    }
    bytes[*size] = 0;
    return bytes;
}

// The number behind the first "name": of the report. The shim writes it; it is flat where we look.
static long long number(const char *json, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(json, key);
    if (!at) {
        fprintf(stderr, "compare: the report has no %s: %s\n", name, json);
        exit(2);
    }
    return strtoll(at + strlen(key), NULL, 10);
}

static struct result run(const char *command, const char *mode) {
    char text[512], *words[WORDS + 1];
    int count = 0, ends[2], status;
    snprintf(text, sizeof text, "%s", command);
    for (char *word = strtok(text, " "); word && count < WORDS; word = strtok(NULL, " ")) words[count++] = word;
    words[count] = NULL;
    if (count == 0 || pipe(ends)) die(command);
    unlink(report);
    struct result found = {0};
    const double start = now();
    const pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        setenv("LD_PRELOAD", "/farlane/libfarlane_core.so:/farlane/libcudart.so.12:/farlane/libcudart.so.13", 1);
        setenv("LD_LIBRARY_PATH", "/farlane", 1);
        setenv("FARLANE_DEFER", mode, 1);
        setenv("FARLANE_REPORT", report, 1);
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execv(words[0], words);
        die(words[0]);
    }
    close(ends[1]);
    found.output = read_all(ends[0], &found.size);
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    found.seconds = now() - start;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        printf("%s\n%s failed in mode %s (status %d)\n", found.output, command, mode, status);
        exit(1);
    }
    const int file = open(report, O_RDONLY);
    if (file < 0) die(report);
    size_t size;
    char *json = read_all(file, &size);
    close(file);
    found.round_trips = number(json, "round_trips");
    found.bytes_up = number(json, "bytes_up");
    found.bytes_down = number(json, "bytes_down");
    const char *manifest = strstr(json, "\"manifest\":");
    found.analyzed = manifest && number(manifest, "objects") > 0;
    free(json);
    return found;
}

// Until the host has compiled the kernels and analyzed the program.
static void prepare(const char *command) {
    const double deadline = now() + ANALYSIS_SECONDS;
    for (;;) {
        const struct result found = run(command, modes[MODES - 1]);
        free(found.output);
        if (found.analyzed) return;
        if (now() > deadline) {
            fprintf(stderr, "compare: the host sent no manifest of %s within %.0f s\n", command, ANALYSIS_SECONDS);
            exit(1);
        }
        usleep(100000);
    }
}

int main(int count, char **commands) {
    if (count < 2) {
        fprintf(stderr, "usage: compare \"PROGRAM ARGUMENT...\" ...\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("CUDA programs in a container without a GPU, on %s\n", getenv("FARLANE_HOST") ? getenv("FARLANE_HOST") : "no host");
    for (int k = 1; k < count; ++k) {
        struct result results[MODES];
        prepare(commands[k]);
        for (int mode = 0; mode < MODES; ++mode) {
            results[mode] = run(commands[k], modes[mode]);
            if (results[mode].size != results[0].size || memcmp(results[mode].output, results[0].output, results[0].size)) {
                printf("%s prints something else in mode %s:\n%s", commands[k], modes[mode], results[mode].output);
                return 1;
            }
        }
        if (k == 1) {
            printf("\n%s prints:\n%s\n", commands[k], results[0].output);
            printf("%-26s %-6s %12s %12s %12s %10s %9s\n", "program", "mode", "round trips", "bytes up", "bytes down",
                   "wall ms", "faster");
        }
        for (int mode = 0; mode < MODES; ++mode) {
            printf("%-26s %-6s %12lld %12lld %12lld %10.1f %8.1fx\n", mode ? "" : commands[k], modes[mode],
                   results[mode].round_trips, results[mode].bytes_up, results[mode].bytes_down,
                   results[mode].seconds * 1000, results[0].seconds / results[mode].seconds);
            free(results[mode].output);
        }
    }
    printf("\nsame output in all modes\n");
    return 0;
}
