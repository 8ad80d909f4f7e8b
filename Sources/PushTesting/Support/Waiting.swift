internal import PushCore

/// Runs `body` for at most `patience`; a check whose subject never ends fails with the sentence in its place.
func within<Value: Sendable>(
    _ patience: Duration,
    _ sentence: @autoclosure () -> String,
    _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    do {
        return try await Deadline.run(patience, body)
    } catch is Deadline.Passed {
        throw ConformanceFailure(sentence())
    }
}

/// Runs a call of a platform's ability; what it throws becomes what was seen.
func saying<Value>(
    _ what: String,
    _ body: () async throws(PushError) -> Value
) async throws(ConformanceFailure) -> Value {
    do throws(PushError) {
        return try await body()
    } catch {
        throw ConformanceFailure("\(what) failed: \(error)")
    }
}

/// Looks again and again until the claim holds or the patience ends; whether it held.
func eventually(within patience: Duration, _ claim: () async throws -> Bool) async throws -> Bool {
    let end = ContinuousClock.now + patience
    while ContinuousClock.now < end {
        if try await claim() { return true }
        try await Task.sleep(for: .milliseconds(2))
    }
    return try await claim()
}
