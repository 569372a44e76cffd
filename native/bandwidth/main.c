/*
 * numamirror-bandwidth: how fast the CPUs of a list read memory of a node.
 *
 * One JSON object per line on stdout: `memory` (where it lies, by the kernel), then `all` (every
 * CPU reads its part), `one` (the first CPU reads it all) and `latency` (the first CPU follows a
 * chain). GB/s are 10^9 bytes a second. Each rate comes with the tenth and the ninetieth
 * percentile of its passes. Exit status 1 and one line on stderr when something is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "memory.h"
#include "options.h"
#include "sample.h"
#include "team.h"

/* Passes, also where one takes long: fewer make no percentile. */
enum { CHAIN_STEPS = 1 << 18, LEAST_PASSES = 6 };

struct spread {
    double low, median, high;
};

static _Atomic uint64_t sink; /* what was read was needed */

static void read_part(void *context, int member, int members) {
    const struct nm_memory *memory = context;
    size_t part = memory->bytes / (size_t)members / 4096 * 4096;
    sink ^= nm_stream(memory->words + part / sizeof(uint64_t) * (size_t)member, part);
}

static void follow_chain(void *context, int member, int members) {
    (void)member, (void)members;
    static uint64_t line; /* goes on where the last pass ended */
    line = nm_chase(((const struct nm_memory *)context)->words, line, CHAIN_STEPS);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first pass is left out where there are others: it finds the caches as the last task left
 * them. */
static struct spread spread_of(struct nm_passes *passes) {
    double *seconds = passes->seconds + (passes->count > 1);
    int count = passes->count - (passes->count > 1);
    qsort(seconds, (size_t)count, sizeof *seconds, ascending);
    return (struct spread){seconds[count / 10], seconds[count / 2],
                           seconds[count - 1 - count / 10]};
}

static int fail(const char *what, int error) {
    fprintf(stderr, "numamirror-bandwidth: %s: %s\n", what, strerror(error));
    return 1;
}

static void say_memory(const struct nm_memory *memory, int node) {
    struct nm_range range = {(const char *)memory->words, memory->bytes};
    struct nm_sample sample = {0};
    if (node >= 0) sample = nm_sample_ranges(&range, 1, &node, 1);
    printf(
        "{\"what\": \"memory\", \"bytes\": %zu, \"huge_bytes\": %zu, \"policy_errno\": %d, "
        "\"sampled_pages\": %u, \"sampled_there\": %u, \"sample_errno\": %d}\n",
        memory->bytes, nm_memory_huge(memory), memory->policy_error, sample.pages, sample.local,
        sample.error);
    fflush(stdout);
}

static void say_rate(const char *what, int threads, size_t bytes, struct nm_passes *passes) {
    struct spread seconds = spread_of(passes);
    double gigabytes = (double)bytes / 1e9;
    printf(
        "{\"what\": \"%s\", \"threads\": %d, \"passes\": %d, \"low\": %.4g, \"median\": %.4g, "
        "\"high\": %.4g}\n",
        what, threads, passes->count, gigabytes / seconds.high, gigabytes / seconds.median,
        gigabytes / seconds.low);
    fflush(stdout);
}

static void say_latency(struct nm_passes *passes) {
    struct spread seconds = spread_of(passes);
    double scale = 1e9 / CHAIN_STEPS;
    printf(
        "{\"what\": \"latency\", \"passes\": %d, \"low\": %.4g, \"median\": %.4g, \"high\": "
        "%.4g}\n",
        passes->count, seconds.low * scale, seconds.median * scale, seconds.high * scale);
    fflush(stdout);
}

static int measure(const struct nm_options *options, struct nm_memory *memory) {
    static struct nm_passes passes;
    const int *cpus = options->readers;
    int all = options->reader_count, error;
    double seconds = options->seconds;

    error = nm_team_run(cpus, all, read_part, memory, seconds, LEAST_PASSES, &passes);
    if (error != 0) return fail("reading with a thread on each CPU", error);
    /* What the parts leave over at the end is not read. */
    say_rate("all", all, memory->bytes / (size_t)all / 4096 * 4096 * (size_t)all, &passes);

    error = nm_team_run(cpus, 1, read_part, memory, seconds, LEAST_PASSES, &passes);
    if (error != 0) return fail("reading with one thread", error);
    say_rate("one", 1, memory->bytes, &passes);

    error = nm_team_run(cpus, 1, follow_chain, memory, seconds, LEAST_PASSES, &passes);
    if (error != 0) return fail("following a chain", error);
    say_latency(&passes);
    return 0;
}

int main(int count, char **words) {
    static struct nm_options options;
    static struct nm_passes passes;
    const char *problem = nm_options_read(count, words, &options);
    if (problem != NULL) {
        fprintf(stderr, "numamirror-bandwidth: %s\n", problem);
        return 2;
    }
    struct nm_memory memory = nm_memory_map(options.bytes, options.node);
    if (memory.words == NULL) return fail("mapping memory", errno);
    int error =
        nm_team_run(options.fillers, options.filler_count, nm_memory_fill, &memory, 0, 1, &passes);
    if (error != 0) return fail("starting a thread on each CPU to touch memory", error);
    say_memory(&memory, options.node);
    return measure(&options, &memory);
}
