/// A source of device tokens of one service, which returns the current token and checks the form of others.
///
/// Deleting is a separate ability: ``TokenDeleting``. Apple's tokens cannot be deleted, so `ios-apns` lacks it.
public protocol TokenProvider: Sendable {
    /// The service whose tokens it gives.
    var service: TokenService { get }

    /// Returns the current token; nil when there is none for now.
    ///
    /// It must have a deadline of its own.
    func token() async throws(PushError) -> DeviceToken?

    /// Brings a text to the form the platform requires, or throws why it is invalid.
    func validate(_ text: String) throws(InvalidToken) -> DeviceToken
}

/// A token provider whose platform can delete a token, so that the next one is new.
public protocol TokenDeleting: TokenProvider {
    /// Deletes the token; one that the platform does not know is no error.
    func delete(_ token: DeviceToken) async throws(PushError)
}

/// A text that cannot be a device token of a service.
public struct InvalidToken: Error, Sendable, Hashable, CustomStringConvertible {
    /// The service.
    public let service: TokenService
    /// The problem, without the text itself.
    public let problem: String

    /// Makes an error.
    public init(_ service: TokenService, _ problem: String) {
        self.service = service
        self.problem = problem
    }

    /// A sentence for people.
    public var description: String { "not a token of \(service): \(problem)" }
}
