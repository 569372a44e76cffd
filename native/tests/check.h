/* A test program is a list of functions; the first failed CHECK names its line and ends it. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#define RUN(test)                      \
    do {                               \
        test();                        \
        printf("passed: %s\n", #test); \
    } while (0)

#endif
