#include "node_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line reads "Node 0 MemFree:  123456 kB". */
static bool field(const char *text, const char *name, size_t *bytes) {
    char key[32];
    snprintf(key, sizeof key, " %s:", name);
    const char *at = strstr(text, key);
    if (at == NULL) return false;
    *bytes = strtoull(at + strlen(key), NULL, 10) * 1024;
    return true;
}

bool nm_node_memory_parse(const char *text, struct nm_node_memory *memory) {
    size_t cache = 0, busy = 0, part;
    memset(memory, 0, sizeof *memory);
    if (!field(text, "MemFree", &memory->free)) return false;
    field(text, "MemTotal", &memory->total);
    field(text, "FilePages", &cache);
    /* Dirty, written back, mapped and shared-memory pages cannot simply be dropped. */
    static const char *const kept[] = {"Dirty", "Writeback", "Mapped", "Shmem"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; ++i)
        if (field(text, kept[i], &part)) busy += part;
    memory->reclaimable = cache > busy ? cache - busy : 0;
    return true;
}

bool nm_node_memory_read(int node, struct nm_node_memory *memory) {
    char path[64], text[8192];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0) return false;
    text[bytes] = '\0';
    return nm_node_memory_parse(text, memory);
}

size_t nm_node_memory_available(const struct nm_node_memory *memory) {
    size_t sum = memory->free + memory->reclaimable, reserve = memory->total / 32;
    return sum > reserve ? sum - reserve : 0;
}
