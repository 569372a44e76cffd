/* How much memory a node could still give, from its meminfo in sysfs. */
#ifndef NM_NODE_MEMORY_H
#define NM_NODE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct nm_node_memory {
    size_t total, free, reclaimable; /* bytes */
};

/* Reads the text of /sys/devices/system/node/nodeN/meminfo; false when it has no MemFree. */
bool nm_node_memory_parse(const char *text, struct nm_node_memory *memory);

/* The same of a live node; false when it cannot be read. */
bool nm_node_memory_read(int node, struct nm_node_memory *memory);

/* What a replica may take: free and clean unmapped page cache, less a reserve of 1/32 of the
 * node, so that the kernel's own allocations still fit. */
size_t nm_node_memory_available(const struct nm_node_memory *memory);

#endif
