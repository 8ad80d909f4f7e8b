public import ChaparCore

/// Gives and checks the device tokens of `ios-firebase` or `android-firebase`, for code that gets them from an app.
///
/// On iOS Firebase needs an APNs token first, so early calls return nil, and a chain of providers asks again.
/// ``FCMDeletingTokenProvider`` can also delete a token.
public struct FCMTokenProvider: TokenProvider {
    /// The state of a token at Google.
    @nonexhaustive
    public enum Standing: Sendable, Hashable {
        /// Valid, and of this project.
        case alive
        /// Google does not know it any more.
        case dead
        /// Valid, but of another project; the value is that project's number.
        case otherProject(String)
    }

    /// `ios-firebase` or `android-firebase`.
    public let service: TokenService

    private let deadline: Duration
    private let fetch: @Sendable () async throws -> String?

    /// Makes a provider that asks the app.
    ///
    /// - Parameters:
    ///   - service: `ios-firebase` or `android-firebase`.
    ///   - deadline: How long `fetch` may take.
    ///   - fetch: Asks the app for its token; nil or an empty text when there is none for now.
    public init(
        _ service: TokenService,
        deadline: Duration = .seconds(10),
        fetch: @escaping @Sendable () async throws -> String?
    ) {
        self.service = service
        self.deadline = deadline
        self.fetch = fetch
    }

    /// Makes a provider of `ios-firebase` that imports the device's APNs token.
    ///
    /// - Parameters:
    ///   - apns: Gives the APNs token; nil when there is none for now.
    ///   - application: The app's bundle id.
    ///   - isSandbox: Whether the app is a build run from Xcode.
    ///   - instanceIDs: Does the import: ``FCMBackend/instanceIDs``.
    ///   - deadline: How long both together may take.
    public init(
        importing apns: any TokenProvider,
        application: String,
        isSandbox: Bool = false,
        through instanceIDs: FCMInstanceIDs,
        deadline: Duration = .seconds(30)
    ) {
        self.init(.iOSFirebase, deadline: deadline) {
            guard let token = try await apns.token() else { return nil }
            let environment: TokenEnvironment = isSandbox ? .development : .production
            let outcomes = await instanceIDs.importTokens([token], application: application, environment: environment)
            switch outcomes.first {
            case .imported(let token)?: return token.value
            case .refused(let word)?: throw PushError(.invalidRequest, "Google imports no such token", reason: word)
            case .failed(let error)?: throw error
            case nil: return nil
            }
        }
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
    /// stricter pattern, since Google promises none.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken {
        try Self.form(of: text, service)
    }

    static func form(of text: String, _ service: TokenService) throws(InvalidToken) -> DeviceToken {
        // The usual case: no blank anywhere.
        if let first = text.utf8.first, let last = text.utf8.last, first | last < 0x80, FCMTarget.isToken(text) {
            return DeviceToken(text, service: service)
        }
        var rest = Substring(text)
        while let last = rest.last, last.isWhitespace { rest.removeLast() }
        rest = rest.drop { $0.isWhitespace }
        guard !rest.isEmpty else { throw InvalidToken(service, "it is empty") }
        guard rest.utf8.count <= 4096 else { throw InvalidToken(service, "it has more than 4,096 characters") }
        guard FCMTarget.isToken(String(rest)) else {
            throw InvalidToken(service, "it holds blanks or control characters")
        }
        return DeviceToken(String(rest), service: service)
    }

    /// Asks Google for the state of a token.
    ///
    /// - Parameters:
    ///   - token: The token.
    ///   - instanceIDs: Asks Google: ``FCMBackend/instanceIDs``.
    ///   - projectNumber: The number of the own project; nil leaves that unchecked.
    /// - Returns: The state of the token.
    /// - Throws: When Google gives no usable answer: the state of the token is unknown then.
    public static func standing(
        of token: DeviceToken,
        through instanceIDs: FCMInstanceIDs,
        projectNumber: String? = nil
    ) async throws(PushError) -> Standing {
        guard let details = try await instanceIDs.details(of: token) else { return .dead }
        if let projectNumber, details.project != projectNumber { return .otherProject(details.project ?? "") }
        return .alive
    }
}

/// A ``FCMTokenProvider`` whose app can delete its token, so that the next one is new.
///
/// Only the app can do so: its SDK has `deleteToken`. A server can only forget the token and remove it from its topics.
public struct FCMDeletingTokenProvider: TokenDeleting {
    private let base: FCMTokenProvider
    private let deadline: Duration
    private let remove: @Sendable () async throws -> Void

    /// Makes a provider.
    ///
    /// - Parameters:
    ///   - base: Gives and checks tokens.
    ///   - deadline: How long `remove` may take.
    ///   - remove: Has the app delete its token; throws when it could not.
    public init(
        _ base: FCMTokenProvider,
        deadline: Duration = .seconds(10),
        remove: @escaping @Sendable () async throws -> Void
    ) {
        self.base = base
        self.deadline = deadline
        self.remove = remove
    }

    /// The service of the base.
    public var service: TokenService { base.service }

    /// Returns the current token of the base.
    public func token() async throws(PushError) -> DeviceToken? { try await base.token() }

    /// Validates a token as the base does.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken { try base.validate(text) }

    /// Has the app delete its token.
    ///
    /// Throws `PushError.Code.unavailable` when the app could not: the old token then stays valid, and its row must
    /// stay.
    public func delete(_ token: DeviceToken) async throws(PushError) {
        do {
            try await Deadline.run(deadline, remove)
        } catch {
            throw PushError(.unavailable, "the app could not delete its token")
        }
    }

    /// Deletes the current token and gets a new one; nil when there is none yet.
    ///
    /// Throws when either step failed. Keep the old token's row until the new token is stored. A late `UNREGISTERED`
    /// for the old one then does no harm, since the new registration is younger.
    public func refreshed() async throws(PushError) -> DeviceToken? {
        if let old = try await base.token() { try await delete(old) }
        return try await base.token()
    }
}
