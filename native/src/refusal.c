#include "refusal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "events.h"
#include "sys.h"

/* or_else: what makes a container runtime's default profile allow the call. */
static const struct {
    const char *name, *or_else;
} calls[NM_CALLS] = {
    [NM_MBIND] = {"mbind", "CAP_SYS_NICE or "},
    [NM_MOVE_PAGES] = {"move_pages", ""},
    [NM_AFFINITY] = {"sched_setaffinity", ""},
    [NM_MEMFD] = {"memfd_create", ""},
};

/* The cpuset is the likely cause where the kernel finds a node or a CPU invalid. */
static void explain_invalid(enum nm_call call, char *why, size_t bytes) {
    const char *what = call == NM_AFFINITY ? "CPUs" : "a node";
    const char *key = call == NM_AFFINITY ? "Cpus_allowed_list" : "Mems_allowed_list";
    char status[8192];
    const char *line = nm_thread_status(status, sizeof status) ? strstr(status, key) : NULL;
    const char *list = line == NULL ? "" : line + strlen(key) + strspn(line + strlen(key), ":\t ");
    snprintf(why, bytes, "%s: EINVAL: likely %s outside %s (%.*s)", calls[call].name, what, key,
             (int)strcspn(list, "\n"), list);
}

static void explain(enum nm_call call, int error, char *why, char *remedy, size_t bytes) {
    const char *name = calls[call].name;
    *remedy = '\0';
    switch (error) {
        case EPERM: /* only a filter says so of a process's own memory and threads */
            snprintf(why, bytes, "%s: EPERM: blocked by the container's seccomp profile", name);
            snprintf(remedy, bytes, "give the container %sa seccomp profile that allows %s",
                     calls[call].or_else, name);
            break;
        case ENOSYS:
            snprintf(why, bytes, "%s: ENOSYS: this kernel does not have it, or a sandbox hides it",
                     name);
            snprintf(remedy, bytes, "start it outside the sandbox, or on another kernel");
            break;
        case EINVAL:
            explain_invalid(call, why, bytes);
            snprintf(remedy, bytes, "widen cpuset.mems and cpuset.cpus of the control group");
            break;
        default:
            snprintf(why, bytes, "%s: %s", name, strerror(error));
    }
}

void nm_say_refused(enum nm_call call, int error, const char *instead) {
    static _Atomic bool said[NM_CALLS];
    char why[160], remedy[160];
    if (atomic_exchange(&said[call], true)) return;
    explain(call, error, why, remedy, sizeof why);
    nm_note("warn", instead, why, remedy);
}
