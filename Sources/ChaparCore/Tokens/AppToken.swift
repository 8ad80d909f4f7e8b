/// Gets a device token from an app's closure, for the token providers of this module and of plugins.
package enum AppToken {
    /// Returns the result of the closure within the deadline; nil when the app has no token for now.
    ///
    /// Throws ``PushError/Code/unavailable`` when the app fails or does not answer in time; a `PushError` of the app is
    /// passed on.
    package static func fetch<Value: Sendable>(
        within deadline: Duration,
        _ body: @escaping @Sendable () async throws -> Value?
    ) async throws(PushError) -> Value? {
        do {
            return try await Deadline.run(deadline, body)
        } catch is Deadline.Passed {
            throw PushError(.unavailable, "the app gave no token within \(deadline.inSeconds) s")
        } catch let error as PushError {
            throw error
        } catch {
            throw PushError(.unavailable, "the app could not give its token")
        }
    }

    /// Does the same for a token as text, and returns it in the form that `validate` gives it; an empty text counts as
    /// no token.
    ///
    /// Throws ``PushError/Code/badAnswer`` for a text that is no token.
    package static func fetch(
        within deadline: Duration,
        _ body: @escaping @Sendable () async throws -> String?,
        validate: (String) throws(InvalidToken) -> DeviceToken
    ) async throws(PushError) -> DeviceToken? {
        guard let text = try await fetch(within: deadline, body), !text.isEmpty else { return nil }
        do throws(InvalidToken) {
            return try validate(text)
        } catch {
            throw PushError(.badAnswer, "the app gave something that is no token: \(error.problem)")
        }
    }
}
