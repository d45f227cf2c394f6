/* Make the N-th call fail that changes something below a folder: what a full, read-only or broken disk does.
 *
 * Preloaded by scripts/torture.py into a process that arms it by `fault_arm`. Counted are calls of open for writing,
 * write, pwrite, writev, sendfile, copy_file_range, fsync, fdatasync, rename, mkdir, ftruncate, fcntl locks and flock
 * on paths that begin with the folder's. Each is told to a descriptor as "name path".
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
enum { PASS, FAIL, SHORT };

static char folder[PATH_MAX], failing[32];
static long target, calls;
static int error, lasting, told = -1;

/* Fail call `number` (0: none) below `path` with errno `code` (0: a short write); a `last`ing fault also fails all later
 * calls of the same function. */
void fault_arm(const char *path, long number, int code, int last, int descriptor) {
    snprintf(folder, sizeof folder, "%s", path);
    target = number, error = code, lasting = last, told = descriptor, calls = 0, failing[0] = 0;
}

static int decide(const char *name, const char *path) {
    char line[PATH_MAX + 64];
    if (!folder[0] || strncmp(path, folder, strlen(folder))) return PASS;
    calls++;
    int now = calls == target || (failing[0] && !strcmp(failing, name));
    int length = snprintf(line, sizeof line, "%s%s %s\n", now ? "! " : "", name, path);
    if (told >= 0 && syscall(SYS_write, told, line, length) < 0) told = -1;
    if (!now) return PASS;
    if (lasting) snprintf(failing, sizeof failing, "%s", name);
    errno = error;
    return error ? FAIL : SHORT;
}

static int on_path(const char *name, int at, const char *path) {
    char whole[2 * PATH_MAX], link[64];
    if (!folder[0]) return PASS;
    if (path[0] == '/') return decide(name, path);
    ssize_t length = 0;
    if (at == AT_FDCWD) {
        if (!getcwd(whole, PATH_MAX)) return PASS;
        length = strlen(whole);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        if ((length = readlink(link, whole, PATH_MAX)) < 0) return PASS;
    }
    snprintf(whole + length, PATH_MAX, "/%s", path);
    return decide(name, whole);
}

static int on_file(const char *name, int file) {
    char link[64], path[PATH_MAX];
    if (!folder[0]) return PASS;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return PASS;
    path[length] = 0;
    return decide(name, path);
}

#define WRITES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        return WRITES(flags) && on_path("open", AT_FDCWD, path) ? -1 : REAL(name)(path, flags, mode);                  \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
    int name(int at, const char *path, int flags, ...) {                                                               \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        return WRITES(flags) && on_path("open", at, path) ? -1 : REAL(name)(at, path, flags, mode);                    \
    }
OPENAT(openat)
OPENAT(openat64)

/* A short write writes half, as when the disk fills up or a signal comes. */
ssize_t write(int file, const void *data, size_t size) {
    int what = on_file("write", file);
    return what == FAIL ? -1 : REAL(write)(file, data, what == SHORT && size > 1 ? size / 2 : size);
}

#define PWRITE(name, offset_type)                                                                                      \
    ssize_t name(int file, const void *data, size_t size, offset_type offset) {                                        \
        int what = on_file("pwrite", file);                                                                            \
        return what == FAIL ? -1 : REAL(name)(file, data, what == SHORT && size > 1 ? size / 2 : size, offset);        \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int file, const struct iovec *parts, int count) {
    return on_file("writev", file) ? -1 : REAL(writev)(file, parts, count);
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    return on_file("copy_file_range", out) ? -1 : REAL(copy_file_range)(in, from, out, to, size, flags);
}

ssize_t sendfile64(int out, int in, off64_t *from, size_t size);
ssize_t sendfile64(int out, int in, off64_t *from, size_t size) {
    return on_file("sendfile", out) ? -1 : REAL(sendfile64)(out, in, from, size);
}

int fsync(int file) { return on_file("fsync", file) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return on_file("fsync", file) ? -1 : REAL(fdatasync)(file); }
int ftruncate(int file, off_t size) { return on_file("ftruncate", file) ? -1 : REAL(ftruncate)(file, size); }
int ftruncate64(int file, off64_t size) { return on_file("ftruncate", file) ? -1 : REAL(ftruncate64)(file, size); }
int flock(int file, int how) { return on_file("lock", file) ? -1 : REAL(flock)(file, how); }
int mkdir(const char *path, mode_t mode) { return on_path("mkdir", AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode); }
int mkdirat(int at, const char *path, mode_t mode) {
    return on_path("mkdir", at, path) ? -1 : REAL(mkdirat)(at, path, mode);
}
int rename(const char *from, const char *to) {
    return on_path("rename", AT_FDCWD, to) ? -1 : REAL(rename)(from, to);
}
int renameat(int in, const char *from, int at, const char *to) {
    return on_path("rename", at, to) ? -1 : REAL(renameat)(in, from, at, to);
}
int link(const char *from, const char *to) { return on_path("link", AT_FDCWD, to) ? -1 : REAL(link)(from, to); }
int linkat(int in, const char *from, int at, const char *to, int flags) {
    return on_path("link", at, to) ? -1 : REAL(linkat)(in, from, at, to, flags);
}

#define FCNTL(name)                                                                                                    \
    int name(int file, int command, ...) {                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, command);                                                                                       \
        void *argument = va_arg(rest, void *);                                                                         \
        va_end(rest);                                                                                                  \
        int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;    \
        if (locks && ((struct flock *)argument)->l_type != F_UNLCK && on_file("lock", file)) return -1;                \
        return REAL(name)(file, command, argument);                                                                    \
    }
FCNTL(fcntl)
FCNTL(fcntl64)
