#include <stdbool.h>
#include <jemalloc/jemalloc.h>
