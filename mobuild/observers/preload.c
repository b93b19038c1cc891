/* Notes which files the processes of a node open, by standing before the C library's functions (ld.so(8), LD_PRELOAD).

   Each open appends one record to the file that MOBUILD_READS names: "pid what token path", ended by a zero byte.
   `what` is r(ead), u(pdate), w(rite), d (a folder is listed), x (the program begins), l (a library is loaded);
   the token is the file's stat as it was at that moment, `-` when there was no file. native.py reads the records.
   Nothing here allocates, locks, or changes errno, since programs open files in signal handlers and between fork
   and exec. The records are opened anew each time: programs close descriptors that they do not know, and the
   number would soon be another file's. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define OPENAT2 437 /* of every architecture; older headers do not know it */

static char records[PATH_MAX]; /* a copy: programs overwrite their environment to change how `ps` shows them */

static int unnoted_open(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

static void append(char what, const char *token, const char *folder, size_t folder_size, const char *path)
{
    char head[32];
    size_t head_size = (size_t)snprintf(head, sizeof head, "%d %c ", (int)getpid(), what);
    struct iovec parts[] = {{head, head_size}, {(void *)token, strlen(token)}, {" ", 1},
                            {(void *)folder, folder_size}, {"/", folder_size > 0}, {(void *)path, strlen(path) + 1}};
    int out = unnoted_open(records, O_WRONLY | O_APPEND);
    size_t size = 0;
    if (out < 0) return;
    for (int i = 0; i < 6; i++) size += parts[i].iov_len;
    /* On a full disk some records would be missing: then there are none, which native.py tells. */
    if (writev(out, parts, 6) != (ssize_t)size) syscall(SYS_unlinkat, AT_FDCWD, records, 0);
    syscall(SYS_close, out);
}

/* Notes `path`, opened as `fd`, or not there when `fd` is -1. */
static void note(char what, int dirfd, const char *path, int fd)
{
    int kept = errno, is_absent = fd < 0;
    char token[128] = "-", link[40] = "/proc/self/cwd", folder[PATH_MAX];
    ssize_t folder_size = 0;
    struct stat seen;
    if (!records[0] || (is_absent && (what == 'w' || (kept != ENOENT && kept != ENOTDIR)))) return;
    if (!is_absent) {
        if (fstat(fd, &seen) || !(what == 'd' ? S_ISDIR(seen.st_mode) : S_ISREG(seen.st_mode))) goto done;
        snprintf(token, sizeof token, "%lld:%lld:%lld:%lld%09ld:%lld%09ld", (long long)seen.st_dev,
                 (long long)seen.st_ino, (long long)seen.st_size, (long long)seen.st_mtim.tv_sec,
                 seen.st_mtim.tv_nsec, (long long)seen.st_ctim.tv_sec, seen.st_ctim.tv_nsec);
    }
    if (path[0] != '/') {
        if (dirfd != AT_FDCWD) snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
        if ((folder_size = readlink(link, folder, sizeof folder)) <= 0) goto done;
    }
    append(what, token, folder, (size_t)folder_size, path);
done:
    errno = kept;
}

/* Whether opening makes the file anew, updates one that is there, or reads. To be asked before it is opened. */
static char purpose(int dirfd, const char *path, int flags)
{
    int kept = errno, is_new = flags & O_TRUNC || (flags & O_ACCMODE) == O_WRONLY;
    if (!is_new && flags & O_CREAT) is_new = syscall(SYS_faccessat, dirfd, path, F_OK) != 0;
    errno = kept;
    return is_new ? 'w' : (flags & O_ACCMODE) == O_RDWR ? 'u' : 'r';
}

static char stream_purpose(const char *path, const char *mode)
{
    int is_update = strchr(mode, '+') != NULL;
    if (mode[0] == 'r') return is_update ? 'u' : 'r';
    return mode[0] == 'a' && is_update ? purpose(AT_FDCWD, path, O_RDWR | O_CREAT) : 'w';
}

/* The next function of that name: the C library's, or that of another preloaded library. */
#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

#define OPEN(name, dirfd, parameters, prelude, arguments) \
    int name parameters \
    { \
        NEXT(name) prelude \
        char what = purpose(dirfd, path, flags); \
        int fd = next arguments; \
        if (!(flags & O_PATH)) note(what, dirfd, path, fd); \
        return fd; \
    }
#define MODE \
    mode_t mode = 0; \
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }
#define NO_MODE
#define CREAT int flags = O_CREAT | O_WRONLY | O_TRUNC;

