/* Page cache is let go of only where the bytes come back from the file. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "heal.h"

enum { BYTES = 16 * 4096 };

static char path[64];

static int a_file_of(char byte) {
    static char content[BYTES];
    strcpy(path, "/var/tmp/numamirror-test-XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    memset(content, byte, sizeof content);
    CHECK(write(fd, content, sizeof content) == BYTES);
    return fd;
}

static char *map(int fd, int protection, int flags) {
    char *start = mmap(NULL, BYTES, protection, flags, fd, 0);
    CHECK(start != MAP_FAILED);
    return start;
}

static void release(const char *start) {
    struct nm_range range = {start, BYTES};
    nm_release_page_cache(&range, 1);
}

static void a_mapped_model_reads_the_same_afterwards(void) {
    int fd = a_file_of('w');
    char *model = map(fd, PROT_READ, MAP_SHARED);
    release(model);
    for (int i = 0; i < BYTES; ++i) CHECK(model[i] == 'w');
    munmap(model, BYTES);
    close(fd);
    unlink(path);
}

/* An engine that maps its weights privately, changes them and then forbids itself to. */
static void pages_that_were_changed_are_nowhere_else_and_stay(void) {
    int fd = a_file_of('w');
    char *model = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memset(model, 'x', BYTES);
    CHECK(mprotect(model, BYTES, PROT_READ) == 0);
    release(model);
    for (int i = 0; i < BYTES; ++i) CHECK(model[i] == 'x');
    munmap(model, BYTES);
    close(fd);
    unlink(path);
}

int main(void) {
    RUN(a_mapped_model_reads_the_same_afterwards);
    RUN(pages_that_were_changed_are_nowhere_else_and_stay);
    return 0;
}
