#include "fill.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "page_size.h"
#include "read_in.h"
#include "sys.h"

enum { CHUNK = 4 << 20, MAX_THREADS = 16, COPY_BLOCK = 256 << 10 };

struct work {
    struct nm_fill *fill;
    const struct nm_read_in *files;
    _Atomic size_t next; /* chunk to take */
    _Atomic size_t done; /* bytes */
    _Atomic int affinity_error;
    size_t *first_chunk; /* per piece, the number of its first chunk; count + 1 entries */
    unsigned running;    /* under `crew.lock` */
    uint64_t started;
    pthread_t threads[MAX_THREADS];
    unsigned thread_count;
    struct crew *crew;
};

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned running;
};

static size_t chunks_of(const struct nm_piece *piece) { return (piece->bytes + CHUNK - 1) / CHUNK; }

/* The part of a piece that a chunk is; the piece is found by bisection. */
static struct nm_piece chunk_at(const struct work *work, size_t chunk) {
    size_t low = 0, high = work->fill->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (work->first_chunk[middle] <= chunk)
            low = middle;
        else
            high = middle;
    }
    const struct nm_piece *piece = &work->fill->pieces[low];
    size_t offset = (chunk - work->first_chunk[low]) * CHUNK, rest = piece->bytes - offset;
    return (struct nm_piece){piece->from + offset, piece->to + offset, rest < CHUNK ? rest : CHUNK};
}

/* What a thread needs to copy from a file. */
struct reader {
    const struct nm_read_in *files;
    char *scratch;
    bool has_policy;
    struct nm_policy inherited; /* the page cache is the primary: it goes where the engine's does */
};

/* Where mbind was refused, a page lands on the node of the thread that touches it first, unless the
 * thread has inherited the policy for the home node. */
static int go_to_node(int copy, struct reader *reader) {
    if (nm_config.rehearsal != 0) return 0;
    reader->has_policy = nm_get_policy(&reader->inherited) == 0 && nm_default_policy() == 0;
    return nm_run_on_copy(nm_config.copy_of_cpu, NM_MAX_CPUS, copy);
}

/* While a thread has the engine's policy for the page cache, the kernel must not need new pages of
 * the replica: where mbind was refused, they would follow it. */
static void touch(char *start, size_t bytes) {
    for (size_t at = 0; at < bytes; at += nm_page_bytes()) *(volatile char *)(start + at) = 0;
    *(volatile char *)(start + bytes - 1) = 0;
}

static bool read_file(struct reader *reader, const struct nm_read_file *file, const char *start,
                      size_t bytes, char *to) {
    if (reader->has_policy) {
        touch(to, bytes);
        nm_set_policy(&reader->inherited);
    }
    bool complete = nm_read_in(file, start, bytes, to);
    if (reader->has_policy) nm_default_policy();
    return complete;
}

/* By way of the mapping, block by block: what was just read is still in the processor's cache when
 * it is copied. */
static void copy_by_mapping(struct reader *reader, const struct nm_piece *piece,
                            const struct nm_read_file *file) {
    for (size_t at = 0; at < piece->bytes; at += NM_READ_BLOCK) {
        size_t rest = piece->bytes - at, bytes = rest < NM_READ_BLOCK ? rest : NM_READ_BLOCK;
        read_file(reader, file, piece->from + at, bytes, reader->scratch);
        memcpy(piece->to + at, piece->from + at, bytes);
    }
}

/* Straight to the replica where the file is known to hold the weight's bytes, be it in the page
 * cache or not: no page of the mapping is faulted in, and the kernel goes on reading ahead. */
static void copy_from_file(struct reader *reader, const struct nm_piece *piece,
                           const struct nm_read_file *file) {
    if (!file->shows_all || !read_file(reader, file, piece->from, piece->bytes, piece->to))
        copy_by_mapping(reader, piece, file);
}

/* memcpy of more than a part of the cache passes it by with streaming stores. Pages that the kernel
 * has only just cleared are still there: onto those, ordinary stores were a tenth faster. */
static void copy_memory(const struct nm_piece *piece) {
    for (size_t at = 0; at < piece->bytes; at += COPY_BLOCK) {
        size_t rest = piece->bytes - at;
        memcpy(piece->to + at, piece->from + at, rest < COPY_BLOCK ? rest : COPY_BLOCK);
    }
}

static void copy_chunk(struct work *work, size_t chunk, struct reader *reader) {
    struct nm_piece piece = chunk_at(work, chunk);
    const struct nm_read_file *file =
        reader->scratch == NULL ? NULL : nm_read_in_file(reader->files, piece.from, piece.bytes);
    if (file != NULL && (file->shows_all || nm_read_in_needed(file, piece.from, piece.bytes)))
        copy_from_file(reader, &piece, file);
    else
        copy_memory(&piece);
    atomic_fetch_add_explicit(&work->done, piece.bytes, memory_order_relaxed);
}

static void copy_all(struct work *work, struct reader *reader) {
    size_t total = work->first_chunk[work->fill->count], chunk;
    reader->files = work->files;
    reader->scratch = work->files->count > 0 ? malloc(NM_READ_BLOCK) : NULL;
    while ((chunk = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed)) < total)
        copy_chunk(work, chunk, reader);
    free(reader->scratch);
}

