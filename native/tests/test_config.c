/* The environment that the launcher sets, well-formed and not. */
#include <string.h>

#include "check.h"
#include "config.h"

static const char *const *given; /* NAME, value, NAME, value, ..., NULL */

static const char *get(const char *name) {
    for (const char *const *at = given; *at != NULL; at += 2)
        if (strcmp(at[0], name) == 0) return at[1];
    return NULL;
}

static struct nm_config parse(const char *const *environment) {
    static struct nm_config config;
    given = environment;
    nm_config_parse(&config, get);
    return config;
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void without_the_launcher_it_is_inactive_and_says_nothing(void) {
    struct nm_config config = PARSE("NUMAMIRROR_COPIES", "0=0");
    CHECK(!config.active && config.error == NULL);
}

static void two_nodes_are_two_copies(void) {
    struct nm_config config = PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", "0=0-3,8;1=4-7",
                                    "NUMAMIRROR_HOME_NODE", "1");
    CHECK(config.active && config.copies == 2);
    CHECK(config.copy_of_cpu[0] == 0 && config.copy_of_cpu[8] == 0 && config.copy_of_cpu[7] == 1);
    CHECK(config.copy_of_cpu[9] == -1);
    CHECK(config.copy[0].cpu_count == 5 && config.copy[1].nodes[0] == 1);
    CHECK(config.home == 1 && config.home_copy == 1);
    CHECK(config.min_bytes == 1 << 20);
}

static void one_copy_can_span_the_nodes_of_a_socket(void) {
    struct nm_config config = PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", "0,2=0-3;1,3=4-7",
                                    "NUMAMIRROR_HOME_NODE", "3");
    CHECK(config.active && config.copy[0].node_count == 2 && config.copy[0].nodes[1] == 2);
    CHECK(config.home_copy == 1);
    CHECK(strcmp(config.copy[1].nodes_text, "1,3") == 0);
}

/* As where each part of a level-3 cache is a node: what the status page has room for is true. */
static void many_nodes_of_a_socket_are_named_by_ranges(void) {
    struct nm_config config = PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES",
                                    "0,1,2,3,4,5,6,7,8,9,10,11=0;12,14,15,16,17,18,19,20,21=1");
    CHECK(config.active && config.copy[0].node_count == 12);
    CHECK(strcmp(config.copy[0].nodes_text, "0-11") == 0);
    CHECK(strcmp(config.copy[1].nodes_text, "12,14-21") == 0);
    config = PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", "100,102,104,106,108,110,112=0");
    CHECK(strcmp(config.copy[0].nodes_text, "100,102,104,106,108,110") == 0); /* whole ones */
}

static void cores_are_told_from_their_smt_siblings(void) {
    struct nm_config config = PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", "0=0-2,8-10;1=3,11",
                                    "NUMAMIRROR_CORES", "0-3");
    CHECK(config.active && config.copy[0].core_count == 3 && config.copy[1].core_count == 1);
    CHECK(config.is_core[2] && config.is_core[3] && !config.is_core[8] && !config.is_core[11]);
    config = PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", "0=0-2,8-10;1=3,11",
                   "NUMAMIRROR_CORES", "0-2"); /* nothing is known of node 1 */
    CHECK(config.copy[1].core_count == 2 && config.is_core[3] && config.is_core[11]);
}

static void a_home_in_no_copy_leaves_every_copy_a_replica(void) {
    struct nm_config config =
        PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", "0=0;1=1", "NUMAMIRROR_HOME_NODE", "5");
    CHECK(config.active && config.home_copy == -1);
}

static void a_rehearsal_needs_no_copies(void) {
    struct nm_config config = PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_REHEARSE", "3");
    CHECK(config.active && config.rehearsal == 3 && config.copies == 3 && config.home_copy == 0);
}

