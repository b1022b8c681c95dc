/* Faults of the machine under one broker, loaded with LD_PRELOAD.
 *
 * A control file, mapped by the broker and by the chaos process, says what goes wrong now: the wall clock is shifted,
 * syncs are slow or fail, the disk is full, reads are slow, fail, or hang for some files. An undo log keeps what a power cut could take away: for every
 * write, resize, creation, rename and removal below CHAOS_ROOT the state before it, and for every sync that it
 * returned. `undo_log.py` reads it. The log lies in the page cache, so it survives SIGKILL, as the files do.
 *
 *   CHAOS_ROOT     the data directory, absolute
 *   CHAOS_CONTROL  the control file, 4096 bytes: slots of 8 bytes, see the enum below; from byte HANG_AT on the pattern
 *                  (fnmatch) of the paths below the root whose reads hang
 *   CHAOS_UNDO     the folder of the undo log, on the same file system
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SECTOR 4096
#define FDS 65536
#define TAIL_MAX (4 << 20)
#define HANG_AT 2048
#define HANG_STEP_US 5000
#define REAL(name) ((__typeof__(&name))real(#name))

/* The slots of the control file. The same order as in preload.py. */
enum { CLOCK_NS, SYNC_DELAY_US, SYNC_FAIL_PPM, IS_FULL, READ_FAIL_PPM, READ_DELAY_US, IS_LYING, HANG_MS,
       COUNT_SYNCS = 16, COUNT_SYNC_FAILURES, COUNT_FULL, COUNT_READ_FAILURES, COUNT_WRITES, COUNT_HANGS };

/* The kinds of records. The same numbers as in undo_log.py. */
enum { WRITE = 1, SYNC, SYNC_ONE, FAILED, RESIZE, CREATE, RENAME, UNLINK, MKDIR, RMDIR, DIRSYNC };

struct record { uint32_t kind, first_bytes, second_bytes, third; uint64_t seq, inode, a, b, c; };

