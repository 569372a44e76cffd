/* Events arrive whole as one datagram of JSON, with the descriptor where one is sent. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "config.h"
#include "events.h"

static int listen_as(const char *name) {
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    strcpy(at.sun_path + 1, name);
    CHECK(bind(fd, (struct sockaddr *)&at, (socklen_t)(sizeof at.sun_family + 1 + strlen(name))) ==
          0);
    snprintf(nm_config.events, sizeof nm_config.events, "@%s", name);
    return fd;
}

static char name[64];

static void a_note_is_one_line_of_json(void) {
    int fd = listen_as(name);
    nm_note("warn", "say \"what\"", "back\\slash\n", "");
    char text[4096];
    ssize_t bytes = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    CHECK(bytes > 0);
    text[bytes] = '\0';
    CHECK(strstr(text, "{\"v\":1,\"pid\":") == text);
    CHECK(strstr(text, "\"what\":\"say \\\"what\\\"\",\"why\":\"back\\\\slash\\u000a\"") != NULL);
    CHECK(text[bytes - 1] == '}');
    close(fd);
}

/* ---- a launcher that is behind: whenever the shim waits, it reads one datagram ---- */

static int behind = -1, waits;
static char heard[4096];

static void read_one(int fd) {
    ssize_t bytes = recv(fd, heard, sizeof heard - 1, MSG_DONTWAIT);
    heard[bytes < 0 ? 0 : bytes] = '\0';
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left) {
    (void)wanted, (void)left;
    ++waits;
    if (behind >= 0) read_one(behind);
    return 0;
}

/* Each from a socket of its own, whose own limit ends nothing. */
static void fill_the_queue_of(const char *listener) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strcpy(to.sun_path + 1, listener);
    socklen_t bytes = (socklen_t)(sizeof to.sun_family + 1 + strlen(listener));
    for (bool fits = true; fits;) {
        int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
        CHECK(fd >= 0);
        fits = sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&to, bytes) == 1;
        close(fd);
    }
}

static void an_event_waits_for_a_launcher_that_is_behind(void) {
    int fd = behind = listen_as(name);
    fill_the_queue_of(name);
    waits = 0;
    nm_note("warn", "it is heard", "", "");
    CHECK(waits > 0);
    do read_one(fd);
    while (heard[0] == 'x');
    CHECK(strstr(heard, "it is heard") != NULL);
    close(fd);
}

static void what_only_tells_how_far_it_is_does_not_wait(void) {
    int fd = behind = listen_as(name);
    fill_the_queue_of(name);
    waits = 0;
    nm_event("progress", "\"copy\":%d", 1);
    nm_event("placing", "\"bytes\":%d", 1);
    CHECK(waits == 0);
    close(fd);
}

static void for_a_launcher_that_stands_still_nobody_waits_for_long(void) {
    int fd = listen_as(name);
    behind = -1;
    fill_the_queue_of(name);
    waits = 0;
    for (int i = 0; i < 3; ++i) nm_note("warn", "not heard", "", "");
    CHECK(waits > 400 && waits <= 500); /* times 2 ms, in all */
    close(fd);
}

static void a_descriptor_travels_with_the_event(void) {
    int fd = listen_as(name), pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0);
    nm_event_with_fd(pipe_ends[1], "hello", "%s", "");
    char text[256];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec data = {text, sizeof text};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    CHECK(recvmsg(fd, &message, MSG_DONTWAIT) > 0);
    int got;
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    CHECK(write(got, "x", 1) == 1 && read(pipe_ends[0], text, 1) == 1 && text[0] == 'x');
    close(got);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    close(fd);
}

static void without_a_listener_nothing_happens(void) {
    strcpy(nm_config.events, "@numamirror-test-nobody");
    nm_event("progress", "\"copy\":%d", 1);
    nm_config.events[0] = '\0';
    nm_event("progress", "\"copy\":%d", 1);
}

/* As the launcher names a pipe of its own: by its process, descriptor and inode. */
static void name_pipe(int end, unsigned long inode) {
    snprintf(nm_config.events, sizeof nm_config.events, "/proc/%ld/fd/%d#%lu", (long)getpid(), end,
             inode);
}

static void without_sockets_an_event_is_a_line_in_the_launchers_pipe(void) {
    int ends[2];
    struct stat found;
    char text[4096];
    CHECK(pipe(ends) == 0 && fstat(ends[1], &found) == 0);
    name_pipe(ends[1], found.st_ino);
    nm_event("progress", "\"copy\":%d", 1);
    ssize_t bytes = read(ends[0], text, sizeof text - 1);
    CHECK(bytes > 0 && text[bytes - 1] == '\n');
    text[bytes] = '\0';
    CHECK(strstr(text, ",\"event\":\"progress\",\"copy\":1}\n") != NULL);
    close(ends[0]);
    close(ends[1]);
}

/* In another PID namespace the same path leads to what belongs to somebody else. */
static void what_is_not_the_launchers_pipe_is_not_written_to(void) {
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    name_pipe(ends[1], 1);
    nm_event("progress", "\"copy\":%d", 1);
    CHECK(read(ends[0], &byte, 1) < 0);
    FILE *file = tmpfile();
    struct stat found;
    CHECK(file != NULL && fstat(fileno(file), &found) == 0);
    name_pipe(fileno(file), found.st_ino);
    nm_event("progress", "\"copy\":%d", 1);
    CHECK(fstat(fileno(file), &found) == 0 && found.st_size == 0);
    fclose(file);
    close(ends[0]);
    close(ends[1]);
}

static void a_pipe_that_nobody_reads_any_more_ends_no_engine(void) {
    int ends[2];
    struct stat found;
    CHECK(pipe(ends) == 0 && fstat(ends[1], &found) == 0);
    name_pipe(ends[1], found.st_ino);
    close(ends[0]);
    for (int i = 0; i < 2000; ++i) nm_event("progress", "\"copy\":%d", i); /* more than it holds */
    close(ends[1]);
}

static void a_text_too_long_is_cut_inside_the_json(void) {
    char long_text[2000], out[64];
    memset(long_text, '"', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    nm_json_escape(out, sizeof out, long_text);
    CHECK(strlen(out) < sizeof out && strlen(out) % 2 == 0);
}

int main(void) {
    snprintf(name, sizeof name, "numamirror-test-%ld", (long)getpid());
    RUN(a_note_is_one_line_of_json);
    RUN(an_event_waits_for_a_launcher_that_is_behind);
    RUN(what_only_tells_how_far_it_is_does_not_wait);
    RUN(for_a_launcher_that_stands_still_nobody_waits_for_long);
    RUN(a_descriptor_travels_with_the_event);
    RUN(without_a_listener_nothing_happens);
    RUN(without_sockets_an_event_is_a_line_in_the_launchers_pipe);
    RUN(what_is_not_the_launchers_pipe_is_not_written_to);
    RUN(a_pipe_that_nobody_reads_any_more_ends_no_engine);
    RUN(a_text_too_long_is_cut_inside_the_json);
    return 0;
}
