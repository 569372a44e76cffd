/* Stands before libc's syscall(3) and refuses the calls of mprotect with the numbers REFUSE_FROM to
 * REFUSE_TO. In a library of its own: the code of the program is what changes. x86-64. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>

int refusing_calls;

static int number_in(const char *variable) {
    const char *text = getenv(variable);
    return text == NULL ? 0 : atoi(text);
}

static long make_call(long number, const long *a) {
    register long fourth __asm__("r10") = a[3];
    register long fifth __asm__("r8") = a[4];
    register long sixth __asm__("r9") = a[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(fourth), "r"(fifth),
                       "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}

long syscall(long number, ...) {
    long argument[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; ++i) argument[i] = va_arg(list, long);
    va_end(list);
    long result = 0;
    if (number == SYS_mprotect && ++refusing_calls >= number_in("REFUSE_FROM") &&
        refusing_calls <= number_in("REFUSE_TO"))
        result = -EACCES;
    else
        result = make_call(number, argument);
    if (result > -4096 && result < 0) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