static void what_cannot_be_read_makes_it_inert_and_is_named(void) {
    static const char copies[] = "NUMAMIRROR_COPIES cannot be read",
                      rehearsal[] = "NUMAMIRROR_REHEARSE is not a number from 1 to 8",
                      home[] = "NUMAMIRROR_HOME_NODE is not a node id",
                      tokens[] = "NUMAMIRROR_ADAPT is not a number of tokens",
                      events[] = "NUMAMIRROR_EVENTS is no abstract socket and no pipe";
    static const char *const bad[][3] = {
        {"NUMAMIRROR_COPIES", "", copies},
        {"NUMAMIRROR_COPIES", "0", copies},
        {"NUMAMIRROR_COPIES", "=0", copies},
        {"NUMAMIRROR_COPIES", "0=0;1=0", copies},
        {"NUMAMIRROR_COPIES", "0=3-1", copies},
        {"NUMAMIRROR_COPIES", "0=x", copies},
        {"NUMAMIRROR_COPIES", "0=99999", copies},
        {"NUMAMIRROR_CORES", "0-x", "NUMAMIRROR_CORES cannot be read"},
        {"NUMAMIRROR_REHEARSE", "0", rehearsal},
        {"NUMAMIRROR_REHEARSE", "9", rehearsal},
        {"NUMAMIRROR_HOME_NODE", "-1", home},
        {"NUMAMIRROR_HOME_NODE", "1x", home},
        {"NUMAMIRROR_SRC_NODE", "1x", "NUMAMIRROR_SRC_NODE is no node id"},
        {"NUMAMIRROR_MIN_BYTES", "1M", "NUMAMIRROR_MIN_BYTES is not a number of bytes"},
        {"NUMAMIRROR_BUDGET_BYTES", "1M", "NUMAMIRROR_BUDGET_BYTES is not a number of bytes"},
        {"NUMAMIRROR_ADAPT", "-1", tokens},
        {"NUMAMIRROR_ADAPT", "9999999", tokens},
        {"NUMAMIRROR_EVENTS", "/path", events},
        {"NUMAMIRROR_EVENTS", "path#1", events},
        {"NUMAMIRROR_STRATEGY", "magic",
         "NUMAMIRROR_STRATEGY is none of mirror, shard, interleave and observe"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        struct nm_config config =
            PARSE("NUMAMIRROR_ABI", "1", bad[i][0], bad[i][1], "NUMAMIRROR_COPIES", "0=0;1=1");
        CHECK(!config.active && config.error != NULL);
        CHECK(strcmp(config.error, bad[i][2]) == 0);
    }
    struct nm_config config = PARSE("NUMAMIRROR_ABI", "2", "NUMAMIRROR_COPIES", "0=0");
    CHECK(!config.active &&
          strcmp(config.error, "NUMAMIRROR_ABI is not a version that this shim knows") == 0);
}

static void one_strategy_is_named_and_others_are_not(void) {
    static const char *const names[] = {"mirror", "shard", "interleave", "observe"};
    for (int i = 0; i < 4; ++i) {
        struct nm_config config = PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", "0=0;1=1",
                                        "NUMAMIRROR_STRATEGY", names[i]);
        CHECK(config.active);
        CHECK(config.shard == (i == 1) && config.interleave == (i == 2) &&
              config.observe == (i == 3));
    }
}

static void more_copies_or_nodes_than_fit_are_refused(void) {
    char text[4096] = "";
    for (int i = 0; i <= NM_MAX_COPIES; ++i)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d=%d;", i, i);
    CHECK(!PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", text).active);
    CHECK(!PARSE("NUMAMIRROR_ABI", "1", "NUMAMIRROR_COPIES", "0-16=0").active);
}

int main(void) {
    RUN(without_the_launcher_it_is_inactive_and_says_nothing);
    RUN(two_nodes_are_two_copies);
    RUN(one_copy_can_span_the_nodes_of_a_socket);
    RUN(many_nodes_of_a_socket_are_named_by_ranges);
    RUN(cores_are_told_from_their_smt_siblings);
    RUN(a_home_in_no_copy_leaves_every_copy_a_replica);
    RUN(a_rehearsal_needs_no_copies);
    RUN(what_cannot_be_read_makes_it_inert_and_is_named);
    RUN(one_strategy_is_named_and_others_are_not);
    RUN(more_copies_or_nodes_than_fit_are_refused);
    return 0;
}