static volatile int64_t *slots;
static char root[4096], undo[4096];
static size_t root_length;
static int log_fd = -1;
static char tracked[FDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t seq;
static unsigned chance = 1;
/* What a power cut could take away; the log is emptied when that is nothing. Old records of an earlier process stay. */
static struct pending { uint64_t seq, key; char is_poisoned, is_name; } *pending;
static size_t pending_count, pending_room;
static int has_leftovers;
/* Second names of files that lost theirs, until that is durable. */
static struct grave { uint64_t number, inode, key; } *graves;
static size_t grave_count, grave_room;

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
  const char *control = getenv("CHAOS_CONTROL"), *folder = getenv("CHAOS_ROOT"), *beside = getenv("CHAOS_UNDO");
  if (!control || !folder) return;
  int fd = open(control, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *mapped = mmap(NULL, SECTOR, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return;
  snprintf(root, sizeof root, "%s", folder);
  if (beside) {
    char path[5000];
    snprintf(undo, sizeof undo, "%s", beside);
    snprintf(path, sizeof path, "%s/log", undo);
    log_fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct stat found;
    has_leftovers = log_fd >= 0 && fstat(log_fd, &found) == 0 && found.st_size;
  }
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  seq = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec; /* Above every number of an earlier process. */
  chance = (unsigned)getpid();
  slots = mapped;
  root_length = strlen(root); /* Last: from here on the hooks are active. */
}

static int is_ours(const char *path) {
  return root_length && path && strncmp(path, root, root_length) == 0 && (!path[root_length] || path[root_length] == '/');
}

static int is_tracked(int fd) { return fd >= 0 && fd < FDS && tracked[fd]; }
static void count(int slot) { __sync_fetch_and_add(&slots[slot], 1); }

static int strikes(int slot, int counter) {
  if (!slots || slots[slot] <= 0 || rand_r(&chance) % 1000000 >= slots[slot]) return 0;
  count(counter);
  return 1;
}

static int is_full(void) {
  if (!slots || !slots[IS_FULL]) return 0;
  count(COUNT_FULL);
  return 1;
}

static void wait_us(int slot) {
  if (slots && slots[slot] > 0) usleep((useconds_t)slots[slot]);
}

static int hangs(int fd) {
  char link[64], path[4096];
  if (!slots || slots[HANG_MS] <= 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size > 0 ? size : 0] = 0;
  if (!is_ours(path) || !path[root_length]) return 0;
  return fnmatch((const char *)slots + HANG_AT, path + root_length + 1, 0) == 0;
}

/* Returns after HANG_MS, or when the disk is healed. */
static void hang(void) {
  count(COUNT_HANGS);
  for (int64_t waited_us = 0; waited_us < slots[HANG_MS] * 1000; waited_us += HANG_STEP_US) usleep(HANG_STEP_US);
}

/* The faults of a read that may wait for the disk; the error, 0: none. */
static int read_fault(int fd) {
  if (hangs(fd)) hang();
  wait_us(READ_DELAY_US);
  return strikes(READ_FAIL_PPM, COUNT_READ_FAILURES) ? EIO : 0;
}

/* A read that must not wait finds nothing in the cache while the disk under it is at fault. */
static int is_cold(int fd) { return slots && (slots[READ_FAIL_PPM] > 0 || slots[READ_DELAY_US] > 0 || hangs(fd)); }

static uint64_t hash(const char *path) {
  uint64_t h = 1469598103934665603ull;
  for (; *path; path++) h = (h ^ (unsigned char)*path) * 1099511628211ull;
  return h;
}

static uint64_t parent(const char *path) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = 0;
  return hash(folder);
}

/* All below runs under the lock. */

static void append(struct record *head, const void *first, const void *second) {
  struct iovec parts[3] = {{head, sizeof *head}, {(void *)first, head->first_bytes}, {(void *)second, head->second_bytes}};
  if (REAL(writev)(log_fd, parts, 3) < 0) abort(); /* Without its log this rig would prove nothing. */
}

static void keep(uint64_t key, int is_name) {
  if (pending_count == pending_room) pending = realloc(pending, (pending_room = pending_room * 2 + 64) * sizeof *pending);
  pending[pending_count++] = (struct pending){seq, key, 0, (char)is_name};
}

static void forget(uint64_t key, int is_name, uint64_t first, uint64_t last);

/* Removes second names that no power cut brings back. */
static void dig_up(uint64_t key, uint64_t last) {
  size_t left = 0;
  for (size_t i = 0; i < grave_count; i++) {
    struct grave *g = &graves[i];
    if (g->key != key || g->number > last) {
      graves[left++] = *g;
      continue;
    }
    char path[5000];
    struct stat found;
    snprintf(path, sizeof path, "%s/%llu", undo, (unsigned long long)g->number);
    if (stat(path, &found) == 0 && found.st_nlink == 1) forget(g->inode, 0, 0, UINT64_MAX);
    REAL(unlink)(path);
  }
  grave_count = left;
}

static void forget(uint64_t key, int is_name, uint64_t first, uint64_t last) {
  size_t left = 0;
  for (size_t i = 0; i < pending_count; i++) {
    struct pending *p = &pending[i];
    int is_durable = p->key == key && p->is_name == is_name && p->seq >= first && p->seq <= last && !p->is_poisoned;
    if (!is_durable) pending[left++] = *p;
  }
  pending_count = left;
  if (!pending_count && !has_leftovers && REAL(ftruncate)(log_fd, 0)) abort();
}

static void note(int kind, uint64_t inode, uint64_t a, const char *one, const char *two) {
  struct record head = {.kind = (uint32_t)kind, .first_bytes = one ? (uint32_t)strlen(one) : 0,
                        .second_bytes = two ? (uint32_t)strlen(two) : 0, .seq = ++seq, .inode = inode, .a = a};
  append(&head, one, two);
}

/* Notes a write before it happens; its number. */
static uint64_t note_write(int fd, uint64_t offset, uint64_t length) {
  struct stat found;
  if (log_fd < 0 || fstat(fd, &found)) return 0;
  uint64_t from = offset / SECTOR * SECTOR, to = (offset + length + SECTOR - 1) / SECTOR * SECTOR;
  if (to > (uint64_t)found.st_size) to = (uint64_t)found.st_size;
  size_t size = to > from ? to - from : 0;
  char *old = malloc(size + 1);
  pthread_mutex_lock(&lock);
  ssize_t got = size ? REAL(pread)(fd, old, size, (off_t)from) : 0;
  struct record head = {.kind = WRITE, .first_bytes = got > 0 ? (uint32_t)got : 0, .seq = ++seq, .inode = found.st_ino,
                        .a = offset, .b = (uint64_t)found.st_size, .c = length};
  append(&head, old, NULL);
  keep(found.st_ino, 0);
  uint64_t number = seq;
  count(COUNT_WRITES);
  pthread_mutex_unlock(&lock);
  free(old);
  return number;
}

static void note_resize(int fd, uint64_t size) {
  struct stat found;
  if (log_fd < 0 || fstat(fd, &found)) return;
  uint64_t before = (uint64_t)found.st_size;
  size_t tail = size < before && before - size <= TAIL_MAX ? before - size : 0;
  char *old = malloc(tail + 1);
  pthread_mutex_lock(&lock);
  ssize_t got = tail ? REAL(pread)(fd, old, tail, (off_t)size) : 0;
  struct record head = {.kind = RESIZE, .first_bytes = got > 0 ? (uint32_t)got : 0, .seq = ++seq, .inode = found.st_ino,
                        .a = before, .b = size};
  append(&head, old, NULL);
  keep(found.st_ino, 0);
  pthread_mutex_unlock(&lock);
  free(old);
}

/* Notes that a sync of everything up to `last` returned, or failed; of one write only if `first` is `last`. */
static void note_sync(int fd, uint64_t first, uint64_t last, int is_good) {
  struct stat found;
  char link[64], path[4096];
  if (log_fd < 0 || fstat(fd, &found) || (is_good && slots[IS_LYING])) return;
  pthread_mutex_lock(&lock);
  if (S_ISDIR(found.st_mode)) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    if (is_good) {
      note(DIRSYNC, 0, last, path, NULL);
      dig_up(hash(path), last);
      forget(hash(path), 1, 0, last);
    }
  } else if (is_good) {
    note(first == last ? SYNC_ONE : SYNC, found.st_ino, last, NULL, NULL);
    forget(found.st_ino, 0, first, last);
  } else {
    /* The kernel drops dirty pages after a failed sync: no later sync makes them durable. */
    note(FAILED, found.st_ino, last, NULL, NULL);
    for (size_t i = 0; i < pending_count; i++)
      if (pending[i].key == found.st_ino && !pending[i].is_name && pending[i].seq <= last) pending[i].is_poisoned = 1;
  }
  pthread_mutex_unlock(&lock);
}

