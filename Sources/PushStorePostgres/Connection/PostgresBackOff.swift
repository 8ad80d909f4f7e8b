/// Keeps a database that is away from being asked all the time.
struct PostgresBackOff {
    private var next = ContinuousClock.now
    private var span = Duration.milliseconds(100)
    private var message = ""

    /// Why it is not to be tried now; nil when it is.
    var refusal: String? { ContinuousClock.now < next ? message : nil }

    mutating func fail(_ message: String) {
        self.message = message
        next = .now + span * Int.random(in: 75...125) / 100
        span = min(span * 2, .seconds(5))
    }
}
