internal import Synchronization

/// A list that collects values in order, such as those passed to a closure under test.
public final class Recorder<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])

    /// Makes an empty recorder.
    public init() {}

    /// Adds a value.
    public func add(_ element: Element) { elements.withLock { $0.append(element) } }

    /// Removes all values.
    public func clear() { elements.withLock { $0 = [] } }

    /// The values so far.
    public var all: [Element] { elements.withLock { $0 } }
}
