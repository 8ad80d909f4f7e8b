internal import ChaparCore

/// Runs `body` for at most `waitLimit`; throws a failure with the sentence when it does not end.
func within<Value: Sendable>(
    _ waitLimit: Duration,
    _ sentence: @autoclosure () -> String,
    _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    do {
        return try await Deadline.run(waitLimit, body)
    } catch is Deadline.Passed {
        throw ConformanceFailure(sentence())
    }
}

/// Runs a call of a platform's ability; turns its error into a conformance failure.
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

/// Tries a condition again and again until it holds.
///
/// - Parameters:
///   - what: The condition in words, for the failure.
///   - limit: The time after which it fails.
///   - pause: The wait between two attempts.
///   - condition: Whether it holds.
/// - Throws: ``ConformanceFailure`` when it does not hold within the limit; the error of the condition.
package func eventually(
    _ what: String,
    within limit: Duration = .seconds(30),
    every pause: Duration = .milliseconds(5),
    _ condition: () async throws -> Bool
) async throws {
    guard try await eventually(within: limit, every: pause, condition) else {
        throw ConformanceFailure("never happened: \(what)")
    }
}

/// Tries the claim again and again until it holds or the wait limit ends; returns whether it held.
func eventually(
    within waitLimit: Duration,
    every pause: Duration = .milliseconds(2),
    _ claim: () async throws -> Bool
) async throws -> Bool {
    let end = ContinuousClock.now + waitLimit
    while ContinuousClock.now < end {
        if try await claim() { return true }
        try await Task.sleep(for: pause)
    }
    return try await claim()
}
