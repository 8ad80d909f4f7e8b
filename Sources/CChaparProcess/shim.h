#if defined(__linux__)
#include <sys/prctl.h>
#endif

/// Keeps the process's memory out of core dumps and away from other processes of its user; returns 0 on success.
///
/// It is in C, since Swift cannot call variadic functions. Only Linux has it.
static inline int forbid_dumps(void) {
#if defined(__linux__)
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#else
    return -1;
#endif
}
