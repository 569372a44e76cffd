#include "first_touch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "config.h"
#include "filter.h"
#include "lock.h"
#include "page_size.h"
#include "partition.h"
#include "sys.h"

static const size_t HUGE_PAGE = 2u << 20;

/* Weights that were given huge pages, in no order. */
static struct nm_shape *given;
static _Atomic size_t given_count;
static size_t given_room;
pthread_mutex_t nm_first_touch_lock = NM_LOCK_INITIALIZER;

static uintptr_t first_block(const struct nm_shape *w) {
    return (w->start + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static uintptr_t end_of_blocks(const struct nm_shape *w) {
    return (w->start + w->bytes) / HUGE_PAGE * HUGE_PAGE;
}

/* The thread count is not known yet: one for each CPU that reads, as most people run it. */
static int likely_threads(void) {
    int threads = 0;
    for (int copy = 0; copy < nm_config.copies; ++copy) threads += nm_config.copy[copy].cpu_count;
    return threads > 0 ? threads : nm_config.copies;
}

static int owner_of_byte(const struct nm_shape *w, uintptr_t address, int threads) {
    return nm_partition_owner(address - w->start, w->slab_bytes, w->rows, threads);
}

/* -1: rows of two copies. A copy's rows of a slab are longer than a block, so that the ends of a
 * block tell of all that is between them. */
static int owner_of_block(const struct nm_shape *w, uintptr_t block, int threads) {
    int first = owner_of_byte(w, block, threads);
    return first == owner_of_byte(w, block + HUGE_PAGE - 1, threads) ? first : -1;
}

/* ---- touching ---- */

/* A write that changes nothing: a page that is not in memory was perhaps swapped out. It must not
 * be read first: the kernel would map its huge page of zeroes there, and Linux 6.1 splits that into
 * small ones at the write. Processors other than x86 read before they compare. */
static void touch(uintptr_t address) {
    enum { POPULATE_WRITE = 23 }; /* madvise(2), Linux 5.14 */
    char expected = 0;
    if (madvise((void *)nm_page_at(address), nm_page_bytes(), POPULATE_WRITE) == 0) return;
    __atomic_compare_exchange_n((volatile char *)address, &expected, 0, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

static bool is_untouched(uintptr_t first, size_t blocks) {
    void **pages = calloc(blocks, sizeof *pages);
    int *status = calloc(blocks, sizeof *status);
    bool untouched = pages != NULL && status != NULL;
    for (size_t i = 0; untouched && i < blocks; ++i) pages[i] = (void *)(first + i * HUGE_PAGE);
    untouched = untouched && nm_move_pages(blocks, pages, NULL, status) == 0;
    for (size_t i = 0; untouched && i < blocks; ++i)
        untouched = status[i] == -ENOENT || status[i] == -EFAULT;
    free(pages);
    free(status);
    return untouched;
}

static void prefer_node_of(const struct nm_copy *copy) {
    struct nm_policy policy = {.mode = NM_MPOL_PREFERRED};
    enum { BITS = 8 * sizeof *policy.nodes };
    unsigned node = (unsigned)copy->nodes[0];
    if (node >= sizeof policy.nodes * 8) return;
    policy.nodes[node / BITS] = 1ul << node % BITS;
    nm_set_policy(&policy);
}

/* Huge pages are on only while the copy's blocks are touched, and never for a block of two copies:
 * khugepaged joins small pages at any moment where they are on. */
static void touch_run(uintptr_t first, uintptr_t end) {
    if (madvise((void *)first, end - first, MADV_HUGEPAGE) != 0) return;
    for (uintptr_t block = first; block < end; block += HUGE_PAGE) touch(block);
    madvise((void *)first, end - first, MADV_NOHUGEPAGE);
}

static uintptr_t end_of_run(const struct nm_shape *w, uintptr_t first, uintptr_t end, int threads) {
    int owner = owner_of_block(w, first, threads);
    uintptr_t block = first;
    while (block < end && owner_of_block(w, block, threads) == owner) block += HUGE_PAGE;
    return block;
}

static void touch_blocks(const struct nm_shape *w, const struct nm_policy *before) {
    uintptr_t end = end_of_blocks(w), after;
    int threads = likely_threads();
    for (uintptr_t first = first_block(w); first < end; first = after) {
        after = end_of_run(w, first, end, threads);
        int owner = owner_of_block(w, first, threads);
        if (owner < 0) continue;
        prefer_node_of(&nm_config.copy[owner]);
        touch_run(first, after);
    }
    nm_set_policy(before);
}

/* ---- what was given ---- */

static bool remember(const struct nm_shape *weight) {
    pthread_mutex_lock(&nm_first_touch_lock);
    if (given_count == given_room) {
        size_t room = given_room * 2 + 16;
        struct nm_shape *grown = realloc(given, room * sizeof *grown);
        if (grown != NULL) {
            given = grown;
            given_room = room;
        }
    }
    bool fits = given_count < given_room;
    if (fits) given[given_count++] = *weight;
    pthread_mutex_unlock(&nm_first_touch_lock);
    return fits;
}

void nm_first_touch(const struct nm_shape *weight) {
    uintptr_t first = first_block(weight), end = end_of_blocks(weight);
    bool one_node_each = true;
    for (int copy = 0; copy < nm_config.copies; ++copy)
        one_node_each = one_node_each && nm_config.copy[copy].node_count == 1;
    if (nm_config.rehearsal != 0 || !one_node_each || nm_filter_added()) return;
    if (end <= first || weight->slab_bytes / (size_t)nm_config.copies < 2 * HUGE_PAGE) return;
    struct nm_policy before;
    if (!is_untouched(first, (end - first) / HUGE_PAGE) || nm_get_policy(&before) != 0) return;
    if (remember(weight)) touch_blocks(weight, &before);
}

static const struct nm_shape *given_at(uintptr_t address) {
    for (size_t i = 0; i < given_count; ++i)
        if (address - given[i].start < given[i].bytes) return &given[i];
    return NULL;
}

uintptr_t nm_middle_of_page(uintptr_t page) {
    uintptr_t own = page + nm_page_bytes() / 2;
    /* So with mapped files, for each of whose pages several threads would wait at the lock. */
    if (atomic_load_explicit(&given_count, memory_order_relaxed) == 0) return own;
    pthread_mutex_lock(&nm_first_touch_lock);
    const struct nm_shape *weight = given_at(page);
    uintptr_t block = page / HUGE_PAGE * HUGE_PAGE;
    bool whole = weight != NULL && block >= first_block(weight) && block < end_of_blocks(weight) &&
                 owner_of_block(weight, block, likely_threads()) >= 0;
    pthread_mutex_unlock(&nm_first_touch_lock);
    return whole ? block + HUGE_PAGE / 2 : own;
}

void nm_first_touch_forget(uintptr_t start, size_t bytes) {
    pthread_mutex_lock(&nm_first_touch_lock);
    size_t kept = 0;
    for (size_t i = 0; i < given_count; ++i)
        if (given[i].start - start >= bytes) given[kept++] = given[i];
    given_count = kept;
    pthread_mutex_unlock(&nm_first_touch_lock);
}

/* ---- what came of it ---- */

static bool holds_given(uintptr_t start, uintptr_t end) {
    for (size_t i = 0; i < given_count; ++i)
        if (given[i].start < end && start < given[i].start + given[i].bytes) return true;
    return false;
}

size_t nm_first_touch_huge_bytes(void) {
    char line[512];
    size_t sum = 0, kib;
    bool ours = false;
    pthread_mutex_lock(&nm_first_touch_lock);
    FILE *smaps = given_count == 0 ? NULL : fopen("/proc/self/smaps", "re");
    while (smaps != NULL && fgets(line, sizeof line, smaps) != NULL) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) ours = holds_given(start, end);
        if (ours && sscanf(line, "AnonHugePages: %zu kB", &kib) == 1) sum += kib * 1024;
    }
    if (smaps != NULL) fclose(smaps);
    pthread_mutex_unlock(&nm_first_touch_lock);
    return sum;
}
