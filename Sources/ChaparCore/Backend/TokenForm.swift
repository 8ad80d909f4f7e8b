/// Checks of device tokens by several backends.
extension Sequence<any PushBackend> {
    /// Returns the token in its normal form, as the first backend that accepts it writes it.
    ///
    /// Throws the first backend's fault when no backend of the service accepts the token. Without any backend of the
    /// service, every text that is not blank counts as a token.
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
