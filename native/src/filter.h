/* Seccomp filters that the program gave itself: they may kill for a call that it never makes. */
#ifndef NM_FILTER_H
#define NM_FILTER_H

#include <stdbool.h>

/* Notes the filters in force now, those of a container; call when the shim is loaded. */
void nm_filter_init(void);

/* Why no replicas are made then. */
#define NM_FILTERED "the program filters its own system calls (seccomp)"

/* True once the process has put itself under a further filter. From then on the shim makes no
 * call that a computing engine would not make: no events, no replicas. Uses open, read and close.
 */
bool nm_filter_added(void);

/* The same, as far as it is known already: no system call is made to find out. */
bool nm_filter_noticed(void);

/* The program is about to add one. Asking for it afterwards could be what the filter kills for. */
void nm_filter_notice(void);

/* How many filters the text of /proc/self/status tells of; kernels before 5.9 only whether. */
int nm_filter_count(const char *status);

#endif
