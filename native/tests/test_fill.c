/* Every byte of every piece arrives, whatever the sizes, and cold files are read in one go. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "config.h"
#include "fill.h"
#include "read_in.h"

static size_t last_done[2];
static void note_progress(size_t index, size_t done) {
    CHECK(done >= last_done[index]);
    last_done[index] = done;
}

static void pieces_of_all_sizes_are_copied(void) {
    enum { CHUNK = 4 << 20 };
    static const size_t sizes[] = {1, 63, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 17};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    nm_config.rehearsal = nm_config.copies = 2;
    struct nm_piece pieces[2][COUNT];
    struct nm_fill fills[2];
    for (int f = 0; f < 2; ++f) {
        fills[f] = (struct nm_fill){.copy = f, .pieces = pieces[f], .count = COUNT};
        for (int i = 0; i < COUNT; ++i) {
            char *from = malloc(sizes[i]), *to = calloc(1, sizes[i]);
            for (size_t k = 0; k < sizes[i]; ++k) from[k] = (char)(k * 31 + (size_t)i + (size_t)f);
            pieces[f][i] = (struct nm_piece){from, to, sizes[i]};
            fills[f].bytes += sizes[i];
        }
    }
    nm_fill_run(fills, 2, note_progress);
    for (int f = 0; f < 2; ++f) {
        CHECK(fills[f].threads >= 1 && fills[f].ns > 0);
        for (int i = 0; i < COUNT; ++i) {
            CHECK(memcmp(pieces[f][i].from, pieces[f][i].to, sizes[i]) == 0);
            free((void *)pieces[f][i].from);
            free(pieces[f][i].to);
        }
    }
}

static void nothing_to_copy_ends_at_once(void) {
    struct nm_fill fill = {.copy = 0, .pieces = NULL, .count = 0};
    last_done[0] = 0;
    nm_fill_run(&fill, 1, note_progress);
    CHECK(last_done[0] == 0);
}

enum { FILE_BYTES = 16 << 20, PAGE = 4096, NOBODY = 65534 };

static char cold_name[] = "cold-file-XXXXXX";

/* A file mapped as engines do it, dropped from the page cache; NULL where the file system keeps it
 * there. */
static char *map_cold(int flags, int rights) {
    int fd = open(cold_name, O_RDONLY);
    CHECK(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    char *start = mmap(NULL, FILE_BYTES, rights, flags, fd, 0);
    CHECK(start != MAP_FAILED && madvise(start, FILE_BYTES, MADV_RANDOM) == 0);
    close(fd);
    unsigned char cached[FILE_BYTES / PAGE];
    CHECK(mincore(start, FILE_BYTES, cached) == 0);
    for (int page = 0; page < FILE_BYTES / PAGE; ++page)
        if (cached[page] & 1) return NULL;
    return start;
}

static char *map_cold_file(void) { return map_cold(MAP_SHARED, PROT_READ); }

static void write_file(char *name, int more) {
    int fd = mkstemp(name);
    CHECK(fd >= 0 && fchmod(fd, 0444) == 0);
    char block[PAGE];
    for (int page = 0; page < FILE_BYTES / PAGE; ++page) {
        memset(block, (page + more) % 251, sizeof block);
        CHECK(write(fd, block, sizeof block) == PAGE);
    }
    close(fd);
}

static long major_faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_majflt;
}

static void copy(char *from, char *to) {
    struct nm_piece piece = {from, to, FILE_BYTES};
    struct nm_fill fill = {.copy = 0, .pieces = &piece, .count = 1, .bytes = FILE_BYTES};
    last_done[0] = 0;
    nm_fill_run(&fill, 1, note_progress);
}

static void all_arrives(char *from) {
    char *to = malloc(FILE_BYTES);
    copy(from, to);
    for (int page = 0; page < FILE_BYTES / PAGE; ++page) {
        const char *copied = to + page * PAGE;
        CHECK(copied[0] == (char)(page % 251) && copied[PAGE - 1] == copied[0]);
    }
    munmap(from, FILE_BYTES);
    free(to);
}

