/*
 * An engine that is linked into the program itself. Its calls pass no loader; where its symbol
 * table was kept they are led to the shim all the same, before the program begins.
 */
#ifndef NM_STATIC_PROGRAM_H
#define NM_STATIC_PROGRAM_H

#include <stdbool.h>

/* Does so if the program is such an engine; if it is one and that cannot be done, says why. Call
 * when the shim is loaded: no thread may run the program's code yet. */
void nm_static_adopt(void);

/* Whether the address lies in a program that was adopted. */
bool nm_static_contains(const void *address);

/* That program's own function, or NULL; `symbol` is an enum nm_symbol. */
void *nm_static_function(int symbol);

#endif
