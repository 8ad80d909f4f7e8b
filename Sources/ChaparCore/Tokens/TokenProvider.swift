/// A source of device tokens of one service, which returns the current token and checks the form of others.
///
/// Deleting is a separate ability: ``TokenDeleting``. Apple's tokens cannot be deleted, so providers of `ios-apns` do
/// not have it.
public protocol TokenProvider: Sendable {
    /// The service whose tokens it gives.
    var service: TokenService { get }

    /// Returns the current token; nil when the app has none now.
    ///
    /// It must have a deadline of its own.
    func token() async throws(PushError) -> DeviceToken?

    /// Brings a text to the form the platform requires, or throws why it is invalid.
    func validate(_ text: String) throws(InvalidToken) -> DeviceToken
}

extension TokenProvider {
    /// Accepts any visible text of one word, and removes the blanks around it.
    ///
    /// A plugin's own provider knows more about the tokens of its service.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken {
        try DeviceToken.checked(text, of: service)
    }
}

extension DeviceToken {
    /// The longest token of a service without rules of its own, in bytes.
    package static let maximumBytes = 4_096

    /// Checks a token of a service without rules of its own.
    package static func checked(_ text: String, of service: TokenService) throws(InvalidToken) -> DeviceToken {
        let start = text.unicodeScalars.drop { $0.properties.isWhitespace }
        var word = Substring(start)
        while let last = word.last, last.isWhitespace { word.removeLast() }
        guard !word.isEmpty else { throw InvalidToken(service, "it is empty") }
        guard word.utf8.count <= maximumBytes else {
            throw InvalidToken(service, "it has \(word.utf8.count) bytes; \(maximumBytes) is the most")
        }
        guard word.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw InvalidToken(service, "it holds a blank or another character that no token has")
        }
        return DeviceToken(String(word), service: service)
    }
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