static uint64_t now_seq(void) {
  pthread_mutex_lock(&lock);
  uint64_t number = seq;
  pthread_mutex_unlock(&lock);
  return number;
}

/* Keeps a second name of a file that is about to lose its name; the number of that name, 0 if there is no file. */
static uint64_t bury(const char *path) {
  char grave[5000];
  struct stat found;
  uint64_t number = seq + 1;
  snprintf(grave, sizeof grave, "%s/%llu", undo, (unsigned long long)number);
  if (stat(path, &found) || link(path, grave)) return 0;
  if (grave_count == grave_room) graves = realloc(graves, (grave_room = grave_room * 2 + 64) * sizeof *graves);
  graves[grave_count++] = (struct grave){number, found.st_ino, parent(path)};
  return number;
}

/* The hooks. */

static int opened(int fd, const char *path, int flags, int is_new) {
  struct stat found;
  if (fd < 0 || fd >= FDS) return fd;
  tracked[fd] = 1;
  if (log_fd >= 0 && is_new && (flags & O_CREAT) && fstat(fd, &found) == 0) {
    pthread_mutex_lock(&lock);
    note(CREATE, found.st_ino, 0, path, NULL);
    keep(parent(path), 1);
    pthread_mutex_unlock(&lock);
  }
  return fd;
}

#define OPEN(name)                                                                                                     \
  int name(const char *path, int flags, ...) {                                                                         \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                               \
      va_list rest;                                                                                                    \
      va_start(rest, flags);                                                                                           \
      mode = va_arg(rest, mode_t);                                                                                     \
      va_end(rest);                                                                                                    \
    }                                                                                                                  \
    if (!is_ours(path)) return REAL(name)(path, flags, mode);                                                          \
    int is_new = access(path, F_OK) != 0;                                                                              \
    if (is_new && (flags & O_CREAT) && is_full()) return errno = ENOSPC, -1;                                           \
    int fd = REAL(name)(path, flags & ~O_TRUNC, mode);                                                                 \
    opened(fd, path, flags, is_new);                                                                                   \
    if (fd >= 0 && (flags & O_TRUNC) && !is_new && ftruncate(fd, 0)) return close(fd), -1;                             \
    return fd;                                                                                                         \
  }
