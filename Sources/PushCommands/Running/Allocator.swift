import CMalloc

/// Tells the C library's allocator that this program runs for long and reuses its memory.
enum Allocator {
    /// Keeps freed memory for the next message instead of giving it back to the kernel and asking for it again.
    ///
    /// By default glibc grows and trims each thread's heap in small steps; under load that was a system call for every
    /// fourth message, each of them with the page faults that follow.
    static func settle() {
        _ = mallopt(M_TRIM_THRESHOLD, 16 << 20)
        _ = mallopt(M_TOP_PAD, 1 << 20)
    }
}
