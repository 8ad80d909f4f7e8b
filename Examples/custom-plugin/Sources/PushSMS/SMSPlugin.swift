public import PushCore

extension TokenService {
    /// Phone numbers; a name of our own begins with `x-`.
    public static let sms = TokenService(rawValue: "x-sms")
}

extension BackendFactory {
    /// Text messages.
    ///
    /// Reads `url` and `key`, which are required, and the keys that every backend has; keys that nobody asked for become
    /// mistakes by themselves.
    public static let sms = BackendFactory("sms", summary: "Text messages") { section, context in
        for key in ["url", "key"] where !section.has(key) { section.missing(key, "\(key): …") }
        // All keys are read before the first return: a key that nobody asked for counts as unknown.
        let (url, key) = (section.baseURL("url"), section.secret("key"))
        let common = CommonBackendOptions(section, readsBase: false)
        guard let url, let key else { return nil }
        do {
            return try SMSBackend(url: url, key: key, common: common, http: context.http)
        } catch {
            section.reject("url", "cannot be used: \(error)")
            return nil
        }
    }
}
