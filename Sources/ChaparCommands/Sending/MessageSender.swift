import Foundation
import ChaparCore

/// The target of `chapar send`: the platforms themselves, or a gateway.
protocol MessageSender: Sendable {
    /// The most messages of one call of ``send(_:report:)``.
    var batchSize: Int { get }

    /// Sends messages and reports a result for each recipient, or one for a message that was refused as a whole.
    ///
    /// Throws when it makes no sense to go on, such as for a key that the gateway refuses.
    func send(_ messages: [NumberedMessage], report: @escaping @Sendable ([SendResult]) -> Void) async throws

    /// Returns a token in the form in which its platform gets it; one that is no token as it is.
    func form(of token: DeviceToken) -> DeviceToken

    /// Closes the connections.
    func close() async
}

extension MessageSender {
    /// The form for a sender without the platforms' plugins: no blanks around it, Apple's hexadecimal in lower case.
    func form(of token: DeviceToken) -> DeviceToken {
        let text = token.value.trimmingCharacters(in: .whitespacesAndNewlines)
        let isHexadecimal = token.service == .iOSAPNs && text.allSatisfy { $0.isASCII && $0.isHexDigit }
        return DeviceToken(isHexadecimal ? text.lowercased() : text, service: token.service)
    }
}

/// A request of the API with the line of the input it came from.
struct NumberedMessage: Sendable {
    var line: Int
    var request: JSONObject
}
