/* Events to the launcher: one JSON object per datagram (docs/protocol.md). Not for hot paths. */
#ifndef NM_EVENTS_H
#define NM_EVENTS_H

/* Sends {"v":1,"pid":...,"event":NAME, ...}; `format` gives the further keys, without braces. */
void nm_event(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with a descriptor attached as SCM_RIGHTS; fd -1: without. */
void nm_event_with_fd(int fd, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A message for the user in three phrases: what, why, remedy; each may be "". */
void nm_note(const char *level, const char *what, const char *why, const char *remedy);

/* Copies text into a JSON string's inside: quotes, backslashes and control characters escaped,
 * cut to `bytes`. Returns `out`. */
const char *nm_json_escape(char *out, unsigned long bytes, const char *text);

#endif
