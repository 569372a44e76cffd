/* Long work on pages: threads that take turns, and how far it is told to be. */
#include <stdatomic.h>
#include <sys/mman.h>

#include "config.h"
#include "heal.h"
#include "heard.h"
#include "moving.h"
#include "sys.h"

enum { TURNS = 10000, WORKERS = 4 };

static struct worker {
    _Atomic size_t *next;
    size_t taken, sum;
} workers[WORKERS];

static void take_turns(void *worker) {
    struct worker *w = worker;
    size_t turn;
    while ((turn = atomic_fetch_add(w->next, 1)) < TURNS) {
        ++w->taken;
        w->sum += turn;
    }
}

static void every_turn_is_taken_once(void) {
    _Atomic size_t next = 0;
    size_t taken = 0, sum = 0;
    for (int i = 0; i < WORKERS; ++i) workers[i] = (struct worker){.next = &next};
    nm_move_together(take_turns, workers, sizeof *workers, WORKERS);
    for (int i = 0; i < WORKERS; ++i) {
        taken += workers[i].taken;
        sum += workers[i].sum;
    }
    CHECK(taken == TURNS);
    CHECK(sum == (size_t)TURNS * (TURNS - 1) / 2);
}

static void there_is_a_thread_for_each_copy_within_bounds(void) {
    static const struct {
        int copies;
        unsigned movers;
    } cases[] = {{0, 1}, {1, 1}, {2, 2}, {8, 8}, {64, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        nm_config.copies = cases[i].copies;
        CHECK(nm_movers() == cases[i].movers);
    }
}

/* Nothing here waits. */
static void as_if_it_took(struct nm_progress *progress, unsigned milliseconds) {
    progress->said_ns -= milliseconds * 1000000ull;
}

static void short_work_is_not_told_of(void) {
    struct nm_progress progress;
    nm_progress_begin(&progress, 1000);
    progress.said_ns += 3600ull * 1000000000; /* however busy this machine is */
    nm_progress_add(&progress, 1000);
    nm_progress_end(&progress);
    CHECK(times_said("\"placing\"") == 0);
}

static void long_work_is_told_of_until_its_end(void) {
    struct nm_progress progress;
    nm_progress_begin(&progress, 1000);
    as_if_it_took(&progress, 150);
    nm_progress_add(&progress, 300);
    CHECK(times_said("\"event\":\"placing\",\"done_bytes\":300,\"bytes\":1000") == 1);
    as_if_it_took(&progress, 150);
    nm_progress_add(&progress, 4000); /* pages hold more than weights */
    nm_progress_end(&progress);
    CHECK(times_said("\"event\":\"placing\",\"done_bytes\":1000,\"bytes\":1000") == 1);
}

static void work_that_is_given_up_ends_its_bar(void) {
    struct nm_progress progress;
    nm_progress_begin(&progress, 2000);
    as_if_it_took(&progress, 150);
    nm_progress_add(&progress, 100);
    nm_progress_end(&progress);
    CHECK(times_said("\"event\":\"placing\",\"done_bytes\":2000,\"bytes\":2000") == 1);
}

/* Of a machine with one node, where they are already. */
static void pages_of_several_ranges_are_each_asked_for_once(void) {
    enum { PAGE = 4096, FIRST = 40000 * PAGE, SECOND = 100 * PAGE };
    char *start =
        mmap(NULL, FIRST + SECOND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    madvise(start, FIRST + SECOND, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < FIRST + SECOND; at += PAGE) start[at] = 'w';
    void *page[] = {start};
    int status[1], allowed = nm_move_pages(1, page, NULL, status) == 0 && status[0] == 0;
    struct nm_range ranges[] = {{start, FIRST}, {start + FIRST, SECOND}};
    nm_config.copies = WORKERS;
    struct nm_healing healing = nm_heal(ranges, 2, 0, 50 * PAGE);
    if (allowed) CHECK(healing.pages == 40100 && healing.there == 40100 && healing.error == 0);
    /* A replica's, when its second arena lies below its first. */
    struct nm_range falling[] = {{start + FIRST, SECOND}, {start, FIRST}};
    healing = nm_heal(falling, 2, 0, 50 * PAGE);
    if (allowed) CHECK(healing.pages == 40100 && healing.there == 40100 && healing.error == 0);
    struct nm_range shared[] = {{start, PAGE / 2}, {start + PAGE / 2, PAGE}};
    CHECK(nm_heal(shared, 2, 0, 0).pages == 2);
    munmap(start, FIRST + SECOND);
}

int main(void) {
    nm_config.log = true;
    listen_to_the_shim();
    RUN(every_turn_is_taken_once);
    RUN(there_is_a_thread_for_each_copy_within_bounds);
    RUN(short_work_is_not_told_of);
    RUN(long_work_is_told_of_until_its_end);
    RUN(work_that_is_given_up_ends_its_bar);
    RUN(pages_of_several_ranges_are_each_asked_for_once);
    return 0;
}
