/* Every byte of every piece arrives, whatever the sizes. */
#include <string.h>

#include "check.h"
#include "config.h"
#include "fill.h"

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

int main(void) {
    RUN(pieces_of_all_sizes_are_copied);
    RUN(nothing_to_copy_ends_at_once);
    return 0;
}
