internal import Synchronization

/// Keeps what it is told, in order: what a closure under test is given.
public final class Recorder<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])

    /// Makes an empty one.
    public init() {}

    /// Keeps one more.
    public func add(_ element: Element) { elements.withLock { $0.append(element) } }

    /// Forgets all.
    public func clear() { elements.withLock { $0 = [] } }

    /// What it was told.
    public var all: [Element] { elements.withLock { $0 } }
}
