/*
 * Test only. Preloaded beside the shim, it makes the mirrored bytes of the primary unreadable as
 * soon as their replicas stand, and books who touches them all the same.
 *
 * A page is booked at its first access and readable again from then on: the engine goes on, and
 * its output can still be compared. At exit a JSON object goes to the file named in POISON_REPORT:
 *   {"extents": 1, "bytes": 4096, "gave_up": 0, "armed_at": 12.5,
 *    "reads": [{"pages": 1, "chain": ["innermost function", "its caller", ...]}], "writes": [...]}
 * The file is written by the one process in which something was mirrored. armed_at: when the last
 * extent became unreadable, in seconds of CLOCK_MONOTONIC. gave_up counts extents that became
 * readable as a whole, because the process ran out of mappings. POISON_SETTLED: a file that is made
 * when some are unreadable and a further look found no more. POISON_AT_INTERRUPT: set for programs
 * that only a SIGINT ends.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define MAX_EXTENTS 16384
#define MAX_CHAINS 1024
#define CHAIN_DEPTH 8
#define POLL_NS (10 * 1000 * 1000)

typedef void visit_fn(void *ctx, const void *start, size_t bytes);
typedef int extents_fn(visit_fn *visit, void *ctx);

/* Whole pages of one mirrored extent. `touched` has a flag per page. */
struct extent {
    uintptr_t start, end;
    int protection;
    atomic_uchar *touched;
};

struct chain {
    void *frame[CHAIN_DEPTH];
    bool is_write;
    unsigned pages;
};

static struct extent extents[MAX_EXTENTS];
static atomic_size_t extent_count;
static struct chain chains[MAX_CHAINS];
static size_t chain_count;
static atomic_flag chains_lock = ATOMIC_FLAG_INIT;
static atomic_uint gave_up;
static double armed_at;
static struct sigaction previous_action;
static extents_fn *shim_extents;
static uintptr_t page_bytes;

/* ---- who touched it ------------------------------------------------------------------------ */

static void *fault_address(const ucontext_t *context) {
#if defined(__x86_64__)
    return (void *)context->uc_mcontext.gregs[REG_RIP];
#else
    return (void *)context->uc_mcontext.pc;
#endif
}

/* Bit 1 of the x86 page fault error code. Elsewhere every access counts as a read. */
static bool was_write(const ucontext_t *context) {
#if defined(__x86_64__)
    return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    (void)context;
    return false;
#endif
}

/* The callers of the faulting instruction, without the frames of the signal itself. */
static struct chain chain_of(const ucontext_t *context) {
    void *frames[CHAIN_DEPTH + 8];
    int count = backtrace(frames, CHAIN_DEPTH + 8);
    int first = 0;
    struct chain chain = {.is_write = was_write(context), .pages = 1};

    while (first < count && frames[first] != fault_address(context)) first++;
    chain.frame[0] = fault_address(context);
    for (int i = 1; i < CHAIN_DEPTH && first + i < count; i++) chain.frame[i] = frames[first + i];
    return chain;
}

static void book(const struct chain *seen) {
    size_t i = 0;

    while (atomic_flag_test_and_set(&chains_lock)) {
    }
    while (i < chain_count && (chains[i].is_write != seen->is_write ||
                               memcmp(chains[i].frame, seen->frame, sizeof seen->frame) != 0))
        i++;
    if (i < chain_count) {
        chains[i].pages++;
    } else {
        if (i == MAX_CHAINS) {
            static const char full[] = "poison: more call chains than fit\n";
            (void)!write(STDERR_FILENO, full, sizeof full - 1);
            abort();
        }
        chains[chain_count++] = *seen;
    }
    atomic_flag_clear(&chains_lock);
}

/* ---- poisoned pages ------------------------------------------------------------------------ */

static struct extent *extent_at(uintptr_t address) {
    size_t count = atomic_load(&extent_count);

    for (size_t i = 0; i < count; i++)
        if (address >= extents[i].start && address < extents[i].end) return &extents[i];
    return NULL;
}

static void make_readable(struct extent *extent, uintptr_t page) {
    if (mprotect((void *)page, page_bytes, extent->protection) == 0) return;
    atomic_fetch_add(&gave_up, 1);
    mprotect((void *)extent->start, extent->end - extent->start, extent->protection);
}

static void on_fault(int signal_number, siginfo_t *info, void *opaque) {
    uintptr_t page = (uintptr_t)info->si_addr & ~(page_bytes - 1);
    struct extent *extent = extent_at(page);
    const ucontext_t *context = opaque;

    if (extent == NULL) { /* not ours: let it happen again under the previous action */
        sigaction(signal_number, &previous_action, NULL);
        return;
    }
    if (atomic_exchange(&extent->touched[(page - extent->start) / page_bytes], 1) == 0) {
        struct chain chain = chain_of(context);
        book(&chain);
    }
    make_readable(extent, page);
}

static int protection_of(uintptr_t address) {
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end;
    char line[512], mode[8];
    int protection = 0;

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) == 3 && address >= start &&
            address < end) {
            protection |= mode[0] == 'r' ? PROT_READ : 0;
            protection |= mode[1] == 'w' ? PROT_WRITE : 0;
            break;
        }
    }
    if (maps != NULL) fclose(maps);
    return protection;
}

