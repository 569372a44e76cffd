#include "shard_say.h"

#include <stdatomic.h>
#include <stdio.h>

#include "config.h"
#include "events.h"
#include "heal.h"
#include "partition.h"

/* ---- what a number of threads costs ---- */

struct load {
    int copy;        /* whose threads read most, for the CPUs that it has */
    double part;     /* of every weight */
    double too_much; /* how many times what its CPUs would be given */
};

/* A token is there when the last thread has read its rows: nodes whose threads have more to read
 * than their share make all others wait. */
static struct load heaviest(int threads) {
    struct load worst = {0};
    for (int copy = 0; copy < nm_config.copies; ++copy) {
        int here = 0;
        for (int ith = 0; ith < threads; ++ith) here += nm_partition_copy(ith, threads) == copy;
        double part = (double)here / threads, times = part / nm_partition_share(copy);
        if (times > worst.too_much)
            worst = (struct load){.copy = copy, .part = part, .too_much = times};
    }
    return worst;
}

static void say_uneven(int threads) {
    struct load worst = heaviest(threads);
    if (worst.too_much < 1.01) return;
    char what[96], why[192];
    snprintf(what, sizeof what, "%d thread%s do not divide among %d nodes", threads,
             threads == 1 ? "" : "s", nm_config.copies);
    snprintf(why, sizeof why,
             "node %s reads %.0f %% of every weight, %.2f times an even share, and each token "
             "waits for it",
             nm_config.copy[worst.copy].nodes_text, worst.part * 100, worst.too_much);
    nm_note("warn", what, why, "use a number of threads that gives each CPU as much");
}

/* ---- where the rows are ---- */

const char *nm_shard_say_placed(const struct nm_placed *placed, int threads) {
    say_uneven(threads);
    nm_event("placed",
             "\"bytes\":%zu,\"huge_bytes\":%zu,\"pages\":%zu,\"local\":%zu,\"threads\":%d,"
             "\"ns\":%llu",
             placed->bytes, placed->huge, placed->asked, placed->local, threads,
             (unsigned long long)placed->ns);
    if (nm_config.rehearsal != 0 || placed->local * 100 >= placed->asked * 90) return "";
    const char *why = nm_heal_reason(placed->error);
    nm_note("warn", "pages stay that belong to another node", why, "");
    return why;
}

/* ---- what was noted while a graph ran ---- */

enum noted { PIN_UNDONE, MIXED_AMX, MIXED, NOTES };

static _Atomic bool noted[NOTES], said[NOTES];

static void note(enum noted what) {
    if (!atomic_load_explicit(&noted[what], memory_order_relaxed))
        atomic_store_explicit(&noted[what], true, memory_order_relaxed);
}

void nm_shard_pin_undone(void) { note(PIN_UNDONE); }

void nm_shard_prompt_mixed(bool amx) { note(amx ? MIXED_AMX : MIXED); }

static const struct {
    const char *level, *what, *why, *remedy;
} texts[NOTES] = {
    [PIN_UNDONE] = {"warn", "something binds the engine's threads anew while it computes",
                    "they are bound back each time, which costs a system call and a move",
                    "start the engine without --numa, --cpu-mask and --cpu-strict"},
    [MIXED_AMX] = {"warn", "long prompts are read from both near and far memory",
                   "AMX divides more than 32 tokens by tokens, so that every thread reads all "
                   "rows; decoding is local",
                   ""},
    [MIXED] = {"info", "some matrices are read from both near and far memory in long prompts",
               "the engine divides by tokens where a prompt has more of them than the matrix has "
               "rows",
               ""},
};

void nm_shard_say_noted(void) {
    for (int i = 0; i < NOTES; ++i) {
        if (!atomic_load_explicit(&noted[i], memory_order_relaxed)) continue;
        if (!atomic_exchange(&said[i], true))
            nm_note(texts[i].level, texts[i].what, texts[i].why, texts[i].remedy);
    }
}
