/* A few pages in a hundred that lie on another node: too many to be called in place, and yet most
 * are. They are moved before the copy is used. What says where pages lie is played here, since a
 * machine with one node has no other to put them on. */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "build.h"
#include "config.h"
#include "heard.h"
#include "page_size.h"
#include "registry.h"
#include "status.h"
#include "sys.h"

enum { MIB = 1 << 20, BYTES = 4 * MIB, HOME = 0, OTHER = 1, ONE_IN = 20 };

static char *model;
static _Atomic bool strays_in_model, strays_elsewhere; /* until they are moved */
static bool pinned;
static _Atomic size_t moved;

static int node_of(const void *page) {
    bool primary = (uintptr_t)page - (uintptr_t)model < BYTES;
    bool stray = (uintptr_t)page / nm_page_bytes() % ONE_IN == 0 &&
                 (primary ? strays_in_model : strays_elsewhere);
    return primary == stray ? OTHER : HOME;
}

int __wrap_nm_move_pages(size_t count, void **pages, const int *nodes, int *status);
int __wrap_nm_move_pages(size_t count, void **pages, const int *nodes, int *status) {
    for (size_t i = 0; i < count; ++i) {
        status[i] = node_of(pages[i]);
        if (nodes != NULL && status[i] != nodes[i]) status[i] = pinned ? -EBUSY : nodes[i];
    }
    if (nodes == NULL || pinned) return 0;
    moved += count;
    *((uintptr_t)pages[0] - (uintptr_t)model < BYTES ? &strays_in_model : &strays_elsewhere) =
        false;
    return 0;
}

static void configure(void) {
    memset(&nm_config, 0, sizeof nm_config);
    nm_config.active = nm_config.log = nm_config.heal = true;
    nm_config.copies = 2;
    nm_config.min_bytes = MIB;
    nm_config.home = HOME;
    for (int copy = 0; copy < 2; ++copy) {
        nm_config.copy[copy].node_count = 1;
        nm_config.copy[copy].nodes[0] = copy;
        nm_config.copy[copy].nodes_text[0] = (char)('0' + copy);
    }
}

static void build(void) {
    configure();
    moved = 0;
    model = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(model != MAP_FAILED);
    memset(model, 'w', BYTES);
    nm_registry_add_buffer(model, model, BYTES, true);
    struct nm_candidate all = {
        .start = (uintptr_t)model, .bytes = BYTES, .by_expert = false, .token_bytes = BYTES};
    nm_build(&all, 1, true, "");
}

static void forget(void) {
    nm_registry_drop_buffer(model);
    munmap(model, BYTES);
}

static void what_is_in_place_is_not_moved(void) {
    strays_in_model = strays_elsewhere = false;
    build();
    CHECK(moved == 0 && nm_status->mirrored_bytes == BYTES);
    CHECK(times_said("the weights were not at home") == 0);
    forget();
}

static void the_stray_pages_of_a_primary_are_brought_home(void) {
    strays_in_model = true;
    build();
    CHECK(moved >= BYTES / nm_page_bytes() && nm_status->mirrored_bytes == BYTES);
    CHECK(times_said("the weights were not at home: ") == 1);
    forget();
}

static void stray_pages_that_stay_are_said_and_the_primary_is_read(void) {
    strays_in_model = pinned = true;
    build();
    pinned = false;
    CHECK(nm_status->mirrored_bytes == BYTES && nm_status->copy[HOME].bytes == BYTES);
    CHECK(times_said("the weights were not at home: ") == 2);
    CHECK(times_said("the pages are pinned, as memory registered with a GPU is") == 1);
    CHECK(times_said("the home node reads them all the same") == 1);
    forget();
}

static void the_stray_pages_of_a_replica_are_gathered(void) {
    strays_in_model = false;
    strays_elsewhere = true;
    build();
    CHECK(moved >= BYTES / nm_page_bytes() && nm_status->mirrored_bytes == BYTES);
    forget();
}

int main(void) {
    listen_to_the_shim();
    RUN(what_is_in_place_is_not_moved);
    RUN(the_stray_pages_of_a_primary_are_brought_home);
    RUN(stray_pages_that_stay_are_said_and_the_primary_is_read);
    RUN(the_stray_pages_of_a_replica_are_gathered);
    return 0;
}
