#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "filter.h"

enum { DATAGRAM_BYTES = 4096 };

/* A launcher that has not had a CPU for a moment falls behind, and its queue may be short: ten
 * datagrams where a container has a network namespace of its own. What is told over and over is
 * left out then; anything else is offered again, for about a second in all of this process. */
static void offer(int channel, const struct msghdr *message, bool is_passing) {
    static _Atomic int patience = 500;
    const struct timespec moment = {.tv_nsec = 2000000};
    while (sendmsg(channel, message, MSG_NOSIGNAL) < 0 && errno == EAGAIN && !is_passing &&
           atomic_load(&patience) > 0) {
        atomic_fetch_sub(&patience, 1);
        nanosleep(&moment, NULL);
    }
}

/* A socket per event: a descriptor kept open could be closed by the engine and its number given
 * to something else, and events are rare. */
static void send_datagram(const char *text, size_t bytes, int fd, bool is_passing) {
    int channel = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (channel < 0) return;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t name = strlen(nm_config.events + 1);
    memcpy(to.sun_path + 1, nm_config.events + 1, name);
    struct iovec data = {.iov_base = (void *)text, .iov_len = bytes};
    struct msghdr message = {
        .msg_name = &to,
        .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name),
        .msg_iov = &data,
        .msg_iovlen = 1,
    };
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    offer(channel, &message, is_passing);
    close(channel);
}

/* A descriptor cannot travel in a pipe: the launcher looks for it in /proc when it has read the
 * line, for which a short program must still be there. */
static void wait_until_read(int pipe) {
    const struct timespec moment = {.tv_nsec = 2000000};
    int waiting = 1;
    for (int i = 0; i < 100 && ioctl(pipe, FIONREAD, &waiting) == 0 && waiting > 0; ++i)
        nanosleep(&moment, NULL);
}

/* "/proc/4711/fd/5#90210": a pipe of the launcher, where sockets are refused. In another PID
 * namespace that may be anybody's file, which the inode tells before it is opened. */
static void write_line(char *text, size_t bytes, int fd) {
    char path[sizeof nm_config.events];
    struct stat found;
    snprintf(path, sizeof path, "%s", nm_config.events);
    char *inode = strchr(path, '#');
    *inode++ = '\0';
    if (stat(path, &found) != 0 || !S_ISFIFO(found.st_mode)) return;
    if (found.st_ino != strtoull(inode, NULL, 10)) return;
    /* Its own reader too, so that there is never a SIGPIPE when the launcher has gone. */
    int pipe = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (pipe < 0) return;
    text[bytes] = '\n';
    /* Not more than PIPE_BUF: whole, or not at all. */
    if (write(pipe, text, bytes + 1) > 0 && fd >= 0) wait_until_read(pipe);
    close(pipe);
}

static void send_text(char *text, size_t bytes, int fd, bool is_passing) {
    if (nm_config.events[0] == '@') send_datagram(text, bytes, fd, is_passing);
    if (nm_config.events[0] == '/') write_line(text, bytes, fd);
    text[bytes] = '\0';
}

static bool is_passing(const char *name) {
    return strcmp(name, "progress") == 0 || strcmp(name, "placing") == 0;
}

static void send_event(int fd, const char *name, const char *format, va_list arguments) {
    if ((nm_config.events[0] == '\0' && !nm_config.log) || nm_filter_added()) return;
    int saved = errno;
    char text[DATAGRAM_BYTES];
    int head = snprintf(text, sizeof text, "{\"v\":1,\"pid\":%ld,\"event\":\"%s\"%s",
                        (long)getpid(), name, format[0] == '\0' ? "" : ",");
    int tail = vsnprintf(text + head, sizeof text - (size_t)head - 1, format, arguments);
    size_t bytes = (size_t)head + (size_t)tail;
    if (tail >= 0 && bytes < sizeof text - 2) {
        text[bytes++] = '}';
        send_text(text, bytes, fd, is_passing(name));
        if (nm_config.log) fprintf(stderr, "numamirror: %s\n", text);
    }
    errno = saved;
}

void nm_event(const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    send_event(-1, name, format, arguments);
    va_end(arguments);
}

void nm_event_with_fd(int fd, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    send_event(fd, name, format, arguments);
    va_end(arguments);
}

void nm_note(const char *level, const char *what, const char *why, const char *remedy) {
    char text[3][512];
    nm_event("note", "\"level\":\"%s\",\"what\":\"%s\",\"why\":\"%s\",\"remedy\":\"%s\"", level,
             nm_json_escape(text[0], sizeof text[0], what),
             nm_json_escape(text[1], sizeof text[1], why),
             nm_json_escape(text[2], sizeof text[2], remedy));
}

const char *nm_json_escape(char *out, unsigned long bytes, const char *text) {
    size_t used = 0;
    for (; *text != '\0' && used + 7 < bytes; ++text) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            out[used++] = '\\';
            out[used++] = (char)c;
        } else if (c < 0x20) {
            used += (size_t)snprintf(out + used, bytes - used, "\\u%04x", c);
        } else {
            out[used++] = (char)c;
        }
    }
    out[used] = '\0';
    return out;
}
