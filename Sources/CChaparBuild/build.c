#include "build.h"

// Package.swift defines it. It is in a C file, since Swift's own conditions carry no text, and in a module of its own:
// a new commit then compiles one line and links the program.
#ifndef CHAPAR_COMMIT
#define CHAPAR_COMMIT "unknown"
#endif

const char *build_commit(void) {
    return CHAPAR_COMMIT;
}
