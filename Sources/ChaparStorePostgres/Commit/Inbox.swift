internal import Synchronization

/// The requests of callers, collected so that one transaction serves all that arrived during the one before.
///
/// One task takes; any number add.
final class Inbox<Item: Sendable>: Sendable {
    enum Admission {
        case admitted, full, closed
    }

    private struct State {
        var items: [Item] = []
        var weight = 0
        var isClosed = false
        var taker: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())
    private let capacity: Int

    /// Makes an inbox that is full when it holds this weight or more.
    init(capacity: Int = .max) { self.capacity = capacity }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Adds an item, of any weight while the inbox is not full.
    func add(_ item: Item, weight: Int = 1) -> Admission {
        let (admission, taker) = state.withLock { state -> (Admission, CheckedContinuation<Void, Never>?) in
            guard !state.isClosed else { return (.closed, nil) }
            guard state.weight < capacity else { return (.full, nil) }
            state.items.append(item)
            state.weight += weight
            defer { state.taker = nil }
            return (.admitted, state.taker)
        }
        taker?.resume()
        return admission
    }

    /// Returns all items, and waits until there are some; nil when it is closed and empty.
    func take() async -> [Item]? {
        while true {
            let (items, isClosed) = state.withLock { state in
                defer {
                    state.items.removeAll()
                    state.weight = 0
                }
                return (state.items, state.isClosed)
            }
            if !items.isEmpty { return items }
            if isClosed { return nil }
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if state.isClosed || !state.items.isEmpty { return true }
                    state.taker = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        }
    }

    /// Returns all items in groups of up to `limit` weight each, except for an item that weighs more.
    func take(groupsOfAtMost limit: Int, _ weight: (Item) -> Int) async -> [[Item]]? {
        guard let items = await take() else { return nil }
        var groups: [[Item]] = [[]]
        var sum = 0
        for item in items {
            let more = weight(item)
            if sum > 0, sum + more > limit {
                groups.append([])
                sum = 0
            }
            groups[groups.count - 1].append(item)
            sum += more
        }
        return groups
    }

    /// Closes the inbox for new items; those that are there are still taken.
    func close() {
        let taker = state.withLock { state in
            state.isClosed = true
            defer { state.taker = nil }
            return state.taker
        }
        taker?.resume()
    }
}
