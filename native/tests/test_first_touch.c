/* Huge pages that hold rows of one node, in memory that nobody has written to yet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "config.h"
#include "first_touch.h"

/* 19 MiB that begin 1 MiB behind a huge page's start: two copies' rows meet inside the sixth. */
enum { MIB = 1 << 20, HUGE = 2 * MIB, BYTES = 19 * MIB, SPACE = 64 * MIB, ROWS = 1024 };

static char *space;
static struct nm_shape weight;

static void two_copies_on_node_0(void) {
    nm_config.copies = 2;
    for (int copy = 0; copy < 2; ++copy)
        nm_config.copy[copy] = (struct nm_copy){.node_count = 1, .cpu_count = 4};
}

static void new_memory(void) {
    two_copies_on_node_0();
    space = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(space != MAP_FAILED);
    CHECK(madvise(space, SPACE, MADV_NOHUGEPAGE) == 0);
    uintptr_t aligned = ((uintptr_t)space + HUGE - 1) / HUGE * HUGE;
    weight = (struct nm_shape){aligned + MIB, BYTES, BYTES, ROWS};
}

static void give_back(void) {
    nm_first_touch_forget(weight.start, weight.bytes);
    munmap(space, SPACE);
}

static uintptr_t block(int number) { return weight.start - MIB + (uintptr_t)number * HUGE; }

static bool goes_as_a_whole(int number) {
    uintptr_t page = block(number) + 7 * 4096;
    return nm_middle_of_page(page) == block(number) + HUGE / 2;
}

static size_t mappings(void) {
    char line[512];
    size_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof line, maps) != NULL) ++count;
    fclose(maps);
    return count;
}

static void blocks_of_one_copy_are_huge_and_the_others_small(void) {
    new_memory();
    nm_first_touch(&weight);
    CHECK(!goes_as_a_whole(0)); /* begins before the weight */
    for (int i = 1; i < 5; ++i) CHECK(goes_as_a_whole(i));
    CHECK(!goes_as_a_whole(5)); /* rows of both */
    for (int i = 6; i < 10; ++i) CHECK(goes_as_a_whole(i));
    CHECK(!goes_as_a_whole(10));
    size_t huge = nm_first_touch_huge_bytes(); /* as many as the kernel has at the moment */
    CHECK(huge % HUGE == 0 && huge <= 8 * HUGE);
    give_back();
}

static void the_memory_reads_as_before(void) {
    new_memory();
    nm_first_touch(&weight);
    for (size_t i = 0; i < SPACE; i += 4096) CHECK(space[i] == 0);
    give_back();
}

static void no_mapping_is_left_behind_for_each_weight(void) {
    new_memory();
    size_t before = mappings();
    nm_first_touch(&weight);
    CHECK(mappings() <= before + 2);
    give_back();
}

static void memory_that_was_written_is_left_alone(void) {
    new_memory();
    ((char *)block(3))[0] = 'w';
    nm_first_touch(&weight);
    CHECK(!goes_as_a_whole(4));
    CHECK(nm_first_touch_huge_bytes() == 0);
    give_back();
}

/* What is not in memory need not be empty: the kernel says the same of pages that were swapped out,
 * or were not read from a file yet. */
static void bytes_that_are_not_in_memory_stay_what_they_are(void) {
    new_memory();
    char path[] = "/var/tmp/numamirror-test-XXXXXX";
    static char content[HUGE];
    memset(content, 'w', sizeof content);
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0);
    for (int i = 0; i < SPACE / HUGE; ++i) CHECK(write(fd, content, HUGE) == HUGE);
    CHECK(mmap(space, SPACE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == space);
    nm_first_touch(&weight);
    CHECK(goes_as_a_whole(4));
    for (size_t i = 0; i < SPACE; i += 4096) CHECK(space[i] == 'w');
    close(fd);
    give_back();
}

static void small_slabs_are_left_alone(void) {
    new_memory();
    weight.slab_bytes = BYTES / 8;
    nm_first_touch(&weight);
    CHECK(!goes_as_a_whole(4));
    give_back();
}

static void what_was_given_back_is_forgotten(void) {
    new_memory();
    nm_first_touch(&weight);
    give_back();
    CHECK(!goes_as_a_whole(4));
}

int main(void) {
    RUN(blocks_of_one_copy_are_huge_and_the_others_small);
    RUN(the_memory_reads_as_before);
    RUN(no_mapping_is_left_behind_for_each_weight);
    RUN(memory_that_was_written_is_left_alone);
    RUN(bytes_that_are_not_in_memory_stay_what_they_are);
    RUN(small_slabs_are_left_alone);
    RUN(what_was_given_back_is_forgotten);
    return 0;
}
