#include "pci_node.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *hex_digits(const char *text, int least, int most) {
    int count = 0;
    while (isxdigit((unsigned char)text[count]) && count < most) ++count;
    return count >= least ? text + count : NULL;
}

static const char *after(const char *text, char expected) {
    return text != NULL && *text == expected ? text + 1 : NULL;
}

bool nm_pci_address(const char *device_id, char address[NM_PCI_ADDRESS]) {
    if (device_id == NULL) return false;
    const char *bus = after(hex_digits(device_id, 4, 8), ':');
    const char *device = bus == NULL ? NULL : after(hex_digits(bus, 2, 2), ':');
    const char *function = device == NULL ? NULL : after(hex_digits(device, 2, 2), '.');
    if (function == NULL || *function < '0' || *function > '7') return false;
    if (function[1] != '\0' && function[1] != '-') return false;
    /* The kernel prints at least four digits of the domain ("%04x"), CUDA's own tools eight. */
    const char *domain = device_id;
    while (bus - domain > 5 && *domain == '0') ++domain;
    size_t length = (size_t)(function + 1 - domain);
    for (size_t i = 0; i < length; ++i) address[i] = (char)tolower((unsigned char)domain[i]);
    address[length] = '\0';
    return true;
}

static int node_in(const char *directory) {
    char path[PATH_MAX + 16], text[16] = "";
    snprintf(path, sizeof path, "%s/numa_node", directory);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    char *end;
    long node = strtol(text, &end, 10);
    return got > 0 && end != text && node >= 0 && node <= INT_MAX ? (int)node : -1;
}

int nm_pci_node(const char *devices, const char *address) {
    char link[PATH_MAX], directory[PATH_MAX];
    snprintf(link, sizeof link, "%s/%s", devices, address);
    if (realpath(link, directory) == NULL) return -1;
    int node = node_in(directory);
    for (char *name = strrchr(directory, '/'); node < 0 && name != NULL && name > directory;
         name = strrchr(directory, '/')) {
        *name = '\0';
        node = node_in(directory);
    }
    return node;
}
