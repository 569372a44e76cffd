#include "heal.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "page_size.h"
#include "sys.h"

enum { BATCH = 16384 };

/* Pages of the ranges in order, each once; no batch goes on from the probe into the rest. */
struct walk {
    const struct nm_range *ranges;
    size_t count, index;
    uintptr_t next; /* 0: at the start of ranges[index] */
    size_t probe;   /* pages of it that are still to come */
};

static size_t next_batch(struct walk *walk, void **pages) {
    size_t taken = 0, most = walk->probe > 0 && walk->probe < BATCH ? walk->probe : BATCH;
    while (taken < most && walk->index < walk->count) {
        const struct nm_range *range = &walk->ranges[walk->index];
        uintptr_t first = nm_page_at((uintptr_t)range->start);
        uintptr_t page = walk->next > first ? walk->next : first;
        if (page >= (uintptr_t)range->start + range->bytes) {
            ++walk->index;
            continue;
        }
        pages[taken++] = (void *)page;
        walk->next = page + nm_page_bytes();
    }
    walk->probe -= walk->probe > 0 ? taken : 0;
    return taken;
}

static void fault_in(void **pages, size_t count) {
    for (size_t i = 0; i < count; ++i) (void)*(volatile const char *)pages[i];
}

/* A huge page is moved with the first of its pages, and the answers for the others are not to be
 * trusted: ask afresh. */
static void count_there(struct nm_healing *healing, void **pages, size_t count, int node,
                        int *status) {
    if (nm_move_pages(count, pages, NULL, status) != 0) return;
    healing->pages += count;
    for (size_t i = 0; i < count; ++i) healing->there += status[i] == node;
}

static bool move_batch(struct nm_healing *healing, void **pages, size_t count, int node, int *nodes,
                       int *status) {
    for (size_t i = 0; i < count; ++i) nodes[i] = node;
    fault_in(pages, count);
    int error = nm_move_pages(count, pages, nodes, status);
    if (error != 0) healing->error = error;
    for (size_t i = 0; error == 0 && i < count; ++i)
        if (status[i] < 0) healing->error = -status[i];
    count_there(healing, pages, count, node, status);
    return error == 0 || error == EBUSY;
}

static bool probe_failed(const struct nm_healing *healing, const struct walk *walk) {
    return walk->probe == 0 && healing->pages > 0 && healing->there < healing->pages / 2;
}

struct nm_healing nm_heal(const struct nm_range *ranges, size_t count, int node,
                          size_t probe_bytes) {
    struct nm_healing healing = {0};
    struct walk walk = {.ranges = ranges, .count = count, .probe = probe_bytes / nm_page_bytes()};
    void **pages = calloc(BATCH, sizeof *pages);
    int *nodes = calloc(BATCH, sizeof *nodes), *status = calloc(BATCH, sizeof *status);
    if (pages == NULL || nodes == NULL || status == NULL) healing.error = ENOMEM;
    size_t taken;
    while (pages != NULL && nodes != NULL && status != NULL && !probe_failed(&healing, &walk) &&
           (taken = next_batch(&walk, pages)) > 0)
        if (!move_batch(&healing, pages, taken, node, nodes, status)) break;
    free(pages);
    free(nodes);
    free(status);
    return healing;
}

const char *nm_heal_reason(int error) {
    switch (error) {
        case EPERM:
            return "move_pages: EPERM: a seccomp profile, as containers have, forbids it";
        case ENOSYS:
            return "move_pages: ENOSYS: the kernel or a seccomp profile does not offer it";
        case EACCES:
            return "other processes map the same file, and its pages are theirs too";
        case EBUSY:
            return "the pages are pinned, as memory registered with a GPU is";
        case ENOMEM:
            return "their node has no room for them";
        case ENODEV:
            return "their node is not allowed to this process";
        default:
            return "the kernel left them where they are";
    }
}
