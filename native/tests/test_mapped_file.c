/* Files that are mapped are found whatever their paths look like. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "mapped_file.h"

enum { PAGE = 4096, DEEP = 25 };

static void a_line_of_a_mapped_model_is_read_to_its_end(void) {
    struct nm_mapped_file file;
    char line[] = "7f0000000000-7f0000100000 r--s 00001000 fd:01 42     /models/a b (deleted)\n";
    CHECK(nm_mapped_file_parse(line, &file));
    CHECK(file.start == 0x7f0000000000 && file.end == 0x7f0000100000 && file.offset == 0x1000);
    CHECK(file.readable && !file.writable && file.shared);
    CHECK(strcmp(file.path, "/models/a b (deleted)") == 0);
}

static void what_is_no_file_is_passed_over(void) {
    struct nm_mapped_file file;
    char anonymous[] = "7f0000000000-7f0000100000 rw-p 00000000 00:00 0\n";
    char stack[] = "7f0000000000-7f0000100000 rw-p 00000000 00:00 0     [stack]\n";
    char backwards[] = "7f0000100000-7f0000000000 r--s 00000000 fd:01 42     /models/a\n";
    CHECK(!nm_mapped_file_parse(anonymous, &file));
    CHECK(!nm_mapped_file_parse(stack, &file));
    CHECK(!nm_mapped_file_parse(backwards, &file));
}

/* A directory in a directory, so deep that no path of the kernel's own limit names the last. */
static void go_down(const char *name) {
    for (int i = 0; i < DEEP; ++i) CHECK(mkdir(name, 0700) == 0 && chdir(name) == 0);
}

static void come_up(const char *name) {
    for (int i = 0; i < DEEP; ++i) CHECK(chdir("..") == 0 && rmdir(name) == 0);
}

static bool finds(const void *start) {
    struct nm_maps maps = {0};
    struct nm_mapped_file file;
    bool found = false;
    nm_maps_begin(&maps);
    while (!found && nm_maps_next(&maps, &file))
        found = file.start == (uintptr_t)start && file.offset == PAGE;
    if (found) found = strlen(file.path) > 200 * DEEP && strstr(file.path, "/model.gguf") != NULL;
    nm_maps_end(&maps);
    return found;
}

static void a_model_with_the_longest_of_paths_is_found(void) {
    char top[] = "/var/tmp/numamirror-test-XXXXXX", name[201];
    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK(mkdtemp(top) != NULL && chdir(top) == 0);
    go_down(name);
    int fd = open("model.gguf", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
    void *start = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
    CHECK(start != MAP_FAILED && finds(start));
    munmap(start, PAGE);
    close(fd);
    CHECK(unlink("model.gguf") == 0);
    come_up(name);
    CHECK(chdir("/") == 0 && rmdir(top) == 0);
}

int main(void) {
    RUN(a_line_of_a_mapped_model_is_read_to_its_end);
    RUN(what_is_no_file_is_passed_over);
    RUN(a_model_with_the_longest_of_paths_is_found);
    return 0;
}
