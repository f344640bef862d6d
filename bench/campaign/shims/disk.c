/* A disk that is full for one program: while the first byte of a file is not 0, nothing below a folder grows. What is
   there may be written over, as on a real one; a write that goes past the end is short, and the next one is refused
   with ENOSPC. The four bytes at 8 count the refusals. A server that rests for a minute until there may be room again
   rests for a second.

   cc -shared -fPIC -O2 -o disk.so disk.c -ldl; LD_PRELOAD=disk.so SHIM_LEVER=file SHIM_FOLDER=folder program */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile uint8_t *told;
static const char *folder;
static __thread int waits; /* it was refused, and has not written since */

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("SHIM_LEVER");
    folder = getenv("SHIM_FOLDER");
    int fd = path && folder ? open(path, O_RDWR) : -1;
    if (fd < 0) return;
    void *there = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (there != MAP_FAILED) told = there;
}

/* The size of the file behind `fd` if it may not grow now; -1 if it may. */
static int64_t bound(int fd) {
    char link[64], path[PATH_MAX];
    struct stat about;
    int saved = errno;
    if (!told || !*told) return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    int known = length > 0 && fstat(fd, &about) == 0;
    errno = saved;
    if (!known || !S_ISREG(about.st_mode)) return -1;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) ? -1 : about.st_size;
}

static int refuse(void) {
    __atomic_add_fetch((uint32_t *)(told + 8), 1, __ATOMIC_SEQ_CST);
    waits = 1;
    errno = ENOSPC;
    return -1;
}

/* How much of a write fits; 0 when nothing does. */
static size_t fits(int64_t size, int64_t at, size_t length) {
    if (size < 0 || at + (int64_t)length <= size) return length;
    return at < size ? (size_t)(size - at) : 0;
}

ssize_t write(int fd, const void *from, size_t length) {
    int64_t size = bound(fd);
    if (size >= 0 && length) {
        int64_t at = fcntl(fd, F_GETFL) & O_APPEND ? size : lseek(fd, 0, SEEK_CUR);
        if (!(length = fits(size, at, length))) return refuse();
    }
    waits = 0;
    return syscall(SYS_write, fd, from, length);
}

ssize_t pwrite64(int fd, const void *from, size_t length, off64_t at) {
    if (length && !(length = fits(bound(fd), at, length))) return refuse();
    waits = 0;
    return syscall(SYS_pwrite64, fd, from, length, at);
}

ssize_t pwrite(int fd, const void *from, size_t length, off_t at) { return pwrite64(fd, from, length, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    size_t length = 0;
    int64_t size = bound(fd);
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    if (size >= 0 && fits(size, lseek(fd, 0, SEEK_CUR), length) < length) return refuse();
    return syscall(SYS_writev, fd, parts, count);
}

static int grown(int fd, int64_t end) {
    int64_t size = bound(fd);
    return size >= 0 && end > size;
}

int fallocate64(int fd, int mode, off64_t at, off64_t length) {
    if (grown(fd, at + length) && !(mode & 2)) return refuse();
    return (int)syscall(SYS_fallocate, fd, mode, at, length);
}

int fallocate(int fd, int mode, off_t at, off_t length) { return fallocate64(fd, mode, at, length); }

int posix_fallocate64(int fd, off64_t at, off64_t length) {
    static int (*real)(int, off64_t, off64_t);
    if (grown(fd, at + length)) {
        refuse();
        return ENOSPC;
    }
    if (!real) real = dlsym(RTLD_NEXT, "posix_fallocate64");
    return real(fd, at, length);
}

int posix_fallocate(int fd, off_t at, off_t length) { return posix_fallocate64(fd, at, length); }

int ftruncate64(int fd, off64_t length) {
    if (grown(fd, length)) return refuse();
    return (int)syscall(SYS_ftruncate, fd, length);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

unsigned int sleep(unsigned int seconds) { /* so waits MySQL, perhaps a second at a time */
    struct timespec rest = {seconds, 0};
    if (waits) {
        rest.tv_sec = seconds / 60;
        rest.tv_nsec = seconds % 60 * (1000000000L / 60);
    }
    nanosleep(&rest, NULL);
    return 0;
}

int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *); /* so waits MariaDB */
    struct timespec at = *until, now;
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"); /* an older one may come first */
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    clock_gettime(CLOCK_REALTIME, &now);
    if (waits && at.tv_sec > now.tv_sec + 30) at.tv_sec = now.tv_sec + 1;
    return real(c, m, &at);
}
