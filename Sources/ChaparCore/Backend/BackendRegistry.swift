/// The kinds of backends of a program, by the names that a configuration file chooses them by.
///
/// No kind registers itself: the program passes the whole list.
public struct BackendRegistry: Sendable {
    /// The factories, in the order they were given.
    public let factories: [BackendFactory]

    /// The error for a list that names one kind twice.
    public struct DuplicateKind: Error, Sendable, CustomStringConvertible {
        /// The kind.
        public let kind: BackendKind
        /// A sentence for people.
        public var description: String { "two factories are registered for the kind \"\(kind)\"" }
    }

    /// Makes a registry; two factories of one kind are a mistake of the program.
    public init(_ factories: [BackendFactory]) throws(DuplicateKind) {
        var seen: Set<BackendKind> = []
        for factory in factories where !seen.insert(factory.kind).inserted {
            throw DuplicateKind(kind: factory.kind)
        }
        self.factories = factories
    }

    /// A backend of the configuration, with the settings of its delivery worker.
    public struct ConfiguredBackend: Sendable {
        /// The name in the configuration.
        public let name: String
        /// The backend.
        public let backend: any PushBackend
        /// `app`: the app whose devices and users it reaches.
        public let app: AppName
        /// The most messages in flight; nil follows the backend's window.
        public let maximumInFlight: Int?
        /// The rate limit: the configured one, else the platform's own quota; nil is no limit.
        public let pacing: Pacing?
        /// The settings of its breaker; nil when it never opens.
        public let breaker: BreakerSettings?
        /// `register_devices`: whether devices of the registry are registered at a platform that keeps its own list.
        public let registersDevices: Bool
        /// An identity that survives a reload as long as kind, address and credentials stay the same.
        public let identity: String

        /// Makes a named backend, for code that composes without a file.
        ///
        /// With nil as `pacing` the backend's own rate applies; with nil as `identity` all backends of this name and
        /// kind count as the same one.
        public init(
            name: String,
            backend: any PushBackend,
            app: AppName = .default,
            maximumInFlight: Int? = nil,
            pacing: Pacing? = nil,
            breaker: BreakerSettings? = BreakerSettings(),
            registersDevices: Bool = true,
            identity: String? = nil
        ) {
            self.name = name
            self.backend = backend
            self.app = app
            self.maximumInFlight = maximumInFlight
            self.pacing = pacing ?? backend.pacing
            self.breaker = breaker
            self.registersDevices = registersDevices
            self.identity = identity ?? backend.kind.rawValue
        }
    }

    /// Makes every backend of the `backends` section, in the order of the file.
    ///
    /// Every mistake in any of them is in the section's report afterwards; a backend with a mistake is left out.
    public func backends(
        in section: ConfigSection,
        apps: [AppName] = [],
        context: (String) -> BackendContext
    ) -> [ConfiguredBackend] {
        section.keys.compactMap { name in
            guard let own = section.section(name) else {
                section.reject(name, "is empty", fix: "Write at least { kind: … }.")
                return nil
            }
            guard Self.isName(name) else {
                section.reject(name, "is not a name", fix: "Use letters, digits, - and _, at most 64.")
                return nil
            }
            return make(name, own, apps, context(name))
        }
    }

    /// Whether a text can name a backend or a route; such names end up in metric labels and stored plans.
    public static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    private func app(_ section: ConfigSection, _ apps: [AppName]) -> AppName {
        guard let word = section.string("app") else { return .default }
        let app = AppName(rawValue: word)
        if app != .default, !apps.contains(app) {
            let nearest =
                Suggestion.nearest(to: word, among: apps.map(\.rawValue)).map { "Did you mean \"\($0)\"? " } ?? ""
            section.reject("app", "\"\(word)\" is not among the apps", fix: nearest + "Name it in the section apps.")
        }
        return app
    }

    private func make(
        _ name: String,
        _ section: ConfigSection,
        _ apps: [AppName],
        _ context: BackendContext
    ) -> ConfiguredBackend? {
        guard let kind = section.requiredString("kind", "the platform: \(words)") else { return nil }
        guard let factory = factory(for: kind) else {
            let hint = nearestKind(to: kind).map { "Did you mean \"\($0)\"? " } ?? ""
            section.reject("kind", "\"\(kind)\" is not allowed", fix: "\(hint)Allowed: \(words).")
            return nil
        }
        let before = section.report.issues.count
        let app = self.app(section, apps)
        let maximumInFlight = section.integer("max_in_flight", in: 1...1_000_000)
        let pacing = Pacing(section, "rate_limit")
        let breaker = BreakerSettings.read(section, "breaker")
        let registersDevices = section.bool("register_devices", default: true)
        let backend = factory.make(section, context.announcing(for: app).previewing(factory))
        section.finish()
        guard let backend, section.report.issues.count == before else { return nil }
        return ConfiguredBackend(
            name: name,
            backend: backend,
            app: app,
            maximumInFlight: maximumInFlight,
            pacing: pacing,
            breaker: breaker,
            registersDevices: registersDevices,
            identity: factory.kind.rawValue + "-" + String(section.fingerprint(leavingOut: Self.queueKeys), radix: 16)
        )
    }

    /// The keys that configure how the gateway uses a backend, and that are not part of the backend's identity.
    ///
    /// The key `app` is part of the identity: a backend's notices use the keys of its app's devices.
    private static let queueKeys: Set<String> = ["max_in_flight", "rate_limit", "breaker", "register_devices"]

    /// Returns the factory of a kind; the letter case of the word makes no difference.
    private func factory(for word: String) -> BackendFactory? {
        let kind = Suggestion.same(as: word, among: factories.map(\.kind.rawValue))
        return factories.first { $0.kind.rawValue == kind }
    }

    /// Returns the kind that an unknown word means: the one with that word among its other names, or the nearest.
    package func nearestKind(to word: String) -> String? {
        let other = factories.first { Suggestion.same(as: word, among: $0.otherNames) != nil }
        return other?.kind.rawValue ?? Suggestion.nearest(to: word, among: factories.map(\.kind.rawValue))
    }

    private var words: String { factories.map(\.kind.rawValue).joined(separator: ", ") }
}
