import Foundation
public import ChaparCore

extension HMSBackend {
    /// Returns the token as ``HMSTokenProvider/validate(_:)`` does: without blanks around it.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        if HMSToken.problem(in: token.value) == nil { return token }
        let text = token.value.trimmingCharacters(in: .whitespacesAndNewlines)
        if let problem = HMSToken.problem(in: text) { throw InvalidToken(token.service, problem) }
        return DeviceToken(text, service: token.service)
    }

    /// Returns what is wrong with a topic's name or a condition.
    public func problem(withTopic topic: String) -> String? {
        HMSTarget.topics(topic) == nil ? HMSTarget.badTopic : nil
    }
}
