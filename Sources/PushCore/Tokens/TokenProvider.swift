/// A source of device tokens of one service: gives the current token and checks which texts can be one.
///
/// Deleting is a further ability: ``TokenDeleting``. Apple's tokens cannot be deleted, so `ios-apns` does not have it.
public protocol TokenProvider: Sendable {
    /// The service whose tokens it gives.
    var service: TokenService { get }

    /// The current token; nil when there is none for now. It must have a deadline of its own.
    func token() async throws(PushError) -> DeviceToken?

    /// Brings a text to the form the platform requires, or throws what is wrong with it.
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
    /// What is wrong, without the text itself.
    public let problem: String

    /// Makes an error.
    public init(_ service: TokenService, _ problem: String) {
        self.service = service
        self.problem = problem
    }

    /// A sentence for people.
    public var description: String { "not a token of \(service): \(problem)" }
}
