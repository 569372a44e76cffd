/* The seam through which a program puts itself under a filter (seccomp(2)). libseccomp and all who
 * are not root must set no_new_privs first, and do it by prctl. */
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config.h"
#include "filter.h"
#include "seam.h"

NM_EXPORT int prctl(int option, ...) {
    unsigned long arguments[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; ++i) arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if (nm_config.active && (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP))
        nm_filter_notice();
    return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}
