/* Time, in nanoseconds. */
#ifndef NM_CLOCK_H
#define NM_CLOCK_H

#include <stdint.h>
#include <time.h>

/* clock_gettime(2) of CLOCK_MONOTONIC, or another. */
static inline uint64_t nm_clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
