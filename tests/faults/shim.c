/* Ends this process at its n-th write below one folder: half of the bytes are written, then SIGKILL.
 *
 * Loaded with LD_PRELOAD, it sees what Python, SQLite and every other library of the process writes. A
 * write counts, and so do the calls that make it visible or undo it: rename, unlink, truncate, sync.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static long left = 0; /* writes until the kill; 0: not armed */
static long counted = 0;
static int refusing = 0; /* 1: from the n-th write on, the disk is full instead */

void fault_arm(const char *path, long n, int full) {
    strncpy(folder, path, sizeof folder - 1);
    left = n;
    counted = 0;
    refusing = full;
}

long fault_count(void) { return counted; }

static int below(const char *path) { return folder[0] && strncmp(path, folder, strlen(folder)) == 0; }

static int watched(int fd) {
    char link[64], path[4096];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return below(path);
}

/* 0: go on, 1: kill now (after half of it), 2: refuse */
static int verdict(void) {
    counted++;
    if (!left) return 0;
    if (counted < left) return 0;
    return refusing ? 2 : 1;
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#include <errno.h>
#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t n) {
    REAL(write);
    if (watched(fd)) switch (verdict()) {
        case 1: if (n > 1) real(fd, data, n / 2); die();
        case 2: errno = ENOSPC; return -1;
    }
    return real(fd, data, n);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    REAL(pwrite64);
    if (watched(fd)) switch (verdict()) {
        case 1: if (n > 1) real(fd, data, n / 2, at); die();
        case 2: errno = ENOSPC; return -1;
    }
    return real(fd, data, n, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    REAL(pwrite);
    if (watched(fd)) switch (verdict()) {
        case 1: if (n > 1) real(fd, data, n / 2, at); die();
        case 2: errno = ENOSPC; return -1;
    }
    return real(fd, data, n, at);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(writev);
    if (watched(fd)) switch (verdict()) {
        case 1: if (n > 1) real(fd, parts, n / 2); die();
        case 2: errno = ENOSPC; return -1;
    }
    return real(fd, parts, n);
}

int fsync(int fd) { REAL(fsync); if (watched(fd) && verdict() == 1) die(); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); if (watched(fd) && verdict() == 1) die(); return real(fd); }
int ftruncate64(int fd, off64_t n) { REAL(ftruncate64); if (watched(fd) && verdict() == 1) die(); return real(fd, n); }
int ftruncate(int fd, off_t n) { REAL(ftruncate); if (watched(fd) && verdict() == 1) die(); return real(fd, n); }
int unlink(const char *path) { REAL(unlink); if (below(path) && verdict() == 1) die(); return real(path); }

int rename(const char *from, const char *to) {
    REAL(rename);
    if (below(to) && verdict() == 1) die();
    return real(from, to);
}
