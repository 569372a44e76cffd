/* On which node a GPU is: from the id that a backend gives its device to the node in sysfs. */
#ifndef NM_PCI_NODE_H
#define NM_PCI_NODE_H

#include <stdbool.h>

enum { NM_PCI_ADDRESS = 24 };

/* The PCI address in a device's id, as sysfs spells it: "0000:c1:00.0". Takes upper case, domains
 * of four to eight digits, and a suffix that starts with '-' (CUDA's "-v1": one of several virtual
 * devices on one GPU). False for NULL and for ids of another form. */
bool nm_pci_address(const char *device_id, char address[NM_PCI_ADDRESS]);

/* The node of the device, or of the nearest bridge above it that has one; -1 when the firmware
 * names none. `devices` is /sys/bus/pci/devices, or another directory of that form. */
int nm_pci_node(const char *devices, const char *address);

#endif
