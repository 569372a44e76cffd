/* A kernel with pages of 64 KiB, as aarch64 has: calls about memory name the start of one, or are
 * turned down. That kernel is played by what stands before the calls here; its pages are whole ones
 * of any smaller kernel too, so that the calls are made. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arena.h"
#include "check.h"
#include "config.h"
#include "heal.h"
#include "interleave.h"
#include "page_size.h"
#include "read_in.h"
#include "registry.h"

enum { PAGE = 64 << 10, BYTES = 16 * PAGE };

size_t nm_page_bytes(void) { return PAGE; }

static int calls, turned_down;
static size_t pages_moved;

static bool takes(const void *start) {
    ++calls;
    if ((uintptr_t)start % PAGE == 0) return true;
    ++turned_down;
    errno = EINVAL;
    return false;
}

int __real_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice) {
    return takes(start) ? __real_madvise(start, bytes, advice) : -1;
}

int __real_mincore(void *start, size_t bytes, unsigned char *there);
int __wrap_mincore(void *start, size_t bytes, unsigned char *there);
int __wrap_mincore(void *start, size_t bytes, unsigned char *there) {
    memset(there, 1, (bytes + PAGE - 1) / PAGE);
    return takes(start) ? 0 : -1;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    long argument[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; ++i) argument[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_mbind && !takes((void *)argument[0])) return -1;
    if (number == SYS_move_pages && argument[3] != 0) pages_moved += (size_t)argument[1];
    return __real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                          argument[5]);
}

/* Whole pages, and what must be given to munmap. */
static char *new_memory(void) {
    char *start =
        mmap(NULL, BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    calls = turned_down = 0;
    return (char *)nm_page_from((uintptr_t)start);
}

static void configure(void) {
    memset(&nm_config, 0, sizeof nm_config);
    nm_config.active = true;
    nm_config.copies = nm_config.copy[0].node_count = 1;
}

static bool all_taken(void) { return calls > 0 && turned_down == 0; }

static void the_policy_is_that_of_the_whole_pages_of_a_buffer(void) {
    configure();
    char *buffer = new_memory() + 4096; /* whole for a smaller kernel */
    nm_interleave_ahead((uintptr_t)buffer, 4 * PAGE);
    nm_interleave_undo((uintptr_t)buffer, 4 * PAGE);
    CHECK(all_taken());
}

static void huge_pages_are_kept_from_a_buffer_of_shard(void) {
    configure();
    nm_config.shard = true;
    char *buffer = new_memory() + 4096;
    nm_registry_add_buffer(buffer, buffer, 4 * PAGE, true);
    CHECK(all_taken());
    nm_registry_drop_buffer(buffer);
}

static void each_page_is_moved_once(void) {
    configure();
    const char *weight = new_memory();
    struct nm_range range = {weight + 4096, 4 * PAGE};
    nm_heal(&range, 1, 0, SIZE_MAX);
    CHECK(pages_moved == 5);
}

static char path[] = "/var/tmp/numamirror-test-XXXXXX";

static void what_a_file_has_in_memory_is_found_and_given_back(void) {
    int fd = mkstemp(path);
    CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
    const char *aligned = new_memory();
    char *model = mmap((void *)aligned, BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    CHECK(model != MAP_FAILED);
    struct nm_read_file file = {(uintptr_t)model, (uintptr_t)model + BYTES, 0, fd, true, true};
    CHECK(!nm_read_in_needed(&file, model + 4096, PAGE) && all_taken());
    struct nm_range range = {model + 4096, 4 * PAGE};
    nm_release_page_cache(&range, 1);
    CHECK(all_taken());
    munmap(model, BYTES);
    close(fd);
    unlink(path);
}

static bool pin(void *start, size_t bytes) { return takes(start) && bytes % PAGE == 0; }
static void unpin(void *start) { (void)start; }

static void replicas_are_pinned_by_whole_pages(void) {
    configure();
    nm_config.rehearsal = 1;
    struct nm_arena *arena = nm_arena_new(0, 2 << 20);
    CHECK(arena != NULL);
    const char *primary = new_memory();
    for (int i = 0; i < 2; ++i) {
        CHECK(nm_arena_take(arena, primary, PAGE + 4096) != NULL);
        CHECK(nm_arena_pin(arena, pin, unpin));
    }
    nm_arena_free(arena);
}

int main(void) {
    RUN(the_policy_is_that_of_the_whole_pages_of_a_buffer);
    RUN(huge_pages_are_kept_from_a_buffer_of_shard);
    RUN(each_page_is_moved_once);
    RUN(what_a_file_has_in_memory_is_found_and_given_back);
    RUN(replicas_are_pinned_by_whole_pages);
    return 0;
}
