internal import ChaparCore

/// The timing and the range of searches through rows in the order of a time, when their index may be full of dead
/// entries.
///
/// The server keeps dead entries while any session holds an older snapshot, and a search passes over all of them.
///
/// A cheap search covers everything. Otherwise the search goes back in ranges of a bounded cost, newest first, with
/// pauses that leave nineteen twentieths of the time to other work.
struct IncrementalScan {
    /// The longest time that a search may take.
    static let limit = Duration.milliseconds(250)
    /// The time below which a search is cheap.
    static let cheap = Duration.milliseconds(20)
    private static let mostOfTheTime = 19
    /// The shortest range, in milliseconds of the rows' times, and the first one after a search of everything took
    /// too long.
    private static let (shortest, first): (Int64, Int64) = (1_000, 3_600_000)
    /// Longer than any delivery waits, in milliseconds.
    private static let longest: Int64 = 400 * 86_400_000

    /// Whether work is known to be waiting: the next search is not delayed without need, and begins with the newest.
    var isWanted = false
    private(set) var limit = Self.limit
    /// The length of a range; nil while one search covers everything.
    private var span: Int64?
    /// The end of the next range; nil at the newest.
    private var upTo: Int64?
    private var from: Int64 = -1
    private var last: (at: ContinuousClock.Instant, took: Duration)?
    private let interval: Duration

    private let cheap: Duration

    /// Makes searches that run at most once per `interval` while they are cheap, unless work is known to be waiting.
    init(every interval: Duration, cheap: Duration = Self.cheap) { (self.interval, self.cheap) = (interval, cheap) }

    /// Returns the times to search now, after the lower one and up to the upper one; nil when it is not time.
    mutating func range(newest: Int64, _ now: ContinuousClock.Instant) -> ClosedRange<Int64>? {
        if let last {
            let pause =
                last.took < cheap ? (isWanted ? .zero : interval) : last.took * Self.mostOfTheTime
            guard last.at.duration(to: now) >= pause else { return nil }
        }
        if isWanted { upTo = nil }
        isWanted = false
        let end = min(upTo ?? newest, newest)
        from = span.map { max(-1, end.subtracting(clamping: $0)) } ?? -1
        upTo = end
        return min(from, end)...end
    }

    /// Records a search; one that was filled may have left more.
    mutating func end(took: Duration, isFilled: Bool) {
        last = (.now, took)
        limit = Self.limit
        if isFilled {
            isWanted = took < cheap
            return
        }
        upTo = from < 0 ? nil : from
        guard let span, took < Self.limit / 4 else { return }
        self.span = span > Self.longest / 2 ? nil : span.multiplied(clamping: 2)
    }

    /// Records a search that took too long and returned nothing.
    mutating func cut(took: Duration) {
        last = (.now, took)
        // A server that is too slow for the shortest range gets more time.
        if span == Self.shortest { limit = min(limit * 2, Self.limit * 40) }
        span = span.map { max(Self.shortest, $0 / 4) } ?? Self.first
    }
}
