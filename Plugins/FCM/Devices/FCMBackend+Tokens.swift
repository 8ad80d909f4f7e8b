public import PushCore

extension FCMBackend {
    /// The token as ``FirebaseTokenProvider/validate(_:)`` gives it: without blanks around it.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        try FirebaseTokenProvider.form(of: token.value, token.service)
    }
}
