/// Checks of device tokens by several backends.
extension Sequence<any PushBackend> {
    /// Returns the token in the form of the first backend of its service that takes it.
    ///
    /// Throws the first fault when none of them takes it; without any backend of the service, every text that is not
    /// blank is a token.
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
