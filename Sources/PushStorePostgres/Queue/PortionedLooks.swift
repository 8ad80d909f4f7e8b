internal import PushCore

/// When, and how far back, a look is made at rows in the order of a time, while their index may be full of dead
/// entries: the server keeps these for as long as some session holds a snapshot, and a look passes over all of them.
///
/// A look that costs little takes all. Else it goes back in portions of a bounded cost, newest first, with pauses that
/// leave nineteen twentieths of the time to other work.
struct PortionedLooks {
    /// The longest time that a search may take.
    static let limit = Duration.milliseconds(250)
    /// A look that takes less is no burden.
    static let cheap = Duration.milliseconds(20)
    private static let mostOfTheTime = 19
    /// The shortest portion, in milliseconds of the rows' times, and the one that is tried first where all is too much.
    private static let (shortest, first): (Int64, Int64) = (1_000, 3_600_000)
    /// Longer than anything waits.
    private static let longest: Int64 = 400 * 86_400_000

    /// Something is known to be there: the next look is not delayed without need, and begins with the newest.
    var isWanted = false
    private(set) var limit = Self.limit
    /// The length of a portion; nil while one look takes all.
    private var span: Int64?
    /// Where the next portion ends; nil at the newest.
    private var upTo: Int64?
    private var from: Int64 = -1
    private var last: (at: ContinuousClock.Instant, took: Duration)?
    private let interval: Duration

    private let cheap: Duration

    /// Looks that cost little, by what a look takes, are made so often, unless they are wanted.
    init(every interval: Duration, cheap: Duration = Self.cheap) { (self.interval, self.cheap) = (interval, cheap) }

    /// The times to look at now, after the lower one and up to the upper one; nil when it is not time.
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

    /// A look was made; where it was filled there may be more of it.
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

    /// A look took too long and gave nothing.
    mutating func cut(took: Duration) {
        last = (.now, took)
        // A server that is slow with the least of it is given more time.
        if span == Self.shortest { limit = min(limit * 2, Self.limit * 40) }
        span = span.map { max(Self.shortest, $0 / 4) } ?? Self.first
    }
}
