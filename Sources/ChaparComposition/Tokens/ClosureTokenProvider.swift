public import ChaparCore

/// A provider of device tokens of any service that calls a closure, for code that gets tokens from an app.
///
/// It accepts any text as a token; the plugins' own providers also check the form of their services' tokens.
public struct ClosureTokenProvider: TokenProvider {
    /// The longest token, in bytes.
    public static let maximumBytes = DeviceToken.maximumBytes

    /// The service.
    public let service: TokenService
    private let deadline: Duration
    private let fetch: @Sendable () async throws -> String?

    /// Makes a provider.
    ///
    /// - Parameters:
    ///   - service: The service.
    ///   - deadline: The longest time `fetch` may take.
    ///   - fetch: Asks the app for its token; returns nil or blank text when the app has none now.
    public init(
        _ service: TokenService,
        deadline: Duration = .seconds(10),
        fetch: @escaping @Sendable () async throws -> String?
    ) {
        self.service = service
        self.deadline = deadline
        self.fetch = fetch
    }

    /// Returns the current token; nil when the app has none now.
    ///
    /// Throws ``ChaparCore/PushError/Code/unavailable`` when the app fails or does not answer within the deadline, and
    /// ``ChaparCore/PushError/Code/badAnswer`` when its text cannot be a token.
    public func token() async throws(PushError) -> DeviceToken? {
        try await AppToken.fetch(within: deadline) { [fetch] in
            let text = try await fetch()
            return text?.allSatisfy(\.isWhitespace) ?? true ? nil : text
        } validate: { text throws(InvalidToken) in
            try validate(text)
        }
    }
}

/// A ``ClosureTokenProvider`` whose platform can delete a token, so that the next one is new.
///
/// Do not use it for `ios-apns`: Apple's tokens cannot be deleted, and a chain does not try to delete them.
public struct DeletingClosureTokenProvider: TokenDeleting {
    private let source: ClosureTokenProvider
    private let deadline: Duration
    private let deletion: @Sendable (DeviceToken) async throws -> Void

    /// Makes a provider.
    ///
    /// - Parameters:
    ///   - source: The provider of the tokens.
    ///   - deadline: The longest time `delete` may take.
    ///   - delete: Asks the app to delete its token; a token that does not exist is no error.
    public init(
        _ source: ClosureTokenProvider,
        deadline: Duration = .seconds(10),
        delete: @escaping @Sendable (DeviceToken) async throws -> Void
    ) {
        self.source = source
        self.deadline = deadline
        deletion = delete
    }

    /// The service.
    public var service: TokenService { source.service }

    /// Returns the current token; nil when the app has none now.
    public func token() async throws(PushError) -> DeviceToken? { try await source.token() }

    /// Accepts what the source accepts.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken { try source.validate(text) }

    /// Deletes the token.
    ///
    /// Throws ``ChaparCore/PushError/Code/unavailable`` when the app fails or does not answer within the deadline.
    public func delete(_ token: DeviceToken) async throws(PushError) {
        do {
            try await Deadline.run(deadline) { try await deletion(token) }
        } catch is Deadline.Passed {
            throw PushError(.unavailable, "the app deleted no token within \(deadline.inSeconds) s")
        } catch let error as PushError {
            throw error
        } catch {
            throw PushError(.unavailable, "the app could not delete its token")
        }
    }
}
