/*
 * Test only: a program that plays shim and engine at once, to show that poison.c books what is
 * read and nothing else. argv[1]: pages that are read, argv[2]: pages that are written.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGES 64

static char *weights;
static size_t page;

__attribute__((visibility("default"))) int numamirror_test_extents(
    void (*visit)(void *ctx, const void *start, size_t bytes), void *ctx) {
    if (weights == NULL) return 0;
    visit(ctx, weights + 1, PAGES * page - 2); /* the first and the last page are not whole */
    return 1;
}

__attribute__((noinline, visibility("default"))) long stand_in_reads(size_t pages) {
    volatile char *bytes = weights;
    long sum = 0;

    for (size_t i = 0; i < pages * page; i++) sum += bytes[page + i];
    return sum;
}

__attribute__((noinline, visibility("default"))) void stand_in_writes(size_t pages) {
    for (size_t i = 0; i < pages; i++) ((volatile char *)weights)[(PAGES / 2 + i) * page] = 2;
}

/* The kernel reads a byte for us, and says EFAULT instead of sending a signal. */
static void wait_until_poisoned(void) {
    const struct timespec interval = {.tv_nsec = 10 * 1000 * 1000};
    int ends[2];

    if (pipe(ends) != 0) return;
    for (int i = 0; i < 3000 && write(ends[1], weights + (PAGES - 2) * page, 1) == 1; i++)
        nanosleep(&interval, NULL);
}

int main(int argc, char **argv) {
    size_t reads = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    size_t writes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    char *memory;

    page = (size_t)sysconf(_SC_PAGESIZE);
    memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    memset(memory, 1, PAGES * page);
    weights = memory;
    wait_until_poisoned();
    stand_in_writes(writes);
    return stand_in_reads(reads) == (long)(reads * page) ? 0 : 1;
}
