/* Runs a target on each file of a directory: the kept inputs, without libFuzzer. */
#include <dirent.h>
#include <stdio.h>

#include "fuzz.h"

static int run_on(const char *directory, const char *name) {
    static uint8_t input[1 << 16];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 0;
    size_t bytes = fread(input, 1, sizeof input, file);
    fclose(file);
    LLVMFuzzerTestOneInput(input, bytes);
    return 1;
}

int main(int count, char **words) {
    DIR *directory = count == 2 ? opendir(words[1]) : NULL;
    if (directory == NULL) return 2;
    int inputs = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.') inputs += run_on(words[1], entry->d_name);
    closedir(directory);
    printf("%d inputs\n", inputs);
    return inputs > 0 ? 0 : 1;
}
