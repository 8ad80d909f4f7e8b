public import ChaparCore

extension FCMBackend {
    /// Returns the token as ``FCMTokenProvider/validate(_:)`` does: without blanks around it.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        try FCMTokenProvider.form(of: token.value, token.service)
    }

    /// Returns what is wrong with a topic's name or a condition.
    public func problem(withTopic topic: String) -> String? { FCMTopic.problem(with: topic) }
}
