internal import Foundation

/// The recipients of a batch that wait for their turn, in order, each no longer than the time to live of its message.
struct WaitingLine {
    private var rest: ArraySlice<BatchIndex>
    /// The steady time when each request's time to live ends.
    private let ends: [Date?]
    /// A time before which no message in the line expires; nil when none does.
    private(set) var firstEnd: Date?

    init(_ indices: [BatchIndex], _ ends: [Date?]) {
        rest = indices[...]
        self.ends = ends
        firstEnd = Self.first(rest, ends)
    }

    var isEmpty: Bool { rest.isEmpty }
    var count: Int { rest.count }

    /// Removes the first `count` recipients and returns them.
    mutating func take(_ count: Int) -> ArraySlice<BatchIndex> {
        let taken = rest.prefix(count)
        rest = rest.dropFirst(count)
        return taken
    }

    /// Removes the recipients whose messages have expired by a steady time, and returns them.
    mutating func takeExpired(at time: Date) -> [BatchIndex] {
        guard let firstEnd, firstEnd <= time else { return [] }
        let late = rest.filter { isExpired($0, at: time) }
        rest = rest.filter { !isExpired($0, at: time) }[...]
        self.firstEnd = Self.first(rest, ends)
        return late
    }

    private func isExpired(_ index: BatchIndex, at time: Date) -> Bool {
        ends[index.request].map { $0 <= time } ?? false
    }

    private static func first(_ rest: ArraySlice<BatchIndex>, _ ends: [Date?]) -> Date? {
        rest.lazy.compactMap { ends[$0.request] }.min()
    }
}
