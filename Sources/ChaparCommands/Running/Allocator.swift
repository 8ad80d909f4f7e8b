import CChaparJemalloc

/// The allocator of the program: jemalloc, linked in place of the C library's.
///
/// A message is allocated on one thread and freed on another, thousands at a time, while others stay. The C library's
/// allocator then keeps merging and splitting blocks; `docs/Measured.md` has the cost.
enum Allocator {
    /// The version of jemalloc, such as `5.3.0`; empty when another allocator is in its place.
    static var version: String {
        var text: UnsafePointer<CChar>?
        var size = MemoryLayout.size(ofValue: text)
        guard mallctl("version", &text, &size, nil, 0) == 0, let text else { return "" }
        return String(String(cString: text).prefix { $0 != "-" })
    }

    /// Starts a thread of the allocator that returns memory unused for ten seconds to the kernel.
    ///
    /// Without it only threads that allocate return memory, so an idle gateway would keep it.
    static func configure() {
        var isOn = true
        _ = mallctl("background_thread", nil, nil, &isOn, MemoryLayout<Bool>.size)
    }
}
