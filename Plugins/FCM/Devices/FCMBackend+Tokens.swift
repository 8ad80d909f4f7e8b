public import ChaparCore

extension FCMBackend {
    /// The token as ``FCMTokenProvider/validate(_:)`` gives it: without blanks around it.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        try FCMTokenProvider.form(of: token.value, token.service)
    }
}
