#include "arena.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "page_size.h"
#include "sys.h"

enum { ALIGNMENT = 64 };
static const size_t HUGE_PAGE = 2u << 20;

static size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t nm_arena_need(size_t bytes, size_t count) {
    return round_up(bytes + count * 2 * ALIGNMENT + 1, HUGE_PAGE);
}

/* Huge pages need their alignment in the address as well: map more and give back the ends. */
static char *map_aligned(size_t bytes) {
    char *start = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    char *aligned = (char *)round_up((uintptr_t)start, HUGE_PAGE);
    size_t head = (size_t)(aligned - start);
    if (head > 0) munmap(start, head);
    munmap(aligned + bytes, HUGE_PAGE - head);
    return aligned;
}

struct nm_arena *nm_arena_new(int copy, size_t bytes) {
    struct nm_arena *arena = calloc(1, sizeof *arena);
    if (arena == NULL) return NULL;
    arena->copy = copy;
    arena->bytes = bytes;
    arena->start = map_aligned(bytes);
    if (arena->start == NULL) {
        int saved = errno;
        free(arena);
        errno = saved;
        return NULL;
    }
    const struct nm_copy *where = &nm_config.copy[copy];
    if (nm_config.rehearsal == 0)
        arena->policy_error = nm_mbind(
            arena->start, bytes, where->node_count > 1 ? NM_MPOL_INTERLEAVE : NM_MPOL_PREFERRED,
            where->nodes, where->node_count);
    madvise(arena->start, bytes, MADV_HUGEPAGE);
    madvise(arena->start, bytes, MADV_DONTDUMP);
    char name[64];
    snprintf(name, sizeof name, "numamirror:replica:node%s", where->nodes_text);
    nm_name_mapping(arena->start, bytes, name);
    return arena;
}

/* Read while huge pages are off, it has a table of small ones, and no huge one takes its place when
 * it is filled. Nothing is written: it may hold weights of a build before. */
void nm_arena_end_small(const struct nm_arena *arena) {
    size_t rest = arena->used % HUGE_PAGE;
    if (rest == 0) return;
    char *block = arena->start + (arena->used - rest);
    madvise(block, HUGE_PAGE, MADV_NOHUGEPAGE);
    (void)*(volatile const char *)block;
    madvise(block, HUGE_PAGE, MADV_HUGEPAGE);
}

bool nm_arena_pin(struct nm_arena *arena, bool (*pin)(void *start, size_t bytes),
                  void (*unpin)(void *start)) {
    char *start = arena->start + arena->pinned;
    size_t bytes = round_up(arena->used, nm_page_bytes()) - arena->pinned;
    if (bytes == 0) return true;
    if (arena->pins == NM_MAX_PINS || !pin(start, bytes)) return false;
    arena->pin[arena->pins++] = start;
    arena->pinned += bytes;
    arena->unpin = unpin;
    return true;
}

void nm_arena_free(struct nm_arena *arena) {
    for (int i = 0; i < arena->pins; ++i) arena->unpin(arena->pin[i]);
    munmap(arena->start, arena->bytes);
    free(arena);
}

char *nm_arena_take(struct nm_arena *arena, const void *primary, size_t bytes) {
    size_t offset = round_up(arena->used, ALIGNMENT) + (uintptr_t)primary % ALIGNMENT;
    if (offset > arena->bytes || bytes > arena->bytes - offset) return NULL;
    arena->used = offset + bytes;
    arena->live += bytes;
    return arena->start + offset;
}
