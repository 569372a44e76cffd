/* What a person is told of refused calls, pages that stay, and a page that cannot be made. */
#include <errno.h>
#include <sys/resource.h>

#include "config.h"
#include "heal.h"
#include "heard.h"
#include "refusal.h"
#include "status.h"

static void a_refused_call_is_said_once_with_cause_and_remedy(void) {
    nm_say_refused(NM_MBIND, EPERM, "replicas are filled as it comes");
    nm_say_refused(NM_MBIND, EPERM, "replicas are filled as it comes");
    CHECK(times_said("\"what\":\"replicas are filled as it comes\"") == 1);
    CHECK(times_said("mbind: EPERM: blocked by the container's seccomp profile") == 1);
    CHECK(times_said("give the container CAP_SYS_NICE or a seccomp profile that allows mbind") ==
          1);
}

/* With the list that the kernel gives this process. */
static const char *likely_outside(const char *what, const char *key) {
    static char said[512];
    char line[256], format[64], list[256] = "";
    FILE *status = fopen("/proc/self/status", "re");
    CHECK(status != NULL);
    snprintf(format, sizeof format, "%s: %%255s", key);
    while (list[0] == '\0' && fgets(line, sizeof line, status) != NULL) sscanf(line, format, list);
    fclose(status);
    CHECK(list[0] != '\0');
    snprintf(said, sizeof said, "sched_setaffinity: EINVAL: likely %s outside %s (%s)", what, key,
             list);
    return said;
}

static void errnos_are_told_apart(void) {
    nm_say_refused(NM_MOVE_PAGES, ENOSYS, "pages stay");
    CHECK(times_said("move_pages: ENOSYS: this kernel does not have it, or a sandbox hides it") ==
          1);
    CHECK(times_said("start it outside the sandbox, or on another kernel") == 1);
    nm_say_refused(NM_AFFINITY, EINVAL, "threads stay");
    CHECK(times_said(likely_outside("CPUs", "Cpus_allowed_list")) == 1);
    CHECK(times_said("widen cpuset.mems and cpuset.cpus of the control group") == 1);
    nm_say_refused(NM_MEMFD, EMFILE, "no memfd");
    CHECK(times_said("memfd_create: Too many open files") == 1);
}

static void pages_that_stay_have_a_reason(void) {
    static const struct {
        int error;
        const char *reason;
    } reasons[] = {
        {EPERM, "move_pages: EPERM: a seccomp profile, as containers have, forbids it"},
        {ENOSYS, "move_pages: ENOSYS: the kernel or a seccomp profile does not offer it"},
        {EACCES, "other processes map the same file, and its pages are theirs too"},
        {EBUSY, "the pages are pinned, as memory registered with a GPU is"},
        {ENOMEM, "their node has no room for them"},
        {ENODEV, "their node is not allowed to this process"},
        {0, "the kernel left them where they are"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; ++i)
        CHECK(strcmp(nm_heal_reason(reasons[i].error), reasons[i].reason) == 0);
}

static void without_a_descriptor_there_is_no_status_page_and_that_is_said(void) {
    struct rlimit before, none = {0, 0};
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    nm_status_open();
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(times_said("no status page: inspect will not see the mirror") == 1);
    nm_status_begin(); /* it is there all the same, for the shim alone */
    nm_status_end();
}

int main(void) {
    listen_to_the_shim();
    nm_config.log = true;
    RUN(a_refused_call_is_said_once_with_cause_and_remedy);
    RUN(errnos_are_told_apart);
    RUN(pages_that_stay_have_a_reason);
    RUN(without_a_descriptor_there_is_no_status_page_and_that_is_said);
    return 0;
}