static void all_arrives_with_few_faults(char *from) {
    long before = major_faults();
    all_arrives(from);
    CHECK(major_faults() - before < FILE_BYTES / PAGE / 8);
}

static void a_cold_file_is_not_read_page_by_page(void) {
    write_file(cold_name, 0);
    char *from = map_cold_file();
    if (from == NULL)
        printf("not shown: this file system does not drop a file from the page cache\n");
    else
        all_arrives_with_few_faults(from);
}

/* By its whole name, as the shim opens it: a directory above may be closed to others. */
static bool may_read(const char *name) {
    char path[PATH_MAX], here[PATH_MAX];
    CHECK(getcwd(here, sizeof here) != NULL);
    int length = snprintf(path, sizeof path, "%s/%s", here, name);
    return length < (int)sizeof path && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0;
}

/* Of such a file mincore says that all of it is there. */
static void nor_is_a_cold_file_of_another_user(void) {
    char *from = map_cold_file();
    if (from == NULL || seteuid(NOBODY) != 0 || !may_read(cold_name)) {
        printf("not shown: needs root, and a directory that others may enter\n");
    } else {
        all_arrives_with_few_faults(from);
    }
    CHECK(geteuid() == getuid() || seteuid(getuid()) == 0);
}

/* The mapping says which bytes are the weight's, not a file that has by now the name under which
 * the kernel shows it. */
static void nor_is_another_file_of_that_name_copied(void) {
    char *from = map_cold_file(), other[] = "other-file-XXXXXX", shown[64];
    if (from == NULL) return;
    snprintf(shown, sizeof shown, "%s (deleted)", cold_name);
    write_file(other, 1);
    CHECK(unlink(cold_name) == 0 && rename(other, shown) == 0);
    all_arrives(from);
    unlink(shown);
    write_file(strcpy(cold_name, "cold-file-XXXXXX"), 0);
}

static void changes_of_a_private_mapping_are_copied(void) {
    char *from = map_cold(MAP_PRIVATE, PROT_READ | PROT_WRITE), *to = malloc(FILE_BYTES);
    if (from == NULL) return;
    from[0] = from[5 * PAGE] = 'x';
    copy(from, to);
    CHECK(to[0] == 'x' && to[5 * PAGE] == 'x' && to[1] == 0 && to[FILE_BYTES - 1] != 0);
    munmap(from, FILE_BYTES);
    free(to);
    unlink(cold_name);
}

/* Memory pinned for a GPU is mapped from a device, and opening that can wake it. */
static void a_device_is_not_opened(void) {
    int zero = open("/dev/zero", O_RDONLY);
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
    CHECK(zero >= 0 && memory != MAP_FAILED);
    struct nm_read_in files;
    nm_read_in_open(&files, (uintptr_t)memory, (uintptr_t)memory + 4096);
    CHECK(files.count == 0);
    munmap(memory, 4096);
    close(zero);
}

static void a_program_that_has_no_file_to_copy_from_opens_none(void) {
    struct nm_read_in files;
    char here[16];
    nm_read_in_open(&files, (uintptr_t)here, (uintptr_t)here + sizeof here);
    CHECK(files.count == 0 && nm_read_in_file(&files, here, sizeof here) == NULL);
    nm_read_in_close(&files);
}

int main(void) {
    RUN(pieces_of_all_sizes_are_copied);
    RUN(nothing_to_copy_ends_at_once);
    RUN(a_cold_file_is_not_read_page_by_page);
    RUN(nor_is_a_cold_file_of_another_user);
    RUN(nor_is_another_file_of_that_name_copied);
    RUN(changes_of_a_private_mapping_are_copied);
    RUN(a_device_is_not_opened);
    RUN(a_program_that_has_no_file_to_copy_from_opens_none);
    return 0;
}
