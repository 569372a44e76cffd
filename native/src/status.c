#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "events.h"
#include "refusal.h"
#include "sys.h"

__attribute__((used)) static const struct nm_status_mark layout_mark = {
    NM_STATUS_MARK, NM_STATUS_VERSION, sizeof(struct nm_status)};

static struct nm_status private_page;
struct nm_status *nm_status = &private_page;

/* For its owner alone. An unnamed file of /dev/shm goes with its last descriptor, as a memfd. */
static int open_file(void) {
    int fd = nm_memfd(NM_STATUS_NAME);
    if (fd >= 0) {
        fchmod(fd, S_IRUSR | S_IWUSR);
        return fd;
    }
    nm_say_refused(NM_MEMFD, -fd, "the status page is an unnamed file in /dev/shm");
    return open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
}

/* Never where a standard stream was closed: what the program prints would go into the page. */
static int open_page(void) {
    int fd = open_file();
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return moved;
}

/* A file that grows past the process's limit ends it (SIGXFSZ), and so does a store to a page for
 * which a full /dev/shm has no room, or which somebody has cut off since (SIGBUS). */
static bool give_size(int fd) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(struct nm_status)) {
        errno = EFBIG;
        return false;
    }
    if (ftruncate(fd, sizeof(struct nm_status)) != 0) return false;
    errno = posix_fallocate(fd, 0, sizeof(struct nm_status));
    if (errno == ENOSPC) return false;
    nm_seal_size(fd); /* a file of /dev/shm has no seals */
    return true;
}

static struct nm_status *map_page(int fd) {
    if (fd < 0 || !give_size(fd)) return NULL;
    void *page = mmap(NULL, sizeof(struct nm_status), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

static void fill_constant_part(struct nm_status *page) {
    memcpy(page->magic, NM_STATUS_MAGIC, sizeof page->magic);
    page->version = NM_STATUS_VERSION;
    page->bytes = sizeof *page;
    page->pid = (uint32_t)getpid();
    page->rehearsal = nm_config.rehearsal;
    page->home = nm_config.home;
    page->copies = (uint32_t)nm_config.copies;
    for (int i = 0; i < nm_config.copies; ++i) {
        page->copy[i].node = nm_config.copy[i].nodes[0];
        memcpy(page->copy[i].nodes, nm_config.copy[i].nodes_text, sizeof page->copy[i].nodes);
    }
}

void nm_status_open(void) {
    int fd = open_page();
    struct nm_status *page = map_page(fd);
    if (page == NULL) {
        nm_note("warn", "no status page: inspect will not see the mirror", strerror(errno), "");
        if (fd >= 0) close(fd);
        page = &private_page;
    }
    fill_constant_part(page);
    nm_status = page;
    /* The descriptor stays open for inspect, which finds it under /proc/PID/fd; the shim itself
     * never uses its number again. */
    nm_event_with_fd(page == &private_page ? -1 : fd, "hello", "\"version\":\"%s\"", NM_VERSION);
}

void nm_status_leave(void) {
    memcpy(&private_page, nm_status, sizeof private_page);
    nm_status = &private_page;
}

void nm_status_begin(void) {
    atomic_fetch_add_explicit((_Atomic uint32_t *)&nm_status->seq, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

void nm_status_end(void) {
    atomic_fetch_add_explicit((_Atomic uint32_t *)&nm_status->seq, 1, memory_order_release);
}

void nm_status_set(enum nm_state state, const char *reason) {
    nm_status_begin();
    nm_status->state = state;
    if (reason != NULL) snprintf(nm_status->reason, sizeof nm_status->reason, "%s", reason);
    nm_status_end();
}
