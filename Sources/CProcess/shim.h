#include <sys/prctl.h>

/// Keeps the process's memory out of core dumps and away from other processes of its user; 0 when it worked.
///
/// Here, since Swift cannot call functions of variable arguments.
static inline int forbid_dumps(void) {
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
