/* What a backend says that its GPU is called. */
#include "fuzz.h"
#include "pci_node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes), *address = malloc(NM_PCI_ADDRESS);
    if (address == NULL) abort();
    if (nm_pci_address(text, address)) {
        if (memchr(address, '\0', NM_PCI_ADDRESS) == NULL) abort();
        if (strspn(address, "0123456789abcdef:.") != strlen(address)) abort();
    }
    free(address);
    free(text);
    return 0;
}
