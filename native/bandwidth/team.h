/* Threads, one pinned to each CPU of a list, that do a piece of work together again and again. */
#ifndef NM_BANDWIDTH_TEAM_H
#define NM_BANDWIDTH_TEAM_H

#include <stddef.h>

enum { NM_MOST_PASSES = 4096 };

/* Done by each thread in every pass; `member` of `members`. */
typedef void nm_task(void *context, int member, int members);

/* Seconds of each pass: from when the first thread began to when the last one was done. */
struct nm_passes {
    double seconds[NM_MOST_PASSES];
    int count;
};

/* Repeats the task for that many seconds, but `least` times at least. Returns 0 or an errno: the
 * thread could not be made, or not be pinned to its CPU. */
int nm_team_run(const int *cpus, int count, nm_task *task, void *context, double seconds, int least,
                struct nm_passes *passes);

#endif
