/// A round of the search for expired deliveries over all that wait.
struct ExpiryRound {
    /// A place in the index of waiting deliveries.
    struct Position {
        var flow: Int64
        var due: Int64
        var id: Int64
    }

    /// The last place that was read; nil at the start of a round.
    var cursor: Position?
    /// The earliest expiry that the round has found, of old deliveries and of those that were added meanwhile.
    var lowest = Int64.max
}
