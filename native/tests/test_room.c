/* What leaves too little room for a replica is named, with what would make it more: the nodes'
 * memory, a container's limit, addresses. The budget's turn is in test_build.c. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "build.h"
#include "cgroup_memory.h"
#include "config.h"
#include "heard.h"
#include "node_memory.h"
#include "registry.h"
#include "status.h"

enum { MIB = 1 << 20 };

static void rehearse(void) {
    memset(&nm_config, 0, sizeof nm_config);
    nm_config.active = nm_config.log = nm_config.copy_home = true;
    nm_config.rehearsal = nm_config.copies = 2;
    nm_config.min_bytes = MIB;
    for (int i = 0; i < 2; ++i) {
        nm_config.copy[i].node_count = 1;
        nm_config.copy[i].nodes[0] = i;
        nm_config.copy[i].nodes_text[0] = (char)('0' + i);
    }
}

/* Weights of that size, of which nothing is ever read: no part of them fits. */
static void build_unread(size_t bytes) {
    char *model = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(model != MAP_FAILED);
    nm_registry_add_buffer(model, model, bytes, true);
    struct nm_candidate all = {
        .start = (uintptr_t)model, .bytes = bytes, .by_expert = false, .token_bytes = bytes};
    nm_build(&all, 1, true, "");
    CHECK(nm_status->mirrored_bytes == 0 && nm_status->refused_bytes == bytes);
    nm_registry_drop_buffer(model);
    munmap(model, bytes);
}

static void a_node_without_room_is_named_with_what_it_lacks(void) {
    struct nm_node_memory node;
    if (!nm_node_memory_read(0, &node) || nm_cgroup_available() < node.total) {
        printf("skipped: node 0 is not what limits a replica here\n");
        return;
    }
    rehearse();
    /* Of two pretend nodes either can be the one that had less when it was asked. */
    nm_config.rehearsal = nm_config.copies = 1;
    build_unread(node.total);
    CHECK(times_said("\"what\":\"node 0 leaves ") == 1);
    CHECK(times_said(" MiB on that node, or leave it out with --nodes, for all of it") == 1);
    CHECK(times_said("what is read most per token and byte comes first") == 1);
}

/* Stands before mmap: in a process that may have no more addresses, none are left. */
static bool none_left;

void *__real_mmap(void *start, size_t bytes, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap(void *start, size_t bytes, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap(void *start, size_t bytes, int rights, int flags, int fd, off_t offset) {
    errno = ENOMEM;
    return none_left ? MAP_FAILED : __real_mmap(start, bytes, rights, flags, fd, offset);
}

static void addresses_that_cannot_be_had_are_the_reason(void) {
    rehearse();
    char *model = mmap(NULL, 8 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(model != MAP_FAILED);
    nm_registry_add_buffer(model, model, 8 * MIB, true);
    struct nm_candidate all = {
        .start = (uintptr_t)model, .bytes = 8 * MIB, .by_expert = false, .token_bytes = 8 * MIB};
    none_left = true;
    nm_build(&all, 1, true, "");
    none_left = false;
    CHECK(nm_status->state == NM_OFF && nm_status->refused_bytes == 8 * MIB);
    CHECK(strcmp(nm_status->reason,
                 "node 1: no addresses for a replica of 8 MiB (mmap: Cannot "
                 "allocate memory)") == 0);
    CHECK(times_said("\"what\":\"node 0: no addresses for a replica of 8 MiB\"") == 1);
    CHECK(times_said("raise the limit (ulimit -v), or set vm.overcommit_memory to 0 or 1") == 2);
    nm_registry_drop_buffer(model);
    munmap(model, 8 * MIB);
}

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

/* A view of the system in which this process is in the control group of a container. */
static bool enter_group(const char *limit, const char *used) {
    char group[] = "/tmp/numamirror-test-XXXXXX";
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    if (mount("test", "/sys/fs/cgroup", "tmpfs", 0, NULL) != 0) return false;
    CHECK(mkdir("/sys/fs/cgroup/job", 0700) == 0);
    write_file("/sys/fs/cgroup/job/memory.max", limit);
    write_file("/sys/fs/cgroup/job/memory.current", used);
    int fd = mkstemp(group);
    CHECK(fd >= 0 && close(fd) == 0);
    write_file(group, "0::/job\n");
    bool shown = mount(group, "/proc/self/cgroup", NULL, MS_BIND, NULL) == 0;
    CHECK(unlink(group) == 0);
    return shown;
}

static void a_containers_limit_is_named_with_what_it_lacks(void) {
    if (!enter_group("16777216\n", "4194304\n")) {
        printf("skipped: needs root, for mounts of its own\n");
        return;
    }
    rehearse();
    build_unread(8 * MIB); /* 12 MiB are left for two replicas */
    CHECK(times_said("\"what\":\"the control group's memory limit leaves 6 MiB for a replica of 8 "
                     "MiB\"") == 1);
    CHECK(times_said("\"remedy\":\"raise the container's memory limit by 4 MiB for all of it\"") ==
          1);
}

int main(void) {
    listen_to_the_shim();
    RUN(a_node_without_room_is_named_with_what_it_lacks);
    RUN(addresses_that_cannot_be_had_are_the_reason);
    RUN(a_containers_limit_is_named_with_what_it_lacks);
    return 0;
}
