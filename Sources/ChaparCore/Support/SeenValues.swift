import Synchronization

/// The values that have occurred before, such as undocumented error codes of a vendor, so that each value is logged
/// only once.
///
/// A backend has one such set for each kind of value, and adds every unknown value. The set keeps at most ``limit``
/// values; after that no value counts as new, so that a peer cannot fill the memory or the log.
package final class SeenValues: Sendable {
    /// The most values that are kept.
    package static let limit = 100

    private let values = Mutex<Set<String>>([])

    package init() {}

    /// Adds a value; returns true the first time.
    package func add(_ value: String) -> Bool {
        values.withLock { $0.count < Self.limit && $0.insert(value).inserted }
    }
}
