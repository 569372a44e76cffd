/* Entries of the status page for threads that compute: given back at a thread's end, and said to
 * have run out where they did. */
#include <pthread.h>

#include "check.h"
#include "status.h"
#include "thread.h"

static void *read_a_byte(void *argument) {
    ++nm_thread_counts()->other_bytes;
    return argument;
}

static void compute_in_a_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, read_a_byte, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static uint64_t bytes_told(void) {
    uint64_t sum = nm_status->retired[NM_MAX_COPIES].other_bytes;
    for (uint32_t i = 0; i < nm_status->threads; ++i) sum += nm_status->thread[i].other_bytes;
    return sum;
}

static void more_threads_than_entries_are_counted_one_after_the_other(void) {
    for (int i = 0; i < NM_MAX_THREADS + 10; ++i) compute_in_a_thread();
    CHECK(bytes_told() == NM_MAX_THREADS + 10);
    CHECK(nm_status->threads == 1 && nm_status->uncounted == 0);
}

/* As they are when so many threads are there at once. */
static void take_all_entries(void) {
    for (int i = 0; i < NM_MAX_THREADS; ++i) nm_status->thread[i].tid = 1;
}

static void a_thread_that_finds_no_entry_is_said_to_be_counted_for_nobody(void) {
    uint64_t before = bytes_told();
    take_all_entries();
    compute_in_a_thread();
    CHECK(bytes_told() == before && nm_status->uncounted == 1);
    nm_status->thread[7].tid = 0;
    compute_in_a_thread();
    CHECK(bytes_told() == before + 1 && nm_status->uncounted == 1);
}

int main(void) {
    nm_thread_init();
    RUN(more_threads_than_entries_are_counted_one_after_the_other);
    RUN(a_thread_that_finds_no_entry_is_said_to_be_counted_for_nobody);
    return 0;
}
