/// The expiry of what waits, and a round of the search for expired deliveries over all of it.
struct ExpiryRound {
    /// A place in the index of waiting deliveries.
    struct Position {
        var flow: Int64
        var due: Int64
        var id: Int64
    }

    /// The moment before which no waiting delivery expires, as far as is known.
    private(set) var floor = Int64.min
    /// The last place that was read; nil at the start of a round.
    var cursor: Position?
    /// The earliest expiry that the round has found, of old deliveries and of those that were added meanwhile.
    private var lowest = Int64.max

    /// Records the expiry of a delivery that the round has read.
    mutating func note(read expiry: Int64) { lowest = min(lowest, expiry) }

    /// Records the expiry of a delivery that waits from now on.
    mutating func note(new expiry: Int64) {
        floor = min(floor, expiry)
        lowest = min(lowest, expiry)
    }

    /// Ends the round, which has read everything.
    mutating func end() {
        let found = lowest
        self = ExpiryRound()
        floor = found
    }
}
