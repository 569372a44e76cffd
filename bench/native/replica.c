/* How fast replicas are filled, against plain ways of copying, from three kinds of source.
 *
 *     replica SOURCE ROUNDS MIB [FILE [random]]
 *
 * SOURCE: anonymous, cached (FILE mapped and in the page cache), cold (FILE mapped, dropped from
 * the cache before each copy). random: the mapping has MADV_RANDOM, as engines give it under
 * --numa; ways that would fault its pages one by one are then left out but for the first. Each
 * round copies with every way once, each round beginning with another; prints
 * "way<TAB>GiB/s<TAB>GiB for each second of CPU time". */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"
#include "config.h"
#include "copies.h"
#include "fill.h"

enum { PIECES = 16, PAGE = 4096, BLOCK = 1 << 20 };

static bool cold, random_access;

static void fail(const char *what) {
    fprintf(stderr, "replica: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- sources ---- */

static void map_source(struct source *s) {
    int flags = s->file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    int rights = s->file < 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    s->start = mmap(NULL, s->bytes, rights, flags, s->file, 0);
    if (s->start == MAP_FAILED) fail("mmap");
    if (random_access) madvise(s->start, s->bytes, MADV_RANDOM);
}

static void touch(const struct source *s) {
    if (s->file < 0) memset(s->start, 'w', s->bytes);
    for (size_t i = 0; i < s->bytes; i += PAGE) (void)*(volatile char *)(s->start + i);
}

static size_t cached_pages(const struct source *s) {
    size_t pages = s->bytes / PAGE, cached = 0;
    unsigned char *resident = malloc(pages);
    if (resident == NULL || mincore(s->start, s->bytes, resident) != 0) fail("mincore");
    for (size_t i = 0; i < pages; ++i) cached += resident[i] & 1;
    free(resident);
    return cached;
}

/* A page that is mapped or dirty stays in the cache: the file is mapped anew. */
static void cool(struct source *s) {
    munmap(s->start, s->bytes);
    int error = posix_fadvise(s->file, 0, 0, POSIX_FADV_DONTNEED);
    map_source(s);
    if (error == 0 && cached_pages(s) == 0) return;
    fprintf(stderr, "replica: the file could not be dropped from the page cache\n");
    exit(1);
}

/* The host of a virtual machine takes free pages back, and to get them again can cost more than
 * to copy them: as much memory as each way will need is used and freed right before. */
static void make_ready(struct source *s) {
    char *room = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) fail("mmap");
    madvise(room, s->bytes, MADV_HUGEPAGE);
    memset(room, 'r', s->bytes);
    for (size_t at = 0; cold && at < s->bytes; at += BLOCK)
        if (pread(s->file, room + at, BLOCK, (off_t)at) <= 0) fail("pread");
    munmap(room, s->bytes);
    if (cold) cool(s);
}

static struct source open_source(int argc, char **argv) {
    struct source s = {.bytes = (size_t)atol(argv[3]) << 20, .file = -1};
    cold = strcmp(argv[1], "cold") == 0;
    random_access = argc > 5 && strcmp(argv[5], "random") == 0;
    if (argc > 4 && (s.file = open(argv[4], O_RDONLY)) < 0) fail(argv[4]);
    map_source(&s);
    if (cold)
        fsync(s.file);
    else
        touch(&s);
    return s;
}

/* ---- ways ---- */

static void no_progress(size_t index, size_t done) { (void)index, (void)done; }

/* As the shim does it: an arena of huge pages, filled piece by piece. */
static struct nm_arena *as_replica(const struct source *s) {
    struct nm_arena *arena = nm_arena_new(0, nm_arena_need(s->bytes, PIECES));
    if (arena == NULL) fail("nm_arena_new");
    struct nm_piece pieces[PIECES];
    size_t part = s->bytes / PIECES;
    for (size_t i = 0; i < PIECES; ++i) {
        const char *from = s->start + i * part;
        pieces[i] = (struct nm_piece){from, nm_arena_take(arena, from, part), part};
    }
    nm_arena_end_small(arena);
    struct nm_fill fill = {.copy = 0, .pieces = pieces, .count = PIECES, .bytes = s->bytes};
    nm_fill_run(&fill, 1, no_progress);
    return arena;
}

static void report(const char *way, const struct source *s, const char *copy, double seconds,
                   double cpu_seconds) {
    for (size_t i = 0; i < s->bytes; i += 61 * PAGE)
        if (s->start[i] != copy[i]) {
            fprintf(stderr, "replica: %s: byte %zu differs\n", way, i);
            exit(1);
        }
    double gib = (double)s->bytes / (1 << 30);
    printf("%s\t%.4f\t%.4f\n", way, gib / seconds, gib / cpu_seconds);
    fflush(stdout);
}

/* Way 0 is the replica. */
static void measure(struct source *s, size_t index) {
    const struct way *way = index > 0 ? &bench_ways[index - 1] : NULL;
    if (way != NULL && way->of_file && s->file < 0) return;
    if (way != NULL && !way->of_file && random_access && index > 1) return;
    make_ready(s);
    double cpu_begun = now(CLOCK_PROCESS_CPUTIME_ID), begun = now(CLOCK_MONOTONIC);
    struct nm_arena *arena = way == NULL ? as_replica(s) : NULL;
    char *copy = way == NULL ? arena->start : way->copy(s);
    double took = now(CLOCK_MONOTONIC) - begun, cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun;
    report(way == NULL ? "replica" : way->name, s, copy, took, cpu);
    if (way == NULL)
        nm_arena_free(arena);
    else
        munmap(copy, s->bytes);
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: replica SOURCE ROUNDS MIB [FILE [random]]\n"), 2;
    nm_config.rehearsal = nm_config.copies = 1; /* no policy calls; two threads */
    struct source source = open_source(argc, argv);
    size_t ways = bench_way_count + 1;
    for (size_t round = 0; round < (size_t)atol(argv[2]); ++round)
        for (size_t i = 0; i < ways; ++i) measure(&source, (round + i) % ways);
    return 0;
}