OPEN(open)
OPEN(open64)

int close(int fd) {
  if (fd >= 0 && fd < FDS) tracked[fd] = 0;
  return REAL(close)(fd);
}

static int has_room(int fd, uint64_t end) {
  struct stat found;
  return !slots[IS_FULL] || fstat(fd, &found) || end <= (uint64_t)found.st_size || !is_full();
}

ssize_t write(int fd, const void *bytes, size_t size) {
  if (is_tracked(fd)) {
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at >= 0 && !has_room(fd, (uint64_t)at + size)) return errno = ENOSPC, -1;
    if (at >= 0) note_write(fd, (uint64_t)at, size);
  }
  return REAL(write)(fd, bytes, size);
}

#define PWRITE(name, offset_t)                                                                                         \
  ssize_t name(int fd, const void *bytes, size_t size, offset_t at) {                                                  \
    if (is_tracked(fd)) {                                                                                              \
      if (!has_room(fd, (uint64_t)at + size)) return errno = ENOSPC, -1;                                               \
      note_write(fd, (uint64_t)at, size);                                                                              \
    }                                                                                                                  \
    return REAL(name)(fd, bytes, size, at);                                                                            \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

static uint64_t total(const struct iovec *parts, int number) {
  uint64_t sum = 0;
  for (int i = 0; i < number; i++) sum += parts[i].iov_len;
  return sum;
}

#define PWRITEV(name, offset_t)                                                                                        \
  ssize_t name(int fd, const struct iovec *parts, int number, offset_t at) {                                           \
    if (is_tracked(fd)) {                                                                                              \
      if (!has_room(fd, (uint64_t)at + total(parts, number))) return errno = ENOSPC, -1;                               \
      note_write(fd, (uint64_t)at, total(parts, number));                                                              \
    }                                                                                                                  \
    return REAL(name)(fd, parts, number, at);                                                                          \
  }
PWRITEV(pwritev, off_t)
PWRITEV(pwritev64, off64_t)

#define PWRITEV2(name, offset_t)                                                                                       \
  ssize_t name(int fd, const struct iovec *parts, int number, offset_t at, int flags) {                                \
    if (!is_tracked(fd)) return REAL(name)(fd, parts, number, at, flags);                                              \
    if (!has_room(fd, (uint64_t)at + total(parts, number))) return errno = ENOSPC, -1;                                 \
    uint64_t noted = note_write(fd, (uint64_t)at, total(parts, number));                                               \
    int is_synced = flags & (RWF_DSYNC | RWF_SYNC);                                                                    \
    if (is_synced) {                                                                                                   \
      count(COUNT_SYNCS);                                                                                              \
      wait_us(SYNC_DELAY_US);                                                                                          \
      if (strikes(SYNC_FAIL_PPM, COUNT_SYNC_FAILURES)) {                                                               \
        REAL(name)(fd, parts, number, at, 0);                                                                          \
        note_sync(fd, 0, noted, 0);                                                                                    \
        return errno = EIO, -1;                                                                                        \
      }                                                                                                                \
    }                                                                                                                  \
    ssize_t done = REAL(name)(fd, parts, number, at, flags);                                                           \
    if (is_synced && done >= 0) note_sync(fd, noted, noted, 1);                                                        \
    return done;                                                                                                       \
  }
PWRITEV2(pwritev2, off_t)
PWRITEV2(pwritev64v2, off64_t)

#define SYNCS(name)                                                                                                    \
  int name(int fd) {                                                                                                   \
    if (!is_tracked(fd)) return REAL(name)(fd);                                                                        \
    uint64_t last = now_seq();                                                                                         \
    count(COUNT_SYNCS);                                                                                                \
    wait_us(SYNC_DELAY_US);                                                                                            \
    if (strikes(SYNC_FAIL_PPM, COUNT_SYNC_FAILURES)) return note_sync(fd, 0, last, 0), errno = EIO, -1;                \
    int result = REAL(name)(fd);                                                                                       \
    if (!result) note_sync(fd, 0, last, 1);                                                                            \
    return result;                                                                                                     \
  }
SYNCS(fsync)
SYNCS(fdatasync)

#define TRUNCATES(name, offset_t)                                                                                      \
  int name(int fd, offset_t size) {                                                                                    \
    if (is_tracked(fd)) {                                                                                              \
      if (!has_room(fd, (uint64_t)size)) return errno = ENOSPC, -1;                                                    \
      note_resize(fd, (uint64_t)size);                                                                                 \
    }                                                                                                                  \
    return REAL(name)(fd, size);                                                                                       \
  }
TRUNCATES(ftruncate, off_t)
TRUNCATES(ftruncate64, off64_t)

#define ALLOCATES(name, offset_t)                                                                                      \
  int name(int fd, offset_t at, offset_t size) {                                                                       \
    if (is_tracked(fd)) {                                                                                              \
      if (!has_room(fd, (uint64_t)(at + size))) return ENOSPC;                                                         \
      note_resize(fd, (uint64_t)(at + size));                                                                          \
    }                                                                                                                  \
    return REAL(name)(fd, at, size);                                                                                   \
  }
ALLOCATES(posix_fallocate, off_t)
ALLOCATES(posix_fallocate64, off64_t)

#define PREAD(name, offset_t)                                                                                          \
  ssize_t name(int fd, void *into, size_t size, offset_t at) {                                                         \
    int fault = is_tracked(fd) ? read_fault(fd) : 0;                                                                   \
    return fault ? (errno = fault, -1) : REAL(name)(fd, into, size, at);                                               \
  }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

#define PREADV(name, offset_t)                                                                                         \
  ssize_t name(int fd, const struct iovec *parts, int number, offset_t at) {                                           \
    int fault = is_tracked(fd) ? read_fault(fd) : 0;                                                                   \
    return fault ? (errno = fault, -1) : REAL(name)(fd, parts, number, at);                                            \
  }
PREADV(preadv, off_t)
PREADV(preadv64, off64_t)

#define PREADV2(name, offset_t)                                                                                        \
  ssize_t name(int fd, const struct iovec *parts, int number, offset_t at, int flags) {                                \
    int fault = 0;                                                                                                     \
    if (is_tracked(fd)) fault = flags & RWF_NOWAIT ? (is_cold(fd) ? EAGAIN : 0) : read_fault(fd);                      \
    return fault ? (errno = fault, -1) : REAL(name)(fd, parts, number, at, flags);                                     \
  }
PREADV2(preadv2, off_t)
PREADV2(preadv64v2, off64_t)

int rename(const char *source, const char *target) {
  if (!is_ours(target) || log_fd < 0) return REAL(rename)(source, target);
  pthread_mutex_lock(&lock);
  note(RENAME, 0, bury(target), source, target);
  keep(parent(target), 1);
  pthread_mutex_unlock(&lock);
  return REAL(rename)(source, target);
}

int unlink(const char *path) {
  if (!is_ours(path) || log_fd < 0) return REAL(unlink)(path);
  pthread_mutex_lock(&lock);
  uint64_t grave = bury(path);
  if (grave) {
    note(UNLINK, 0, grave, path, NULL);
    keep(parent(path), 1);
  }
  pthread_mutex_unlock(&lock);
  return REAL(unlink)(path);
}

static int noted_folder(int result, int kind, const char *path) {
  if (result == 0 && is_ours(path) && log_fd >= 0) {
    pthread_mutex_lock(&lock);
    note(kind, 0, 0, path, NULL);
    keep(parent(path), 1);
    pthread_mutex_unlock(&lock);
  }
  return result;
}

int mkdir(const char *path, mode_t mode) {
  if (is_ours(path) && access(path, F_OK) != 0 && is_full()) return errno = ENOSPC, -1;
  return noted_folder(REAL(mkdir)(path, mode), MKDIR, path);
}

int rmdir(const char *path) { return noted_folder(REAL(rmdir)(path), RMDIR, path); }

int clock_gettime(clockid_t which, struct timespec *now) {
  static __typeof__(&clock_gettime) found;
  if (!found) found = REAL(clock_gettime);
  int result = found(which, now);
  if (result == 0 && slots && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE) && slots[CLOCK_NS]) {
    int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + slots[CLOCK_NS];
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
  }
  return result;
}
