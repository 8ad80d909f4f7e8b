public import ChaparCore

extension TokenService {
    /// The addresses of SMS; a name of our own begins with `x-`.
    public static let sms = TokenService(rawValue: "x-sms")
}

extension BackendFactory {
    /// SMS.
    ///
    /// ## Configuration keys
    /// - `url` (address, required): where the platform's API is.
    /// - `key` (secret, required): the account's key.
    /// - and those of ``CommonBackendOptions`` but `base_url`.
    public static let sms = BackendFactory(
        "sms",
        summary: "SMS",
        reasons: SMSRejections.outcomes
    ) { section, context in
        guard let options = SMSOptions(section) else { return nil }
        do {
            return try SMSBackend(options, http: context.http, time: context.time)
        } catch {
            section.reject("url", "cannot be used: \(error)")
            return nil
        }
    }
}
