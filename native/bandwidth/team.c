#include "team.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "options.h"

struct member {
    struct team *team;
    int number;
    int cpu;
    pthread_t thread;
    double began, ended;
    int error;
};

struct team {
    struct member *members;
    int count;
    nm_task *task;
    void *context;
    bool over; /* written between the barriers only */
    pthread_barrier_t start, end;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int pin_to(int cpu) {
    cpu_set_t *set = CPU_ALLOC(NM_MOST_CPUS);
    size_t bytes = CPU_ALLOC_SIZE(NM_MOST_CPUS);
    if (set == NULL) return ENOMEM;
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    int error = sched_setaffinity(0, bytes, set) == 0 ? 0 : errno;
    CPU_FREE(set);
    return error;
}

static void *work(void *argument) {
    struct member *self = argument;
    struct team *team = self->team;
    self->error = pin_to(self->cpu);
    for (;;) {
        pthread_barrier_wait(&team->start);
        if (team->over) return NULL;
        self->began = now();
        if (self->error == 0) team->task(team->context, self->number, team->count);
        self->ended = now();
        pthread_barrier_wait(&team->end);
    }
}

static double longest(const struct team *team) {
    double first = team->members[0].began, last = team->members[0].ended;
    for (int i = 1; i < team->count; ++i) {
        const struct member *member = &team->members[i];
        if (member->began < first) first = member->began;
        if (member->ended > last) last = member->ended;
    }
    return last - first;
}

static int first_error(const struct team *team) {
    for (int i = 0; i < team->count; ++i)
        if (team->members[i].error != 0) return team->members[i].error;
    return 0;
}

static void run_passes(struct team *team, double seconds, int least, struct nm_passes *passes) {
    double until = now() + seconds;
    do {
        pthread_barrier_wait(&team->start);
        pthread_barrier_wait(&team->end);
        passes->seconds[passes->count++] = longest(team);
    } while (first_error(team) == 0 && passes->count < NM_MOST_PASSES &&
             (now() < until || passes->count < least));
    team->over = true;
    pthread_barrier_wait(&team->start);
}

int nm_team_run(const int *cpus, int count, nm_task *task, void *context, double seconds, int least,
                struct nm_passes *passes) {
    struct team team = {.count = count, .task = task, .context = context};
    passes->count = 0;
    team.members = calloc((size_t)count, sizeof *team.members);
    if (team.members == NULL) return ENOMEM;
    pthread_barrier_init(&team.start, NULL, (unsigned)count + 1);
    pthread_barrier_init(&team.end, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; ++i) {
        team.members[i] = (struct member){.team = &team, .number = i, .cpu = cpus[i]};
        int error = pthread_create(&team.members[i].thread, NULL, work, &team.members[i]);
        /* The others wait at a barrier that will never fill: only the process's end frees them. */
        if (error != 0) return error;
    }
    run_passes(&team, seconds, least, passes);
    for (int i = 0; i < count; ++i) pthread_join(team.members[i].thread, NULL);
    int error = first_error(&team);
    pthread_barrier_destroy(&team.start);
    pthread_barrier_destroy(&team.end);
    free(team.members);
    return error;
}
