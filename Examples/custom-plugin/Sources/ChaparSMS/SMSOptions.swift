public import ChaparCore

/// What the backend needs to know, read from a section of the configuration or set in code.
///
/// These keys of a section have a meaning already: `kind`, `app`, `max_in_flight`, `rate_limit`, `breaker`,
/// `register_devices`, `base_url`, `ca_file`, `timeout`, `proxy`, `max_connections`, `auth`. An id that the platform has
/// for an app is called `app_id`. A platform with one address needs no `url`: Chapar's docs/Plugins.md says how.
public struct SMSOptions: Sendable {
    /// Where the platform's API is.
    public var url: HTTPBaseURL
    /// The account's key.
    public var key: Secret
    /// How to connect.
    public var common: CommonBackendOptions

    /// Makes options in code.
    public init(url: HTTPBaseURL, key: Secret, common: CommonBackendOptions = CommonBackendOptions()) {
        self.url = url
        self.key = key
        self.common = common
    }

    /// Reads a section, and reports every mistake to it.
    init?(_ section: ConfigSection) {
        if !section.has("url") { section.missing("url", "the platform's address, as https://sms.example.com/v1") }
        if !section.has("key") { section.missing("key", "the account's key, as \"${SMS_KEY}\"") }
        // All keys are read before the first return: a key that nobody asked for counts as unknown.
        let (url, key) = (section.baseURL("url"), section.secret("key"))
        let common = CommonBackendOptions(section, readsBase: false)
        guard let url, let key else { return nil }
        self.init(url: url, key: key, common: common)
    }
}
