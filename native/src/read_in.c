#include "read_in.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mapped_file.h"
#include "page_size.h"

/* Readahead brings at least so much at a time: a page of each tells of the others. To ask for every
 * page took 6 % of the time of copying what is there. */
enum { PROBE_EVERY = 128 << 10 };

/* Of a file that is not the caller's, mincore says that all of it is there (mm/mincore.c:
 * can_do_mincore). */
static bool is_own(int fd) {
    struct stat file;
    return geteuid() == 0 || (fstat(fd, &file) == 0 && file.st_uid == geteuid());
}

/* A private mapping may hold changes of its own, and another file may have the name by now. */
static bool shows_all_of(const struct nm_mapped_file *mapped, int fd) {
    struct stat file;
    return mapped->shared && fstat(fd, &file) == 0 && file.st_ino == mapped->inode &&
           major(file.st_dev) == mapped->device_major && minor(file.st_dev) == mapped->device_minor;
}

/* No device: to open one can wake it, and it need not read as it is mapped. */
static bool is_file(const char *path) {
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode);
}

void nm_read_in_open(struct nm_read_in *files, uintptr_t low, uintptr_t high) {
    int saved = errno;
    files->count = 0;
    struct nm_maps maps = {0};
    struct nm_mapped_file mapped;
    nm_maps_begin(&maps);
    while (files->count < NM_READ_FILES && nm_maps_next(&maps, &mapped)) {
        if (mapped.end <= low || mapped.start >= high || !is_file(mapped.path)) continue;
        int fd = open(mapped.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0) continue;
        files->file[files->count++] = (struct nm_read_file){
            mapped.start, mapped.end, mapped.offset, fd, is_own(fd), shows_all_of(&mapped, fd)};
    }
    nm_maps_end(&maps);
    errno = saved;
}

void nm_read_in_close(struct nm_read_in *files) {
    for (size_t i = 0; i < files->count; ++i) close(files->file[i].fd);
    files->count = 0;
}

const struct nm_read_file *nm_read_in_file(const struct nm_read_in *files, const char *start,
                                           size_t bytes) {
    uintptr_t address = (uintptr_t)start;
    for (size_t i = 0; i < files->count; ++i) {
        const struct nm_read_file *file = &files->file[i];
        if (address >= file->start && address < file->end)
            return bytes <= file->end - address ? file : NULL;
    }
    return NULL;
}

static bool mincore_finds_all(uintptr_t start, size_t bytes) {
    unsigned char there;
    for (uintptr_t page = nm_page_at(start); page < start + bytes; page += PROBE_EVERY)
        if (mincore((void *)page, 1, &there) != 0 || (there & 1) == 0) return false;
    return true;
}

/* preadv2(2) without the wrapper, which is newer than glibc 2.17. */
static ssize_t read_cached_byte(int fd, off_t offset) {
    enum { NO_WAIT = 8 }; /* RWF_NOWAIT of linux/fs.h */
    char byte;
    struct iovec one = {&byte, 1};
    return syscall(SYS_preadv2, fd, &one, 1UL, (unsigned long)offset, 0UL, NO_WAIT);
}

/* A byte here and there, as far as they are in the page cache. */
static bool probes_find_all(int fd, off_t offset, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PROBE_EVERY)
        if (read_cached_byte(fd, offset + (off_t)at) != 1) return false;
    return true;
}

static off_t offset_of(const struct nm_read_file *file, const char *start) {
    return (off_t)(file->offset + ((uintptr_t)start - file->start));
}

bool nm_read_in_needed(const struct nm_read_file *file, const char *start, size_t bytes) {
    int saved = errno;
    bool there = file->mincore_tells ? mincore_finds_all((uintptr_t)start, bytes)
                                     : probes_find_all(file->fd, offset_of(file, start), bytes);
    errno = saved;
    return !there;
}

bool nm_read_in(const struct nm_read_file *file, const char *start, size_t bytes, char *to) {
    int saved = errno;
    ssize_t got = pread(file->fd, to, bytes, offset_of(file, start));
    errno = saved;
    return got == (ssize_t)bytes;
}
