/* From a backend's device id to a node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/pci_node.h"
#include "check.h"

static bool reads_as(const char *device_id, const char *expected) {
    char address[NM_PCI_ADDRESS] = "untouched";
    if (expected == NULL) return !nm_pci_address(device_id, address);
    return nm_pci_address(device_id, address) && strcmp(address, expected) == 0;
}

static void addresses_of_every_spelling_are_read(void) {
    CHECK(reads_as("0000:c1:00.0", "0000:c1:00.0"));
    CHECK(reads_as("0000:C1:0A.7", "0000:c1:0a.7"));
    CHECK(reads_as("0000:c1:00.0-v2", "0000:c1:00.0"));
    CHECK(reads_as("0000:c1:00.0-v15", "0000:c1:00.0"));
    CHECK(reads_as("00000000:C1:00.0", "0000:c1:00.0"));
    CHECK(reads_as("10000:e1:00.0", "10000:e1:00.0"));
    CHECK(reads_as("00010000:e1:00.0", "10000:e1:00.0"));
    CHECK(reads_as("deadbeef:ff:1f.7-v1", "deadbeef:ff:1f.7"));
}

static void other_ids_are_no_address(void) {
    CHECK(reads_as(NULL, NULL));
    CHECK(reads_as("", NULL));
    CHECK(reads_as("GPU-1b2c3d4e", NULL));
    CHECK(reads_as("c1:00.0", NULL));
    CHECK(reads_as("0000:c1:00", NULL));
    CHECK(reads_as("0000:c1:00.8", NULL));
    CHECK(reads_as("0000:c1:00.0x", NULL));
    CHECK(reads_as("0000:c1:00.00", NULL));
    CHECK(reads_as("0000:1c1:00.0", NULL));
    CHECK(reads_as("000000000:c1:00.0", NULL));
    CHECK(reads_as("0000/c1/00.0", NULL));
    CHECK(reads_as("../../../etc/hosts", NULL));
}

static char root[] = "/tmp/nm_pci_XXXXXX";

static void put(const char *directory, const char *numa_node) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, directory);
    CHECK(mkdir(path, 0700) == 0);
    if (numa_node == NULL) return;
    strcat(path, "/numa_node");
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(numa_node, file);
    fclose(file);
}

static void list(const char *address, const char *directory) {
    char target[512], path[512];
    snprintf(target, sizeof target, "%s/%s", root, directory);
    snprintf(path, sizeof path, "%s/list/%s", root, address);
    CHECK(symlink(target, path) == 0);
}

static void a_device_without_a_node_is_where_its_bridge_is(void) {
    CHECK(mkdtemp(root) != NULL);
    put("list", NULL);
    put("pci0000:80", NULL);
    put("pci0000:80/0000:80:01.0", "1\n");
    put("pci0000:80/0000:80:01.0/0000:81:00.0", "-1\n");
    put("pci0000:80/0000:80:01.0/0000:81:01.0", "3\n");
    put("pci0000:00", NULL);
    put("pci0000:00/0000:00:02.0", "-1\n");
    put("pci0000:00/0000:00:03.0", "garbage\n");
    list("0000:81:00.0", "pci0000:80/0000:80:01.0/0000:81:00.0");
    list("0000:81:01.0", "pci0000:80/0000:80:01.0/0000:81:01.0");
    list("0000:00:02.0", "pci0000:00/0000:00:02.0");
    list("0000:00:03.0", "pci0000:00/0000:00:03.0");
    char devices[64];
    snprintf(devices, sizeof devices, "%s/list", root);
    CHECK(nm_pci_node(devices, "0000:81:01.0") == 3);
    CHECK(nm_pci_node(devices, "0000:81:00.0") == 1);
    CHECK(nm_pci_node(devices, "0000:00:02.0") == -1);
    CHECK(nm_pci_node(devices, "0000:00:03.0") == -1);
    CHECK(nm_pci_node(devices, "0000:00:04.0") == -1);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

int main(void) {
    RUN(addresses_of_every_spelling_are_read);
    RUN(other_ids_are_no_address);
    RUN(a_device_without_a_node_is_where_its_bridge_is);
    return 0;
}