/* ---- what the shim has mirrored ------------------------------------------------------------ */

struct range {
    uintptr_t start, end;
};

struct found {
    struct range range[MAX_EXTENTS];
    size_t count;
};

/* Only collects: the shim may hold a lock while it visits. */
static void note_extent(void *opaque, const void *start, size_t bytes) {
    struct found *found = opaque;
    uintptr_t first = ((uintptr_t)start + page_bytes - 1) & ~(page_bytes - 1);
    uintptr_t end = ((uintptr_t)start + bytes) & ~(page_bytes - 1);

    if (first < end && found->count < MAX_EXTENTS)
        found->range[found->count++] = (struct range){first, end};
}

static double monotonic_seconds(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void poison(struct range range) {
    size_t count = atomic_load(&extent_count);
    size_t pages = (range.end - range.start) / page_bytes;
    struct extent *extent = &extents[count];
    void *touched;

    if (count == MAX_EXTENTS || extent_at(range.start) != NULL || extent_at(range.end - 1) != NULL)
        return;
    touched = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (touched == MAP_FAILED) return;
    *extent = (struct extent){range.start, range.end, protection_of(range.start), touched};
    atomic_store(&extent_count, count + 1);
    mprotect((void *)range.start, range.end - range.start, PROT_NONE);
    armed_at = monotonic_seconds();
}

static void say_settled(void) {
    const char *path = getenv("POISON_SETTLED");
    int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd >= 0) close(fd);
}

static void *poison_what_gets_mirrored(void *unused) {
    static struct found found;
    const struct timespec interval = {.tv_nsec = POLL_NS};
    bool settled = false;

    (void)unused;
    for (;;) {
        size_t before = atomic_load(&extent_count);

        found.count = 0;
        shim_extents(note_extent, &found);
        for (size_t i = 0; i < found.count; i++) poison(found.range[i]);
        if (!settled && before > 0 && atomic_load(&extent_count) == before) {
            settled = true;
            say_settled();
        }
        nanosleep(&interval, NULL);
    }
    return NULL;
}

/* ---- begin and end ------------------------------------------------------------------------- */

static void start_thread(void) {
    pthread_t thread;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals stay with the program's threads */
    if (pthread_create(&thread, NULL, poison_what_gets_mirrored, NULL) == 0) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A server without an end of its own is ended by a signal: its report is to be written, too. Only
 * where it is asked for: a program that finds a handler there may leave it and set none. */
static void on_interrupt(int signal_number) { exit(128 + signal_number); }

__attribute__((constructor)) static void begin(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    void *warm_up[2];

    shim_extents = (extents_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "numamirror_test_extents");
    if (shim_extents == NULL || getenv("POISON_REPORT") == NULL) return;
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    backtrace(warm_up, 2); /* loads the unwinder outside the handler */
    sigaction(SIGSEGV, &action, &previous_action);
    if (getenv("POISON_AT_INTERRUPT") != NULL) signal(SIGINT, on_interrupt);
    start_thread();
}

static void print_frame(FILE *out, void *frame, bool is_innermost) {
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    uintptr_t address = (uintptr_t)frame - (is_innermost ? 0 : 1); /* inside the call */
    const char *file;

    if (!dladdr1((void *)address, &info, (void **)&symbol, RTLD_DL_SYMENT)) {
        fprintf(out, "\"%p\"", frame);
        return;
    }
    if (symbol != NULL && address < (uintptr_t)info.dli_saddr + symbol->st_size) {
        fprintf(out, "\"%s\"", info.dli_sname);
        return;
    }
    file = strrchr(info.dli_fname, '/');
    fprintf(out, "\"%s+0x%zx\"", file != NULL ? file + 1 : info.dli_fname,
            (size_t)(address - (uintptr_t)info.dli_fbase));
}

static void print_chains(FILE *out, bool writes) {
    const char *separator = "";

    for (size_t i = 0; i < chain_count; i++) {
        if (chains[i].is_write != writes) continue;
        fprintf(out, "%s{\"pages\": %u, \"chain\": [", separator, chains[i].pages);
        for (int k = 0; k < CHAIN_DEPTH && chains[i].frame[k] != NULL; k++) {
            fputs(k > 0 ? ", " : "", out);
            print_frame(out, chains[i].frame[k], k == 0);
        }
        fputs("]}", out);
        separator = ", ";
    }
}

__attribute__((destructor)) static void end(void) {
    size_t count = atomic_load(&extent_count), bytes = 0;
    FILE *out = count > 0 ? fopen(getenv("POISON_REPORT"), "w") : NULL;

    if (out == NULL) return;
    for (size_t i = 0; i < count; i++) bytes += extents[i].end - extents[i].start;
    fprintf(out,
            "{\"extents\": %zu, \"bytes\": %zu, \"gave_up\": %u, \"armed_at\": %f, \"reads\": [",
            count, bytes, atomic_load(&gave_up), armed_at);
    print_chains(out, false);
    fputs("], \"writes\": [", out);
    print_chains(out, true);
    fputs("]}\n", out);
    fclose(out);
}
