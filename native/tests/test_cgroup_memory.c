/* The tightest limit from a container's cgroup up to the root. */
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup_memory.h"
#include "check.h"

static char mount[] = "/tmp/numamirror-cgroup-XXXXXX";

static void write_file(const char *group, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", mount, group);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%s", mount, group, name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void remove_file(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", mount, name);
    CHECK(remove(path) == 0);
}

static void the_tightest_limit_on_the_way_up_counts(void) {
    write_file("pod", "memory.max", "1000\n");
    write_file("pod", "memory.current", "700\n");
    write_file("pod", "memory.stat", "anon 600\ninactive_file 100\n");
    write_file("pod/app", "memory.max", "max\n");
    write_file("pod/app", "memory.current", "500\n");
    CHECK(nm_cgroup_left("12:cpu:/x\n0::/pod/app\n", mount) == 400);
    write_file("pod/app", "memory.max", "600\n");
    CHECK(nm_cgroup_left("0::/pod/app\n", mount) == 100);
    write_file("pod/app", "memory.current", "900\n");
    CHECK(nm_cgroup_left("0::/pod/app\n", mount) == 0);
}

/* Above memory.high nobody is killed: all are slowed down, until they have given back enough. */
static void the_limit_from_which_a_group_is_slowed_down_counts_too(void) {
    write_file("pod", "memory.high", "850\n");
    CHECK(nm_cgroup_left("0::/pod\n", mount) == 250);
    write_file("pod", "memory.high", "max\n");
    CHECK(nm_cgroup_left("0::/pod\n", mount) == 400);
    remove_file("pod/memory.high");
}

/* A container's limit is at the root of what it sees; systemd in it makes groups below. */
static void the_limit_of_a_container_counts_for_groups_inside_it(void) {
    write_file("", "memory.max", "800\n");
    write_file("", "memory.current", "600\n");
    CHECK(nm_cgroup_left("0::/\n", mount) == 200);
    CHECK(nm_cgroup_left("0::/init.scope\n", mount) == 200);
    remove_file("memory.max");
    remove_file("memory.current");
}

/* RHEL 8 and others have cgroup v1, in which a container sees its group at the root, under a path
 * that only the host has. */
static void a_limit_of_version_1_counts(void) {
    write_file("memory", "memory.limit_in_bytes", "1000\n");
    write_file("memory", "memory.usage_in_bytes", "900\n");
    write_file("memory", "memory.stat", "inactive_file 1\ntotal_inactive_file 200\n");
    CHECK(nm_cgroup_left("5:cpu:/x\n4:memory:/docker/1234\n", mount) == 300);
    CHECK(nm_cgroup_left("4:memory:/docker/1234\n0::/pod\n", mount) == 300);
    write_file("memory", "memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(nm_cgroup_left("4:memory:/\n", mount) > (size_t)1 << 60);
    remove_file("memory/memory.limit_in_bytes");
    remove_file("memory/memory.usage_in_bytes");
    remove_file("memory/memory.stat");
    remove_file("memory");
}

static void without_a_limit_it_is_unlimited(void) {
    CHECK(nm_cgroup_left("0::/\n", mount) == SIZE_MAX);
    CHECK(nm_cgroup_left("0::/gone\n", mount) == SIZE_MAX);
    CHECK(nm_cgroup_left("4:memory:/v1\n", mount) == SIZE_MAX);
    CHECK(nm_cgroup_left("", mount) == SIZE_MAX);
}

static void remove_all(void) {
    static const char *const files[] = {
        "pod/app/memory.max", "pod/app/memory.current", "pod/app", "pod/memory.max",
        "pod/memory.current", "pod/memory.stat",        "pod",     ""};
    for (size_t i = 0; i < sizeof files / sizeof *files; ++i) remove_file(files[i]);
}

int main(void) {
    CHECK(mkdtemp(mount) != NULL);
    RUN(the_tightest_limit_on_the_way_up_counts);
    RUN(the_limit_from_which_a_group_is_slowed_down_counts_too);
    RUN(the_limit_of_a_container_counts_for_groups_inside_it);
    RUN(a_limit_of_version_1_counts);
    RUN(without_a_limit_it_is_unlimited);
    remove_all();
    return 0;
}
