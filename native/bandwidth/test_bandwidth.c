/* The parts of the bandwidth program whose faults no figure would show. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../tests/check.h"
#include "kernels.h"
#include "memory.h"
#include "options.h"
#include "team.h"

static void the_chain_visits_every_line_once(void) {
    for (size_t lines = 1; lines <= 1u << 16; lines *= 2) {
        char *seen = calloc(lines, 1);
        uint64_t line = 0;
        for (size_t i = 0; i < lines; ++i) {
            CHECK(line < lines && !seen[line]);
            seen[line] = 1;
            line = nm_next_line(line, lines);
        }
        CHECK(line == 0);
        free(seen);
    }
}

static void a_chase_through_filled_memory_follows_that_chain(void) {
    struct nm_memory memory = nm_memory_map(5u << 20, -1); /* no power of two: 6 MiB */
    CHECK(memory.words != NULL && memory.bytes == 6u << 20 && memory.lines == (4u << 20) / 64);
    for (int member = 0; member < 5; ++member) nm_memory_fill(&memory, member, 5);
    uint64_t line = 0;
    for (int i = 0; i < 1000; ++i) line = nm_next_line(line, memory.lines);
    CHECK(nm_chase(memory.words, 0, 1000) == line);
}

static void streaming_sees_every_word(void) {
    _Alignas(64) uint64_t words[64] = {0};
    for (int i = 0; i < 64; ++i) {
        words[i] = 7;
        CHECK(nm_stream(words, sizeof words) == 7);
        words[i] = 0;
    }
}

static _Atomic int calls;

static void count(void *context, int member, int members) {
    (void)context;
    CHECK(member >= 0 && member < members);
    atomic_fetch_add(&calls, 1);
}

/* In a container that may not be CPU 0. */
static int a_cpu(void) {
    int cpu = sched_getcpu();
    CHECK(cpu >= 0);
    return cpu;
}

static void every_thread_of_a_team_works_in_every_pass(void) {
    static struct nm_passes passes;
    int cpu = a_cpu(), cpus[3] = {cpu, cpu, cpu};
    CHECK(nm_team_run(cpus, 3, count, NULL, 0, 4, &passes) == 0);
    CHECK(passes.count == 4 && atomic_load(&calls) == 12);
    for (int i = 0; i < passes.count; ++i) CHECK(passes.seconds[i] > 0);
}

static void a_cpu_that_is_not_there_is_an_error(void) {
    static struct nm_passes passes;
    int cpus[2] = {a_cpu(), NM_MOST_CPUS - 1};
    CHECK(nm_team_run(cpus, 2, count, NULL, 0, 1, &passes) != 0);
}

static void lists_of_cpus_are_read_whole_or_not_at_all(void) {
    static int cpus[NM_MOST_CPUS];
    CHECK(nm_cpus_read("0,2-4", cpus) == 4 && cpus[0] == 0 && cpus[1] == 2 && cpus[3] == 4);
    static const char *const broken[] = {"", ",", "1,", "-1", "4-2", "1-", "x", "1 2", "99999"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; ++i)
        CHECK(nm_cpus_read(broken[i], cpus) == -1);
    CHECK(nm_cpus_read("0-8191,0", cpus) == -1); /* more than fit */
}

int main(void) {
    RUN(the_chain_visits_every_line_once);
    RUN(a_chase_through_filled_memory_follows_that_chain);
    RUN(streaming_sees_every_word);
    RUN(every_thread_of_a_team_works_in_every_pass);
    RUN(a_cpu_that_is_not_there_is_an_error);
    RUN(lists_of_cpus_are_read_whole_or_not_at_all);
    return 0;
}