static void *copy_on_node(void *argument) {
    struct work *work = argument;
    struct reader reader = {0};
    int error = go_to_node(work->fill->copy, &reader);
    if (error != 0) atomic_store(&work->affinity_error, error);
    copy_all(work, &reader);
    struct crew *crew = work->crew;
    pthread_mutex_lock(&crew->lock);
    if (--work->running == 0) work->fill->ns = nm_clock_ns(CLOCK_MONOTONIC) - work->started;
    --crew->running;
    pthread_cond_signal(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static unsigned threads_for(const struct nm_fill *fill) {
    size_t cpus = nm_config.rehearsal != 0 ? 2 : (size_t)nm_config.copy[fill->copy].cpu_count;
    size_t useful = fill->bytes / CHUNK + 1;
    if (cpus > useful) cpus = useful;
    return cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : (unsigned)cpus;
}

static void count_chunks(struct work *work) {
    size_t chunk = 0;
    for (size_t i = 0; i < work->fill->count; ++i) {
        work->first_chunk[i] = chunk;
        chunk += chunks_of(&work->fill->pieces[i]);
    }
    work->first_chunk[work->fill->count] = chunk;
}

static void start(struct work *work, struct crew *crew) {
    work->crew = crew;
    work->started = nm_clock_ns(CLOCK_MONOTONIC);
    unsigned wanted = threads_for(work->fill);
    for (unsigned i = 0; i < wanted; ++i) {
        pthread_mutex_lock(&crew->lock);
        ++work->running;
        ++crew->running;
        pthread_mutex_unlock(&crew->lock);
        if (pthread_create(&work->threads[work->thread_count], NULL, copy_on_node, work) == 0) {
            ++work->thread_count;
            continue;
        }
        pthread_mutex_lock(&crew->lock);
        --work->running;
        --crew->running;
        pthread_mutex_unlock(&crew->lock);
        break;
    }
    work->fill->threads = work->thread_count;
}

static void report(struct work *works, size_t count, void (*progress)(size_t, size_t)) {
    for (size_t i = 0; i < count; ++i)
        progress(i, atomic_load_explicit(&works[i].done, memory_order_relaxed));
}

static void wait_for(struct crew *crew, struct work *works, size_t count,
                     void (*progress)(size_t, size_t)) {
    pthread_mutex_lock(&crew->lock);
    while (crew->running > 0) {
        struct timespec until = nm_clock_in_100_ms(CLOCK_MONOTONIC);
        if (pthread_cond_timedwait(&crew->changed, &crew->lock, &until) == 0) continue;
        pthread_mutex_unlock(&crew->lock);
        report(works, count, progress);
        pthread_mutex_lock(&crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
}

static void finish(struct work *work) {
    for (unsigned i = 0; i < work->thread_count; ++i) pthread_join(work->threads[i], NULL);
    if (work->thread_count == 0) { /* no thread could be had: copy here */
        struct reader reader = {0};
        copy_all(work, &reader);
        work->fill->ns = nm_clock_ns(CLOCK_MONOTONIC) - work->started;
    }
    work->fill->affinity_error = atomic_load(&work->affinity_error);
    free(work->first_chunk);
}

/* Without memory for the bookkeeping: piece by piece, here and now. */
static void fill_plainly(struct nm_fill *fills, size_t count) {
    for (size_t i = 0; i < count; ++i)
        for (size_t k = 0; k < fills[i].count; ++k)
            memcpy(fills[i].pieces[k].to, fills[i].pieces[k].from, fills[i].pieces[k].bytes);
}

/* The files that the pieces of all fills lie in. */
static void open_files(struct nm_read_in *files, const struct nm_fill *fills, size_t count) {
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (size_t i = 0; i < count; ++i)
        for (size_t k = 0; k < fills[i].count; ++k) {
            uintptr_t start = (uintptr_t)fills[i].pieces[k].from;
            uintptr_t end = start + fills[i].pieces[k].bytes;
            if (start < low) low = start;
            if (end > high) high = end;
        }
    nm_read_in_open(files, low, high);
}

void nm_fill_run(struct nm_fill *fills, size_t count, void (*progress)(size_t, size_t)) {
    struct work *works = calloc(count, sizeof *works);
    bool ready = works != NULL;
    for (size_t i = 0; ready && i < count; ++i) {
        works[i].fill = &fills[i];
        works[i].first_chunk = calloc(fills[i].count + 1, sizeof(size_t));
        ready = works[i].first_chunk != NULL;
    }
    if (!ready) {
        for (size_t i = 0; works != NULL && i < count; ++i) free(works[i].first_chunk);
        free(works);
        fill_plainly(fills, count);
        return;
    }
    struct nm_read_in files;
    open_files(&files, fills, count);
    struct crew crew = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&crew.changed, &clock);
    pthread_condattr_destroy(&clock);

    sigset_t all, before; /* the engine's signals stay with the engine's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < count; ++i) {
        works[i].files = &files;
        count_chunks(&works[i]);
        start(&works[i], &crew);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    wait_for(&crew, works, count, progress);
    for (size_t i = 0; i < count; ++i) finish(&works[i]);
    pthread_cond_destroy(&crew.changed);
    pthread_mutex_destroy(&crew.lock);
    nm_read_in_close(&files);
    free(works);
}
