/* Preloaded into a gateway, it sets its wall clock wrong by SKEW seconds, which goes at the right speed. Debian's faketime looks for libc's
   own functions while jemalloc starts, which asks for the time itself: neither ever ends. The system call needs no looking. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long skew(void) {
    static long seconds;
    static int known;
    if (!known) {
        const char *text = getenv("SKEW");
        seconds = text ? atol(text) : 0;
        known = 1;
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += skew();
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

/* Waits until a time of day are given one by the wrong clock; a time that is too small to be one is of the monotonic clock. */
static struct timespec real(const struct timespec *until) {
    struct timespec time = *until;
    if (time.tv_sec > 1000000000) time.tv_sec -= skew();
    return time;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec time = real(until);
    return pthread_cond_clockwait(condition, mutex, until->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &time);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec time = real(until);
    return sem_clockwait(semaphore, CLOCK_REALTIME, &time);
}
