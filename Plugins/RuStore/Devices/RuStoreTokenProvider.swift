public import ChaparCore

/// Gives and checks the device tokens of `android-rustore` or `android-rustore-universal`, for code that gets them from
/// an app.
///
/// Tokens change: RuStore's SDK tells the app, and the app reports the new one at its next start.
public struct RuStoreTokenProvider: TokenProvider {
    /// `android-rustore` or `android-rustore-universal`.
    public let service: TokenService

    private let deadline: Duration
    private let fetch: @Sendable () async throws -> String?

    /// Makes a provider that asks the app.
    ///
    /// - Parameters:
    ///   - service: `android-rustore`, or `android-rustore-universal` for an app with the universal SDK.
    ///   - deadline: How long `fetch` may take.
    ///   - fetch: Asks the app for its token; nil or an empty text when there is none for now.
    public init(
        _ service: TokenService = .androidRuStore,
        deadline: Duration = .seconds(10),
        fetch: @escaping @Sendable () async throws -> String?
    ) {
        self.service = service
        self.deadline = deadline
        self.fetch = fetch
    }

    /// Returns the current token; nil when the app has none for now.
    ///
    /// Throws `PushError.Code.unavailable` when the app fails or does not answer within the deadline.
    public func token() async throws(PushError) -> DeviceToken? {
        try await AppToken.fetch(within: deadline, fetch) { text throws(InvalidToken) in try validate(text) }
    }

    /// Returns the token without white space at both ends.
    ///
    /// Throws for a text with white space or control characters inside, and for more than 4,096 bytes. There is no
    /// stricter pattern, since RuStore promises none.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken { try Self.form(of: text, service) }

    static func form(of text: String, _ service: TokenService) throws(InvalidToken) -> DeviceToken {
        // The usual case: no blank anywhere.
        if let first = text.utf8.first, let last = text.utf8.last, first | last < 0x80, RuStoreTarget.isToken(text) {
            return DeviceToken(text, service: service)
        }
        var rest = Substring(text)
        while let last = rest.last, last.isWhitespace { rest.removeLast() }
        rest = rest.drop { $0.isWhitespace }
        guard !rest.isEmpty else { throw InvalidToken(service, "it is empty") }
        guard rest.utf8.count <= RuStoreTarget.maximumBytes else {
            throw InvalidToken(service, "it has more than 4,096 characters")
        }
        guard RuStoreTarget.isToken(String(rest)) else {
            throw InvalidToken(service, "it holds blanks or control characters")
        }
        return DeviceToken(String(rest), service: service)
    }
}
