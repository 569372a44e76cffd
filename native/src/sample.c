#include "sample.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "filter.h"
#include "page_size.h"
#include "refusal.h"
#include "sys.h"

/* The address `offset` bytes into the ranges laid end to end; *index and *before move forward. */
static const char *address_at(const struct nm_range *ranges, size_t count, size_t offset,
                              size_t *index, size_t *before) {
    while (*index + 1 < count && offset >= *before + ranges[*index].bytes)
        *before += ranges[(*index)++].bytes;
    return ranges[*index].start + (offset - *before);
}

size_t nm_sample_offset(size_t bytes, size_t count, size_t i) {
    uint64_t part = bytes / count, high = part >> 32, low = part & UINT32_MAX;
    uint64_t golden = (uint32_t)i * 2654435769u; /* 2^32 / the golden ratio: evenly spread */
    return (size_t)(part * i + high * golden + (low * golden >> 32));
}

static unsigned choose_pages(const struct nm_range *ranges, size_t count, void **pages) {
    size_t total = 0, index = 0, before = 0;
    for (size_t i = 0; i < count; ++i) total += ranges[i].bytes;
    size_t wanted = total / nm_page_bytes();
    if (wanted > NM_SAMPLE_PAGES) wanted = NM_SAMPLE_PAGES;
    if (wanted == 0) wanted = total > 0;
    for (size_t i = 0; i < wanted; ++i) {
        const char *address =
            address_at(ranges, count, nm_sample_offset(total, wanted, i), &index, &before);
        (void)*(volatile const char *)address;
        pages[i] = (void *)nm_page_at((uintptr_t)address);
    }
    return (unsigned)wanted;
}

static bool is_one_of(int node, const int *nodes, int node_count) {
    if (nm_config.rehearsal != 0) return true;
    for (int i = 0; i < node_count; ++i)
        if (nodes[i] == node) return true;
    return false;
}

static int ask_one_by_one(size_t count, void **pages, int *status) {
    for (size_t i = 0; i < count; ++i) {
        status[i] = nm_node_of_page(pages[i]);
        if (status[i] == -EPERM || status[i] == -ENOSYS) return -status[i];
    }
    return 0;
}

/* move_pages asks for all pages at once; where it is refused, get_mempolicy may not be. */
static int ask_for_nodes(size_t count, void **pages, int *status) {
    int refused = nm_move_pages(count, pages, NULL, status);
    if (refused == 0) return 0;
    int error = ask_one_by_one(count, pages, status);
    nm_say_refused(NM_MOVE_PAGES, refused,
                   error == 0 ? "get_mempolicy is asked where pages lie, one by one"
                              : "where pages lie is not known: get_mempolicy is refused too");
    return error == 0 ? 0 : refused;
}

struct nm_sample nm_sample_ranges(const struct nm_range *ranges, size_t count, const int *nodes,
                                  int node_count) {
    struct nm_sample sample = {0};
    void *pages[NM_SAMPLE_PAGES];
    int status[NM_SAMPLE_PAGES];
    if (count == 0) return sample;
    if (nm_filter_noticed()) {
        sample.error = EPERM;
        return sample;
    }
    unsigned chosen = choose_pages(ranges, count, pages);
    sample.error = ask_for_nodes(chosen, pages, status);
    if (sample.error != 0) return sample;
    for (unsigned i = 0; i < chosen; ++i) {
        if (status[i] < 0) continue;
        ++sample.pages;
        sample.local += is_one_of(status[i], nodes, node_count);
    }
    return sample;
}
