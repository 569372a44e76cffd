/* A node's meminfo. */
#include "fuzz.h"
#include "node_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct nm_node_memory memory;
    char *text = fuzz_text(data, bytes);
    if (nm_node_memory_parse(text, &memory)) (void)nm_node_memory_available(&memory);
    free(text);
    return 0;
}
