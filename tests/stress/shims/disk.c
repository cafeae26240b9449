/* A disk that can lose its power, be full or fail, for a program that is given it by LD_PRELOAD:
 *   cc -shared -fPIC -O2 -o disk.so disk.c -ldl -lpthread
 *
 * Of the files right under the folder TOLLGATE_DISK_DIR it writes to TOLLGATE_DISK_LOG, a line a fact and one
 * write(2) each, what would be on the disk if the power went now:
 *   C inode name        a file was made
 *   R old new           one was renamed
 *   U name              one was removed
 *   B thread            a thread begins to sync the folder
 *   D thread            it is synced: the changes of names before it began are there
 *   S inode length us   a file was synced: so many bytes of it are there, which took so long
 *   T inode length      a file was cut
 *   W inode             a file may be written elsewhere than at its end: what is lost cannot be told
 * What is removed or replaced stays in the folder TOLLGATE_DISK_GRAVES under its inode: a removal may not be there.
 * The first byte of the file TOLLGATE_DISK_CONTROL, 4096 bytes long, makes the disk full (the first write to it
 * is cut short, others fail with ENOSPC); the second makes syncs fail with EIO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { KNOWN = 1024 };

/* Held while a name changes and until that is recorded. */
static pthread_mutex_t names = PTHREAD_MUTEX_INITIALIZER;
static const char *folder, *graves;
static size_t folder_length;
static int records = -1;
static volatile unsigned char *control;
/* Inodes of files that were opened in the folder, the oldest forgotten first. */
static _Atomic ino_t known[KNOWN];
static atomic_ulong known_next;
static atomic_int is_cut;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("TOLLGATE_DISK_LOG"), *steer = getenv("TOLLGATE_DISK_CONTROL");
    graves = getenv("TOLLGATE_DISK_GRAVES");
    folder = getenv("TOLLGATE_DISK_DIR");
    if (!folder || !log || !graves) {
        folder = NULL;
        return;
    }
    folder_length = strlen(folder);
    records = REAL(open)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int fd = steer ? REAL(open)(steer, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        control = page == MAP_FAILED ? NULL : page;
        REAL(close)(fd);
    }
}

static void record(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int before = errno;
    if (length > 0 && REAL(write)(records, line, (size_t)length) != length) {
        abort(); /* What is not recorded would be judged wrongly. */
    }
    errno = before;
}

/* The name of a file right under the folder; NULL if it is elsewhere. */
static const char *name_of(const char *path) {
    if (!folder || !path || strncmp(path, folder, folder_length) || path[folder_length] != '/') {
        return NULL;
    }
    const char *name = path + folder_length + 1;
    return *name && !strchr(name, '/') ? name : NULL;
}

static ino_t inode_of(const char *path) {
    struct stat found;
    return lstat(path, &found) ? 0 : found.st_ino;
}

/* Keeps a file that is about to lose a name. */
static void bury(const char *path) {
    char grave[1024];
    ino_t inode = inode_of(path);
    if (inode) {
        snprintf(grave, sizeof grave, "%s/%lu", graves, (unsigned long)inode);
        int before = errno;
        REAL(link)(path, grave);
        errno = before;
    }
}

static int is_ours(int fd) {
    struct stat found;
    if (!folder || fstat(fd, &found) || !S_ISREG(found.st_mode)) {
        return 0;
    }
    for (int place = 0; place < KNOWN; place++) {
        if (known[place] == found.st_ino) {
            return 1;
        }
    }
    return 0;
}

