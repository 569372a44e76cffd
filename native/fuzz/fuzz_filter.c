/* /proc/self/status, as far as it counts seccomp filters. */
#include "filter.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes);
    (void)nm_filter_count(text);
    free(text);
    return 0;
}
