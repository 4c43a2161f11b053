/* Ends this process at its n-th write below one folder, or to a server whose socket lies in another:
 * half of the bytes are written, or all of them, then SIGKILL.
 *
 * Loaded with LD_PRELOAD, it sees what Python, SQLite, libpq and every other library of the process
 * writes. A write counts, and so do the calls that make it visible or undo it: rename, unlink, truncate,
 * sync.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum how { HALF, REFUSED, WHOLE }; /* the n-th write: half of it, none from there on, all of it */

static char folder[4096], server[4096];
static long left = 0; /* writes until the kill; 0: not armed */
static long counted = 0;
static enum how how = HALF;

void fault_arm(const char *path, const char *sockets, long n, int mode) {
    strncpy(folder, path, sizeof folder - 1);
    strncpy(server, sockets, sizeof server - 1);
    left = n;
    counted = 0;
    how = mode;
}

long fault_count(void) { return counted; }

static int below(const char *path) { return folder[0] && strncmp(path, folder, strlen(folder)) == 0; }

/* 0: of no interest, ENOSPC: a file of ours, EPIPE: the server; what a refusal says */
static int watched(int fd) {
    char link[64], path[4096];
    struct sockaddr_un peer;
    socklen_t size = sizeof peer;
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    if (below(path)) return ENOSPC;
    if (!server[0] || strncmp(path, "socket:", 7)) return 0;
    memset(&peer, 0, sizeof peer);
    if (getpeername(fd, (struct sockaddr *)&peer, &size) || peer.sun_family != AF_UNIX) return 0;
    return strncmp(peer.sun_path, server, strlen(server)) ? 0 : EPIPE;
}

/* 0: go on, 1: the end, 2: refuse */
static int verdict(void) {
    counted++;
    if (!left || counted < left) return 0;
    return how == REFUSED ? 2 : 1;
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
/* What every writing call does: `some` writes the first bytes, `all` is the call itself. */
#define WRITING(n, some, all) \
    int refusal = watched(fd); \
    if (refusal) switch (verdict()) { \
        case 1: if (how == WHOLE) (void)!(all); else if (n > 1) (void)!(some); die(); \
        case 2: if (refusal == EPIPE) shutdown(fd, SHUT_RDWR); errno = refusal; return -1; \
    } \
    return all

ssize_t write(int fd, const void *data, size_t n) {
    REAL(write);
    WRITING(n, real(fd, data, n / 2), real(fd, data, n));
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    REAL(pwrite64);
    WRITING(n, real(fd, data, n / 2, at), real(fd, data, n, at));
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    REAL(pwrite);
    WRITING(n, real(fd, data, n / 2, at), real(fd, data, n, at));
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(writev);
    WRITING(n, real(fd, parts, n / 2), real(fd, parts, n));
}

ssize_t send(int fd, const void *data, size_t n, int flags) {
    REAL(send);
    WRITING(n, real(fd, data, n / 2, flags), real(fd, data, n, flags));
}

ssize_t sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to, socklen_t size) {
    REAL(sendto);
    WRITING(n, real(fd, data, n / 2, flags, to, size), real(fd, data, n, flags, to, size));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    WRITING(0, 0, real(fd, message, flags));
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
