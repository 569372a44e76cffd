/* Which pages are looked at: a fair sample of memory in which nodes take turns. */
#include "check.h"
#include "sample.h"

enum { SAMPLES = 64 };

/* Of the sample, how many pages lie on node 0 when nodes change every `stride` bytes. */
static int on_node_0(size_t bytes, size_t stride) {
    int count = 0;
    for (size_t i = 0; i < SAMPLES; ++i)
        count += nm_sample_offset(bytes, SAMPLES, i) / stride % 2 == 0;
    return count;
}

static void interleaved_memory_is_seen_half_and_half(void) {
    static const size_t strides[] = {4096, 65536, 2u << 20};
    for (size_t mib = 256; mib <= 4096; mib *= 2)
        for (size_t i = 0; i < sizeof strides / sizeof *strides; ++i) {
            int half = on_node_0(mib << 20, strides[i]);
            CHECK(half > SAMPLES / 2 - 8 && half < SAMPLES / 2 + 8);
        }
}

static void every_part_is_looked_at_once(void) {
    size_t bytes = SAMPLES * 12345;
    for (size_t i = 0; i < SAMPLES; ++i) CHECK(nm_sample_offset(bytes, SAMPLES, i) / 12345 == i);
}

static void a_part_of_some_gibibytes_does_not_overflow(void) {
    size_t bytes = (size_t)SAMPLES << 33;
    size_t behind = 0;
    for (size_t i = 0; i < SAMPLES; ++i) {
        CHECK(nm_sample_offset(bytes, SAMPLES, i) >> 33 == i);
        behind += nm_sample_offset(bytes, SAMPLES, i) >> 32 & 1;
    }
    CHECK(behind > SAMPLES / 2 - 8 &&
          behind < SAMPLES / 2 + 8); /* in the second half of its part */
}

int main(void) {
    RUN(interleaved_memory_is_seen_half_and_half);
    RUN(every_part_is_looked_at_once);
    RUN(a_part_of_some_gibibytes_does_not_overflow);
    return 0;
}
