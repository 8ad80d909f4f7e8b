/// What several backends think of a device token.
extension Sequence<any PushBackend> {
    /// The token in the form of the first backend of its service that takes it.
    ///
    /// Throws what the first of them finds wrong when none takes it; without any backend of the service every text is a
    /// token that is not blank.
    public func checked(_ token: DeviceToken) throws(InvalidToken) -> DeviceToken {
        guard !token.isBlank else { throw InvalidToken(token.service, "it is blank") }
        var fault: InvalidToken?
        for backend in self where backend.audience.services.contains(token.service) {
            do throws(InvalidToken) {
                return try backend.checked(token)
            } catch {
                fault = fault ?? error
            }
        }
        if let fault { throw fault }
        return token
    }
}
