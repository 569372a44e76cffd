/* The shim's locks: a thread that holds one and asks for it again is told so (EDEADLK) and does not
 * wait for itself, which matters at a fork. init.c lists them all. */
#ifndef NM_LOCK_H
#define NM_LOCK_H

#include <pthread.h>

#define NM_LOCK_INITIALIZER PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP

#endif
