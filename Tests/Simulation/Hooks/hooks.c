// Puts the simulation in the place of the machine: Swift's executor, the clocks and the source of randomness.
//
// The clocks and the randomness are those of libc. A function of the same name in the program goes before the one of a library, so
// Swift's runtime, Foundation and Dispatch ask here as well. Until something is installed all of it is the machine's.
#define _GNU_SOURCE
#include "SimulationHooks.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define SWIFT __attribute__((swiftcall))
#define EXPORTED __attribute__((visibility("default")))

// Of the runtime library of Swift's concurrency (ConcurrencyHooks.def).
extern SWIFT void (*swift_task_enqueueGlobal_hook)(void *job, void *original);
extern SWIFT void (*swift_task_enqueueMainExecutor_hook)(void *job, void *original);
extern SWIFT void swift_job_run(void *job, void *identity, void *implementation);

static simulation_enqueue enqueue_job;
static simulation_draw draw_number;
// Of the threads that work for the simulation; those of Dispatch, which only free what is left, keep the machine's clock.
static _Thread_local int is_simulated;
static int64_t monotonic_now, wall_now;

static long (*host_syscall(void))(long, ...) {
    static long (*host)(long, ...);
    if (!host) host = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return host;
}

static SWIFT void take_job(void *job, void *original) {
    (void)original;
    enqueue_job(job);
}

void simulation_install(simulation_enqueue enqueue, simulation_draw draw) {
    enqueue_job = enqueue;
    draw_number = draw;
    swift_task_enqueueGlobal_hook = take_job;
    swift_task_enqueueMainExecutor_hook = take_job;
}

// No executor: the job runs as one of the global executor.
void simulation_run(void *job) { swift_job_run(job, NULL, NULL); }

void simulation_set_clock(int64_t monotonic, int64_t wall) {
    monotonic_now = monotonic;
    wall_now = wall;
}

void simulation_enter(void) { is_simulated = 1; }

int64_t simulation_host_clock(void) {
    struct timespec now;
    host_syscall()(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!is_simulated) return (int)host_syscall()(SYS_clock_gettime, clock, time);
    int64_t now = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? wall_now : monotonic_now;
    time->tv_sec = now / 1000000000;
    time->tv_nsec = now % 1000000000;
    return 0;
}

static void fill(void *buffer, size_t count) {
    uint8_t *place = buffer;
    while (count > 0) {
        uint64_t number = draw_number();
        size_t part = count < sizeof number ? count : sizeof number;
        memcpy(place, &number, part);
        place += part;
        count -= part;
    }
}

// Swift's runtime asks the kernel for randomness through this function.
EXPORTED long syscall(long number, ...) {
    long words[6];
    va_list list;
    va_start(list, number);
    for (int place = 0; place < 6; place++) words[place] = va_arg(list, long);
    va_end(list);
    if (number == SYS_getrandom && draw_number) {
        fill((void *)words[0], (size_t)words[1]);
        return words[1];
    }
    return host_syscall()(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

EXPORTED void swift_stdlib_random(void *buffer, size_t count) {
    if (draw_number) {
        fill(buffer, count);
    } else {
        host_syscall()(SYS_getrandom, buffer, count, 0);
    }
}

// Swift's runtime lets tasks sleep so. Nothing in a simulated gateway may wait for the machine's time.
EXPORTED void dispatch_after_f(uint64_t when, void *queue, void *context, void *work) {
    (void)when, (void)queue, (void)context, (void)work;
    abort();
}
