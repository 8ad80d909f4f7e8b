import CJemalloc

/// The allocator of the program: jemalloc, linked in place of the C library's.
///
/// A message is allocated on one thread and freed on another, thousands at a time, while others stay. The C library's
/// allocator then merges and splits blocks all the while; what that costs is in `Benchmarks/README.md`.
enum Allocator {
    /// Its version, such as `5.3.0`; empty when another allocator is in its place.
    static var version: String {
        var text: UnsafePointer<CChar>?
        var size = MemoryLayout.size(ofValue: text)
        guard mallctl("version", &text, &size, nil, 0) == 0, let text else { return "" }
        return String(String(cString: text).prefix { $0 != "-" })
    }

    /// Lets a thread of the allocator give memory back to the kernel that was not used for ten seconds.
    ///
    /// Without it memory is given back by threads that allocate, so a gateway that has nothing to do would keep it.
    static func configure() {
        var isOn = true
        _ = mallctl("background_thread", nil, nil, &isOn, MemoryLayout<Bool>.size)
    }
}
