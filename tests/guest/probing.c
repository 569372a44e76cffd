/* Runs inside the guest: the shim's moving of memory of which a third cannot move.
 *
 *     probing THIRDS
 *
 * Its memory lies on node 0, and the first third of it is registered with io_uring, which pins it.
 * All of it is to be moved to node 1, with a probe of that many thirds; of 0, the last third and
 * the pinned one, in a batch in which the second one stays on node 0. Prints what the moving says
 * of itself, and then, for each third, the pages that the kernel finds on node 0 and on node 1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config.h"
#include "events.h"
#include "heal.h"
#include "moving.h"

/* What the shim reads from its environment, and tells a launcher: here is none. */
struct nm_config nm_config = {.copies = 2};
void nm_event(const char *name, const char *format, ...) { (void)name, (void)format; }

enum { PAGE = 4096, THIRD = 8 << 20, PAGES = THIRD / PAGE, REGISTER_BUFFERS = 0, TARGET = 1 };

static char *memory_of_small_pages(void) {
    char *start = mmap(NULL, 3 * THIRD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || madvise(start, 3 * THIRD, MADV_NOHUGEPAGE) != 0) perror("mmap");
    memset(start, 'w', 3 * THIRD);
    return start;
}

/* io_uring_register(2): pinned while the descriptor is open. */
static void pin(char *start, size_t bytes) {
    char parameters[120] = {0}; /* struct io_uring_params */
    struct iovec vector = {start, bytes};
    long ring = syscall(SYS_io_uring_setup, 1, parameters);
    if (ring < 0 || syscall(SYS_io_uring_register, ring, REGISTER_BUFFERS, &vector, 1) != 0) {
        perror("io_uring_register");
        exit(1);
    }
}

static void print_places(const char *third) {
    static void *pages[PAGES];
    static int status[PAGES];
    int on[2] = {0, 0};
    for (int i = 0; i < PAGES; ++i) pages[i] = (void *)(third + (size_t)i * PAGE);
    if (syscall(SYS_move_pages, 0, (long)PAGES, pages, NULL, status, 0) != 0) perror("move_pages");
    for (int i = 0; i < PAGES; ++i)
        if (status[i] == 0 || status[i] == 1) ++on[status[i]];
    printf("[%d, %d]", on[0], on[1]);
}

static struct nm_healing move_in_a_batch(char *start) {
    static struct nm_batch batch;
    for (int i = 0; i < 3 * PAGES; ++i) {
        uintptr_t page = (uintptr_t)start + (size_t)i * PAGE;
        nm_batch_add(&batch, page, page, i / PAGES == 1 ? 0 : TARGET);
    }
    nm_batch_move(&batch);
    return (struct nm_healing){.pages = batch.filled, .error = batch.error};
}

int main(int count, char **words) {
    if (count != 2) return 2;
    char *start = memory_of_small_pages();
    pin(start, THIRD);
    struct nm_range all = {start, 3 * THIRD};
    size_t thirds = (size_t)atoi(words[1]);
    struct nm_healing healing =
        thirds == 0 ? move_in_a_batch(start) : nm_heal(&all, 1, TARGET, thirds * THIRD);
    printf("{\"pages\": %zu, \"there\": %zu, \"busy\": %s, \"thirds\": [", healing.pages,
           healing.there, healing.error == EBUSY ? "true" : "false");
    for (int third = 0; third < 3; ++third) {
        print_places(start + (size_t)third * THIRD);
        printf(third < 2 ? ", " : "]}\n");
    }
    return 0;
}
