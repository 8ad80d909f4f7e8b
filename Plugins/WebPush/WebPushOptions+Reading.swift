public import ChaparCore

extension WebPushOptions {
    /// The most VAPID keys of a backend.
    static let mostKeys = 8

    /// Reads a section; nil after reporting everything that is wrong with it.
    public init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        let common = CommonBackendOptions(section, readsBase: false, connections: 2)
        let first = Self.key(section, file: "vapid_key_file", text: "vapid_key", isRequired: true)
        let older = section.sections("previous_vapid_keys").compactMap { entry in
            let key = Self.key(entry, file: "file", text: "key", isRequired: true)
            entry.finish()
            return key
        }
        if older.count >= Self.mostKeys {
            section.reject("previous_vapid_keys", "has \(older.count) keys", fix: "At most \(Self.mostKeys - 1).")
        }
        let subject = section.requiredString("subject", "who answers for the messages, such as mailto:ops@example.com")
        if let subject, let mistake = Self.mistake(inSubject: subject) {
            section.reject("subject", mistake, fix: "Write mailto:ops@example.com, or an https:// address.")
        }
        let hosts = Self.hosts(section, hasProxy: common.proxy != nil)
        let tokenLife = section.seconds("token_life", in: 600...86_400, default: .seconds(43_200))
        let life = section.seconds("ttl", in: 0...Double(Self.longestLife), default: .seconds(Self.longestLife))
        var payload = WebPushPayload.Settings()
        payload.isDeclarative = section.bool("declarative", default: true)
        payload.allowsSilent = section.bool("allow_silent", default: false)
        payload.navigate = Self.address(section, "navigate")
        payload.icon = Self.address(section, "icon")
        guard let first, let subject, let hosts, section.report.issues.count == before else { return nil }
        self.init(keys: [first] + older, subject: subject)
        self.common = common
        self.hosts = hosts
        self.tokenLife = tokenLife
        timeToLive = life
        self.payload = payload
    }

    private static func key(
        _ section: ConfigSection,
        file: String,
        text: String,
        isRequired: Bool
    ) -> WebPushKey? {
        let read = section.credentialFile(file)
        let given = section.secret(text)
        if section.has(file), section.has(text) {
            section.reject(text, "stands beside \(file)", fix: "Keep one of the two.")
            return nil
        }
        guard let secret = read ?? given else {
            if isRequired, !section.has(file), !section.has(text) {
                section.missing(file, "the file of a VAPID key; chapar webpush keys makes one")
            }
            return nil
        }
        do throws(WebPushKey.Mistake) {
            return try WebPushKey(secret)
        } catch {
            section.reject(section.has(file) ? file : text, error.problem, fix: error.fix)
            return nil
        }
    }

    /// Returns what Apple would refuse in the subject of VAPID tokens.
    static func mistake(inSubject subject: String) -> String? {
        guard subject.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { return "holds blanks, which Apple refuses" }
        let lowered = subject.lowercased()
        if lowered.hasPrefix("https://") {
            guard let address = HTTPAddress(url: subject) else { return "is no address" }
            return address.endpoint.isLoopback ? "is an address of this machine, which Apple refuses" : nil
        }
        guard lowered.hasPrefix("mailto:") else { return "begins neither with mailto: nor with https:, as Apple wants" }
        let parts = lowered.dropFirst("mailto:".count).split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty, parts[1].contains("."), !parts[1].hasPrefix("."),
            !parts[1].hasSuffix(".")
        else { return "has no mail address of a domain, which Apple wants" }
        return nil
    }

    private static func hosts(_ section: ConfigSection, hasProxy: Bool) -> WebPushHosts? {
        guard let entries = section.strings("allow_hosts") else {
            return section.has("allow_hosts") ? nil : .standard
        }
        var hosts = WebPushHosts()
        var isRight = !entries.isEmpty
        if entries.isEmpty { section.reject("allow_hosts", "is empty", fix: "Write browsers, any, or hosts.") }
        for entry in entries {
            guard let problem = hosts.add(entry) else { continue }
            let fix = "Write browsers, any, push.example.com, push.example.com:8443 or *.push.example.com."
            section.reject("allow_hosts", problem, fix: fix)
            isRight = false
        }
        if isRight, hasProxy, hosts.hasUnnamed {
            section.reject(
                "allow_hosts",
                "lets hosts through that are not named, whose addresses cannot be checked through a proxy",
                fix: "Name the hosts, or leave proxy out."
            )
            isRight = false
        }
        return isRight ? hosts : nil
    }

    private static func address(_ section: ConfigSection, _ key: String) -> String? {
        guard let url = section.string(key) else { return nil }
        guard WebPushPayload.isAbsolute(url) else {
            section.reject(key, "is no absolute address", fix: "Write https://example.com/ or the like.")
            return nil
        }
        return url
    }
}