static int opened(int directory, const char *path, int flags, mode_t mode) {
    const char *name = directory == AT_FDCWD || (path && *path == '/') ? name_of(path) : NULL;
    if (!name) {
        return REAL(openat)(directory, path, flags, mode);
    }
    pthread_mutex_lock(&names);
    ino_t before = inode_of(path);
    int fd = REAL(openat)(directory, path, flags, mode);
    ino_t after = fd < 0 ? 0 : inode_of(path);
    if (after) {
        known[known_next++ % KNOWN] = after;
        if (!before) {
            record("C %lu %s\n", (unsigned long)after, name);
        }
        if ((flags & O_ACCMODE) != O_RDONLY && !(flags & O_APPEND) && !(after != before)) {
            record("W %lu\n", (unsigned long)after);
        }
    }
    pthread_mutex_unlock(&names);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list args; \
        va_start(args, flags); \
        mode = va_arg(args, mode_t); \
        va_end(args); \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return opened(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
    MODE(flags)
    return opened(directory, path, flags | O_LARGEFILE, mode);
}

static int renamed(const char *from, const char *to, int (*doing)(const char *, const char *)) {
    const char *old = name_of(from), *new = name_of(to);
    if (!old || !new) {
        return doing(from, to);
    }
    pthread_mutex_lock(&names);
    bury(to);
    int done = doing(from, to);
    if (!done) {
        record("R %s %s\n", old, new);
    }
    pthread_mutex_unlock(&names);
    return done;
}

int rename(const char *from, const char *to) {
    return renamed(from, to, REAL(rename));
}

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
    (void)from_directory, (void)to_directory;
    return name_of(from) && name_of(to) ? rename(from, to) : REAL(renameat)(from_directory, from, to_directory, to);
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    return name_of(from) && name_of(to) && !(flags & ~1u)
        ? rename(from, to)
        : REAL(renameat2)(from_directory, from, to_directory, to, flags);
}

static int removed(const char *path, const char *name) {
    pthread_mutex_lock(&names);
    bury(path);
    int done = REAL(unlink)(path);
    if (!done) {
        record("U %s\n", name);
    }
    pthread_mutex_unlock(&names);
    return done;
}

int unlink(const char *path) {
    const char *name = name_of(path);
    return name ? removed(path, name) : REAL(unlink)(path);
}

int unlinkat(int directory, const char *path, int flags) {
    const char *name = flags ? NULL : name_of(path);
    return name ? removed(path, name) : REAL(unlinkat)(directory, path, flags);
}

static long long microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static int synced(int fd, int (*doing)(int)) {
    struct stat found, top;
    if (!folder || fstat(fd, &found)) {
        return doing(fd);
    }
    int is_folder = S_ISDIR(found.st_mode) && !stat(folder, &top) && top.st_ino == found.st_ino;
    if (!is_folder && !is_ours(fd)) {
        return doing(fd);
    }
    if (control && control[1]) {
        errno = EIO;
        return -1;
    }
    if (is_folder) {
        record("B %d\n", gettid());
    }
    long long start = microseconds();
    int done = doing(fd);
    if (!done && is_folder) {
        record("D %d\n", gettid());
    } else if (!done) {
        record("S %lu %lld %lld\n", (unsigned long)found.st_ino, (long long)found.st_size, microseconds() - start);
    }
    return done;
}

int fsync(int fd) {
    return synced(fd, REAL(fsync));
}

int fdatasync(int fd) {
    return synced(fd, REAL(fdatasync));
}

static int cut(int fd, off_t length) {
    struct stat found;
    int is_shorter = is_ours(fd) && !fstat(fd, &found) && length < found.st_size;
    int done = REAL(ftruncate)(fd, length);
    if (!done && is_shorter) {
        record("T %lu %lld\n", (unsigned long)found.st_ino, (long long)length);
    }
    return done;
}

int ftruncate(int fd, off_t length) {
    return cut(fd, length);
}

int ftruncate64(int fd, off64_t length) {
    return cut(fd, length);
}

/* How much of a write goes through; nothing if the disk is full. */
static size_t passes(int fd, size_t length) {
    if (!control || !control[0]) {
        is_cut = 0;
        return length;
    }
    if (!is_ours(fd)) {
        return length;
    }
    return is_cut++ ? 0 : length / 2;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    size_t some = passes(fd, length);
    if (length && !some) {
        errno = ENOSPC;
        return -1;
    }
    return REAL(write)(fd, bytes, some);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    size_t length = 0;
    for (int place = 0; place < count; place++) {
        length += parts[place].iov_len;
    }
    if (length && passes(fd, length) < length) {
        errno = ENOSPC;
        return -1;
    }
    return REAL(writev)(fd, parts, count);
}

static ssize_t elsewhere(int fd, const void *bytes, size_t length, off_t offset) {
    struct stat found;
    if (is_ours(fd) && !fstat(fd, &found)) {
        record("W %lu\n", (unsigned long)found.st_ino);
    }
    return REAL(pwrite)(fd, bytes, length, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return elsewhere(fd, bytes, length, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    return elsewhere(fd, bytes, length, offset);
}
