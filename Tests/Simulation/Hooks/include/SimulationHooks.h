#pragma once
#include <stdint.h>

/// Takes a job of Swift's runtime that may run now.
typedef void (*simulation_enqueue)(void *job);
/// Draws the next random number.
typedef uint64_t (*simulation_draw)(void);

/// Hands every job of tasks and actors to `enqueue` from now on, and takes all randomness from `draw`. For the whole process, and
/// for good.
void simulation_install(simulation_enqueue enqueue, simulation_draw draw);

/// Runs a job on the calling thread until it is done or waits.
void simulation_run(void *job);

/// Gives the calling thread the simulation's clocks.
void simulation_enter(void);

/// Sets the simulation's clocks, in nanoseconds: since some start, and since 1970.
void simulation_set_clock(int64_t monotonic, int64_t wall);

/// The machine's own monotonic clock, in nanoseconds.
int64_t simulation_host_clock(void);
