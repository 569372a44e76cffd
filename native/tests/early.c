/* What another preloaded library may have done before the program begins; EARLY names it. Linked
 * behind the shim, and so started before it. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool told_to(const char *what) {
    const char *early = getenv("EARLY");
    return early != NULL && strcmp(early, what) == 0;
}

static void *wait_for_ever(void *unused) {
    for (;;) pause();
    return unused;
}

static void start_a_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0) abort();
}

/* ---- all addresses that a call in the program reaches are taken ---- */

struct span {
    uintptr_t start, end;
};

/* The loader names the program first. */
static int span_of_program(struct dl_phdr_info *info, size_t size, void *context) {
    struct span *span = context;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (start < span->start) span->start = start;
        if (start + info->dlpi_phdr[i].p_memsz > span->end)
            span->end = start + info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

static void take(uintptr_t start, uintptr_t end) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (start < end && mmap((void *)start, end - start, PROT_NONE, flags, -1, 0) == MAP_FAILED)
        abort();
}

static void take_what_lies_within_reach(void) {
    enum { MOST = 1024 };
    static struct span gap[MOST];
    struct span near = {.start = UINTPTR_MAX};
    dl_iterate_phdr(span_of_program, &near);
    const uintptr_t reach = (uintptr_t)1 << 31, lowest = 1 << 20;
    near.start = near.start > reach + lowest ? near.start - reach : lowest;
    near.end += reach;
    uintptr_t free_from = near.start & ~(uintptr_t)4095;
    int gaps = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    if (maps == NULL) abort();
    while (fgets(line, sizeof line, maps) != NULL) {
        char *at;
        uintptr_t start = strtoull(line, &at, 16), end = strtoull(at + 1, NULL, 16);
        if (start >= near.end || gaps == MOST) break;
        if (start > free_from) gap[gaps++] = (struct span){free_from, start};
        if (end > free_from) free_from = end;
    }
    fclose(maps);
    for (int i = 0; i < gaps; ++i) take(gap[i].start, gap[i].end);
    take(free_from, (near.end + 4095) & ~(uintptr_t)4095);
}

/* ---- a function of the program begins otherwise, with instructions that do nothing too ---- */

enum { NOPS = 8 }; /* bytes that the compiler is told to leave at the start of a function */

static void change_code(void) {
    static const unsigned char of_gcc[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90},
                               of_clang[] = {0x0F, 0x1F, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00},
                               others[] = {0x66, 0x90, 0x66, 0x90, 0x66, 0x90, 0x66, 0x90};
    unsigned char *code = dlsym(RTLD_DEFAULT, "ggml_graph_compute");
    if (code == NULL || (memcmp(code, of_gcc, NOPS) != 0 && memcmp(code, of_clang, NOPS) != 0))
        abort();
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)code & ~(page - 1);
    size_t bytes = (((uintptr_t)code + NOPS - 1) | (page - 1)) + 1 - first;
    if (mprotect((void *)first, bytes, PROT_READ | PROT_WRITE) != 0) abort();
    memcpy(code, others, NOPS);
    if (mprotect((void *)first, bytes, PROT_READ | PROT_EXEC) != 0) abort();
}

/* ---- memory runs out, as far as the shim asks for it by growing a list ---- */

void *realloc(void *old, size_t bytes) {
    static void *(*real)(void *, size_t);
    if (told_to("take memory")) return NULL;
    if (real == NULL) real = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    return real(old, bytes);
}

__attribute__((constructor)) static void come_early(void) {
    if (told_to("start a thread")) start_a_thread();
    if (told_to("take addresses")) take_what_lies_within_reach();
    if (told_to("change code")) change_code();
}
