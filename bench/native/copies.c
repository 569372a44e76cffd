#include "copies.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { HUGE_PAGE = 2 << 20, MAX_THREADS = 64 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static char *fresh_pages(size_t bytes, bool huge) {
    char *start =
        mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) fail("mmap");
    char *aligned = (char *)(((uintptr_t)start + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    size_t head = (size_t)(aligned - start);
    if (head > 0) munmap(start, head);
    if (head < HUGE_PAGE) munmap(aligned + bytes, HUGE_PAGE - head);
    madvise(aligned, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return aligned;
}

/* ---- one thread ---- */

static char *one_thread(const struct source *s) {
    return memcpy(fresh_pages(s->bytes, false), s->start, s->bytes);
}

static char *one_thread_huge(const struct source *s) {
    return memcpy(fresh_pages(s->bytes, true), s->start, s->bytes);
}

/* ---- a thread for each CPU, and for each an equal part ---- */

struct part {
    const struct source *source;
    char *to;
    size_t offset, bytes;
    void (*copy)(const struct part *part);
    pthread_t thread;
};

static size_t cpus(void) {
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    return (size_t)(count > MAX_THREADS ? MAX_THREADS : count);
}

static void *copy_part(void *argument) {
    struct part *part = argument;
    part->copy(part);
    return NULL;
}

static char *in_parts(const struct source *s, void (*copy)(const struct part *)) {
    char *to = fresh_pages(s->bytes, true);
    struct part parts[MAX_THREADS];
    size_t count = cpus(), share = s->bytes / count / HUGE_PAGE * HUGE_PAGE;
    for (size_t i = 0; i < count; ++i) {
        size_t at = i * share, bytes = i + 1 < count ? share : s->bytes - at;
        parts[i] = (struct part){s, to + at, at, bytes, copy, 0};
        if (pthread_create(&parts[i].thread, NULL, copy_part, &parts[i]) != 0)
            fail("pthread_create");
    }
    for (size_t i = 0; i < count; ++i) pthread_join(parts[i].thread, NULL);
    return to;
}

static void plain(const struct part *part) {
    memcpy(part->to, part->source->start + part->offset, part->bytes);
}

static void populated(const struct part *part) {
#ifdef MADV_POPULATE_WRITE
    madvise(part->to, part->bytes, MADV_POPULATE_WRITE);
#endif
    plain(part);
}

#if defined(__x86_64__)
/* Stores that pass the caches by. */
__attribute__((target("avx2"))) static void streaming(const struct part *part) {
    const char *from = part->source->start + part->offset;
    for (size_t i = 0; i < part->bytes; i += 128) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(from + i));
        __m256i b = _mm256_loadu_si256((const __m256i *)(from + i + 32));
        __m256i c = _mm256_loadu_si256((const __m256i *)(from + i + 64));
        __m256i d = _mm256_loadu_si256((const __m256i *)(from + i + 96));
        _mm256_stream_si256((__m256i *)(part->to + i), a);
        _mm256_stream_si256((__m256i *)(part->to + i + 32), b);
        _mm256_stream_si256((__m256i *)(part->to + i + 64), c);
        _mm256_stream_si256((__m256i *)(part->to + i + 96), d);
    }
    _mm_sfence();
}
#endif

static void read_into(const struct part *part, int file) {
    enum { BLOCK = 4 << 20 };
    for (size_t done = 0; done < part->bytes;) {
        size_t wanted = part->bytes - done < BLOCK ? part->bytes - done : BLOCK;
        ssize_t got = pread(file, part->to + done, wanted, (off_t)(part->offset + done));
        if (got <= 0) fail("pread");
        done += (size_t)got;
    }
}

static void reading(const struct part *part) { read_into(part, part->source->file); }

static void reading_past_the_cache(const struct part *part) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", part->source->file);
    int file = open(path, O_RDONLY | O_DIRECT);
    if (file < 0) fail("O_DIRECT");
    read_into(part, file);
    close(file);
}

static char *all_threads(const struct source *s) { return in_parts(s, plain); }
static char *all_populated(const struct source *s) { return in_parts(s, populated); }
static char *all_reading(const struct source *s) { return in_parts(s, reading); }
static char *all_direct(const struct source *s) { return in_parts(s, reading_past_the_cache); }
#if defined(__x86_64__)
static char *all_streaming(const struct source *s) { return in_parts(s, streaming); }
#endif

const struct way bench_ways[] = {
    {"one thread", false, one_thread},
    {"one thread, huge pages", false, one_thread_huge},
    {"all threads", false, all_threads},
    {"all threads, populated first", false, all_populated},
#if defined(__x86_64__)
    {"all threads, streaming stores", false, all_streaming},
#endif
    {"all threads, read", true, all_reading},
    {"all threads, read past the cache", true, all_direct},
};
const size_t bench_way_count = sizeof bench_ways / sizeof *bench_ways;
