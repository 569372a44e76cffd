/* A system call that was turned down, told once: which, the likely cause, what is done instead. */
#ifndef NM_REFUSAL_H
#define NM_REFUSAL_H

enum nm_call { NM_MBIND, NM_MOVE_PAGES, NM_AFFINITY, NM_MEMFD, NM_CALLS };

/* Sends a warning, for each call only the first time. instead: what is done without it. */
void nm_say_refused(enum nm_call call, int error, const char *instead);

#endif
