/// A set that forgets its oldest half when it is full, so that a simulator can run for days.
package struct BoundedSet<Element: Hashable & Sendable>: Sendable {
    private var young: Set<Element> = []
    private var old: Set<Element> = []
    private let limit: Int

    /// Makes a set that remembers between `limit` and `2 * limit` elements.
    package init(limit: Int) { self.limit = limit }

    /// Adds an element; returns false when it is in the set already.
    package mutating func insert(_ element: Element) -> Bool {
        if old.contains(element) { return false }
        guard young.insert(element).inserted else { return false }
        if young.count >= limit {
            old = young
            young = []
        }
        return true
    }
}
