import CJemalloc

/// The allocator of the program: jemalloc, linked in place of the C library's.
///
/// A message is allocated on one thread and freed on another, thousands at a time, while others stay. The C library's
/// allocator then merges and splits blocks all the while; what that costs is in `Benchmarks/README.md`.
enum Allocator {
    /// Lets a thread of the allocator give memory back to the kernel that was not used for ten seconds.
    ///
    /// Without it memory is given back by threads that allocate, so a gateway that has nothing to do would keep it.
    static func configure() {
        var isOn = true
        _ = mallctl("background_thread", nil, nil, &isOn, MemoryLayout<Bool>.size)
    }
}
