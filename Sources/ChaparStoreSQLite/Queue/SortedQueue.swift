/// Entries in order of their due time, claimed from the front; nearly all of them arrive at the back.
///
/// A ``Flow`` has two: one for due entries, one for later ones. It is a value without access to disk or claims.
struct SortedQueue {
    private struct Slot {
        var key: DueKey
        var entry: Entry?
    }

    private var slots: [Slot] = []
    private var start = 0

    var count: Int { slots.count - start }
    var isEmpty: Bool { start == slots.count }
    var first: DueKey? { isEmpty ? nil : slots[start].key }
    /// Whether the last entry has no row of its own on disk.
    var endsWithoutRow: Bool { isEmpty ? false : slots[slots.count - 1].entry?.stagedRow != nil }
    var last: DueKey? { isEmpty ? nil : slots[slots.count - 1].key }

    mutating func insert(_ entry: Entry) {
        let slot = Slot(key: entry.key, entry: entry)
        if let last, slot.key < last {
            slots.insert(slot, at: index(of: slot.key))
        } else {
            slots.append(slot)
        }
    }

    mutating func popFirst() -> Entry? {
        guard !isEmpty else { return nil }
        defer {
            slots[start].entry = nil
            start += 1
            if start == slots.count {
                slots.removeAll(keepingCapacity: true)
                start = 0
            } else if start >= 1_024, start > slots.count / 2 {
                slots.removeFirst(start)
                start = 0
            }
        }
        return slots[start].entry
    }

    mutating func popLast() -> Entry? {
        guard !isEmpty else { return nil }
        let slot = slots.removeLast()
        if start == slots.count {
            slots.removeAll(keepingCapacity: true)
            start = 0
        }
        return slot.entry
    }

    /// Removes an entry from the middle; nil when it is not there.
    mutating func remove(_ key: DueKey) -> Entry? {
        let index = index(of: key)
        guard index < slots.count, slots[index].key == key else { return nil }
        return slots.remove(at: index).entry
    }

    /// Returns the first index whose key is not below `key`.
    private func index(of key: DueKey) -> Int {
        var low = start
        var high = slots.count
        while low < high {
            let middle = (low + high) / 2
            if slots[middle].key < key { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