OPEN(open, AT_FDCWD, (const char *path, int flags, ...), MODE, (path, flags, mode))
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), MODE, (path, flags, mode))
OPEN(openat, dirfd, (int dirfd, const char *path, int flags, ...), MODE, (dirfd, path, flags, mode))
OPEN(openat64, dirfd, (int dirfd, const char *path, int flags, ...), MODE, (dirfd, path, flags, mode))
OPEN(creat, AT_FDCWD, (const char *path, mode_t mode), CREAT, (path, mode))
OPEN(creat64, AT_FDCWD, (const char *path, mode_t mode), CREAT, (path, mode))
/* what _FORTIFY_SOURCE makes of the calls without a mode */
OPEN(__open_2, AT_FDCWD, (const char *path, int flags), NO_MODE, (path, flags))
OPEN(__open64_2, AT_FDCWD, (const char *path, int flags), NO_MODE, (path, flags))
OPEN(__openat_2, dirfd, (int dirfd, const char *path, int flags), NO_MODE, (dirfd, path, flags))
OPEN(__openat64_2, dirfd, (int dirfd, const char *path, int flags), NO_MODE, (dirfd, path, flags))

/* onnx opens external data by openat2(2), for which the C library has no function. Done without the C library's own
   `syscall`: to look that up may allocate, and allocators call it while they begin. */
#if defined __x86_64__ || defined __aarch64__
static long raw(long number, const long *given)
{
#if defined __x86_64__
    register long fourth __asm__("r10") = given[3], fifth __asm__("r8") = given[4], sixth __asm__("r9") = given[5];
    __asm__ volatile("syscall" : "+a"(number)
                     : "D"(given[0]), "S"(given[1]), "d"(given[2]), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return number;
#else
    register long called __asm__("x8") = number, first __asm__("x0") = given[0], second __asm__("x1") = given[1];
    register long third __asm__("x2") = given[2], fourth __asm__("x3") = given[3], fifth __asm__("x4") = given[4];
    register long sixth __asm__("x5") = given[5];
    __asm__ volatile("svc 0" : "+r"(first)
                     : "r"(called), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth) : "memory");
    return first;
#endif
}

long syscall(long number, ...)
{
    long given[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) given[i] = va_arg(rest, long);
    va_end(rest);
    int is_open = number == OPENAT2 && given[1] && given[2], flags = is_open ? *(const int *)given[2] : 0;
    char what = is_open ? purpose((int)given[0], (const char *)given[1], flags) : 0;
    long result = raw(number, given);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        result = -1;
    }
    if (is_open && !(flags & O_PATH)) note(what, (int)given[0], (const char *)given[1], (int)result);
    return result;
}
#endif

#define STREAM(name, parameters, arguments) \
    FILE *name parameters \
    { \
        NEXT(name) \
        char what = path ? stream_purpose(path, mode) : 0; /* freopen changes the mode of what is open */ \
        FILE *opened = next arguments; \
        if (what) note(what, AT_FDCWD, path, opened ? fileno(opened) : -1); \
        return opened; \
    }
STREAM(fopen, (const char *path, const char *mode), (path, mode))
STREAM(fopen64, (const char *path, const char *mode), (path, mode))
STREAM(freopen, (const char *path, const char *mode, FILE *stream), (path, mode, stream))
STREAM(freopen64, (const char *path, const char *mode, FILE *stream), (path, mode, stream))

DIR *opendir(const char *path)
{
    NEXT(opendir)
    DIR *folder = next(path);
    note('d', AT_FDCWD, path, folder ? dirfd(folder) : -1);
    return folder;
}

DIR *fdopendir(int fd)
{
    NEXT(fdopendir)
    DIR *folder = next(fd);
    if (folder) note('d', fd, ".", fd);
    return folder;
}

static void note_file(char what, int dirfd, const char *path)
{
    int kept = errno, fd = (int)syscall(SYS_openat, dirfd, path, O_PATH | O_CLOEXEC, 0);
    if (fd >= 0) {
        note(what, dirfd, path, fd);
        syscall(SYS_close, fd);
    }
    errno = kept;
}

/* Writers that replace a file write another one first: what gets the name is this run's own. */
#define RENAME(name, dirfd, parameters, arguments) \
    int name parameters \
    { \
        NEXT(name) \
        int status = next arguments; \
        if (!status) note_file('w', dirfd, to); \
        return status; \
    }
RENAME(rename, AT_FDCWD, (const char *from, const char *to), (from, to))
RENAME(renameat, dirfd, (int old, const char *from, int dirfd, const char *to), (old, from, dirfd, to))
RENAME(renameat2, dirfd, (int old, const char *from, int dirfd, const char *to, unsigned int flags),
       (old, from, dirfd, to, flags))

static int note_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    const char *path = info->dlpi_name;
    if (strchr(path, '/') && strncmp(path, "/lib", 4) && strncmp(path, "/usr/", 5)) note_file('l', AT_FDCWD, path);
    return 0;
}

/* Notes the libraries that are loaded now: ld.so opens them unseen. The worker calls it at the end of its node. */
__attribute__((destructor)) void mobuild_note_libraries(void)
{
    if (records[0]) dl_iterate_phdr(note_library, NULL);
}

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("MOBUILD_READS");
    char program[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    if (!file || strlen(file) >= sizeof records || size <= 0) return;
    strcpy(records, file);
    program[size] = 0;
    note_file('x', AT_FDCWD, program);
    mobuild_note_libraries();
}
