internal import ChaparDelivery
internal import ChaparAPI
internal import ChaparServer
internal import ChaparCore
internal import ChaparComposition

/// The reader of the section `routes`: which recipients go through which backends, and by which plan.
///
/// ``ConfigurationReader`` calls it after the backends, so that a route to an unknown backend is reported with its
/// place.
struct RouteReader {
    /// The most backends of one route: with tokens of every service, a notification has at most 255 plans.
    static let longestChain = 32

    /// The names of the backends in the file.
    let names: [String]
    /// The apps of the usable backends.
    let apps: [String: AppName]
    /// The backends that cannot send to any recipient.
    let mute: Set<String>
    /// The retries of the queue, from which those of a route take what it does not say.
    let retry: RetryPolicy
    /// Which reports of arrivals the usable backends have.
    var reports: [String: Reports] = [:]

    /// The reports that a backend has, of single deliveries.
    enum Reports: Sendable {
        /// The app's, of arrivals and openings.
        case app
        /// The platform's own, of arrivals.
        case platform
        /// The app's, for messages with many recipients in a request: they share an id.
        case shared
        /// None.
        case nothing
    }

    func read(_ sections: [ConfigSection]) -> [GatewayConfiguration.Route] {
        var routes: [GatewayConfiguration.Route] = []
        var taken: Set<[String]> = []
        for section in sections {
            let name = section.string("name")
            if let name, !BackendRegistry.isName(name) {
                section.reject("name", "is not a name", fix: "Use letters, digits, - and _, at most 64.")
            }
            let (value, platform, service) = match(section)
            let use = use(section)
            let app = app(of: use?.backends ?? [], value, section)
            if let name, !taken.insert([app.rawValue, name]).inserted {
                section.reject(
                    "name",
                    "another route has the name \"\(name)\"",
                    fix: "Give each route of an app a name of its own."
                )
            }
            section.finish()
            guard let plan = use else { continue }
            routes.append(.init(name: name, app: app, platform: platform, service: service, plan: plan))
        }
        return routes
    }

    /// Returns the app of a route's backends, which must be one, and that of its match.
    private func app(of backends: [String], _ value: String?, _ section: ConfigSection) -> AppName {
        let known = backends.filter { apps[$0] != nil }
        guard let first = known.first, let app = apps[first] else { return .default }
        if let other = known.first(where: { apps[$0] != app }) {
            section.reject(
                "use",
                "names backends of two apps, \(first) and \(other)",
                fix: "A recipient is of one app: write a route for each."
            )
        }
        if let value, value != app.rawValue {
            section.reject("match", "asks for the app \"\(value)\", but \(first) is of the app \"\(app)\"")
        }
        return app
    }

    private func match(_ section: ConfigSection) -> (app: String?, platform: String?, service: TokenService?) {
        guard let match = section.section("match") else { return (nil, nil, nil) }
        let app = match.string("app")
        var platform = match.string("platform")
        let platforms = Set(TokenService.known.map(\.platform)).sorted()
        if let value = platform, !DeviceFieldRules.isOwnPlatform(value) {
            platform = Suggestion.same(as: value, among: platforms)
            if platform == nil { match.rejectWord("platform", value, platforms) }
        }
        var service: TokenService?
        if let value = match.string("service") {
            service = TokenService.named(value) ?? TokenService.named(value.lowercased())
            if service == nil { match.rejectWord("service", value, TokenService.known.map(\.rawValue)) }
        }
        // A device of a platform of your own may have tokens of any service.
        if let platform, let service, service.platform != platform, !DeviceFieldRules.isOwnPlatform(platform) {
            match.reject(
                "service",
                "\(service) tokens are never of the platform \(platform)",
                fix: "Leave one of the two out."
            )
        }
        match.finish()
        return (app, platform, service)
    }

    private func use(_ section: ConfigSection) -> DeliveryPlan? {
        guard section.has("use") else {
            section.missing("use", "a backend's name, { fallback: [NAME, NAME] } or { fan_out: [NAME, NAME] }")
            return nil
        }
        guard section.holdsMap("use"), let use = section.section("use") else {
            guard let name = section.string("use"), isUsable(name, "use", section) else { return nil }
            return DeliveryPlan([name])
        }
        let chain = self.chain("fallback", "A backend is tried once in a chain.", use)
        let fan = self.chain("fan_out", "A backend gets one delivery.", use)
        if use.has("fallback"), use.has("fan_out") {
            use.reject("fan_out", "stands beside fallback", fix: "Leave one of the two out.")
        } else if !use.has("fallback"), !use.has("fan_out") {
            use.missing("fallback", "a list of backends' names, the first tried first")
        }
        let rule: DeliveryPlan.UnknownRule? = use.choice("on_unknown")
        let wait = use.seconds("unknown_wait", in: 0...86400, default: DeliveryPlan.defaultUnknownWait)
        use.accept(.fallbackAfter)
        let fallbackAfter = use.optionalSeconds("fallback_after", in: 0...28 * 86400)
        if use.has("fallback_after"), use.has("fan_out") {
            use.reject("fallback_after", "means nothing with fan_out", fix: "There is no next backend to go on to.")
        }
        let retry = ownRetry(use)
        let escalation = use.section("escalate").flatMap { takeOver($0, after: chain ?? [], use) }
        use.finish()
        return (chain ?? fan).map { backends in
            var plan = DeliveryPlan(
                backends + (escalation?.backends ?? []),
                onUnknown: rule,
                unknownWait: wait,
                fallbackAfter: fallbackAfter
            )
            plan.need = chain == nil ? .any : nil
            plan.retry = retry
            plan.escalation = escalation?.rule
            return plan
        }
    }

    /// Reads the backends that take over when no report came in time, after those of a chain; nil when they cannot.
    private func takeOver(
        _ section: ConfigSection,
        after backends: [String],
        _ use: ConfigSection
    ) -> (rule: Escalation, backends: [String])? {
        let after = section.seconds("after", in: 1...28 * 86400, default: .seconds(120))
        let unless = section.choice("unless", default: Escalation.Report.delivered)
        let next = chain("use", "A backend takes over once.", section)
        let limit = section.integer("max_per_day", in: 0...1_000_000_000)
        if !section.has("use") { section.missing("use", "the backends that take over, the first tried first") }
        section.finish()
        if use.has("fan_out") {
            use.reject("escalate", "means nothing with fan_out", fix: "Write fallback in its place.")
            return nil
        }
        guard let next, !backends.isEmpty else { return nil }
        for name in next where backends.contains(name) {
            section.reject("use", "names \"\(name)\" of fallback", fix: "A backend is tried once in a chain.")
        }
        if backends.count + next.count > Self.longestChain {
            section.reject("use", "makes the chain longer than \(Self.longestChain) backends")
        }
        for name in backends { check(name, reports: unless, use) }
        return (Escalation(step: backends.count, after: after, unless: unless, maximumPerDay: limit), next)
    }

    /// Refuses a backend before the take-over if neither the platform nor the app can report its deliveries in the
    /// wanted way: every delivery would go on to the next backend.
    private func check(_ name: String, reports wanted: Escalation.Report, _ use: ConfigSection) {
        let app = apps[name] ?? .default
        switch (reports[name], wanted) {
        case (nil, _), (.app?, _), (.platform?, .delivered): break
        case (.platform?, .opened):
            use.reject(
                "escalate",
                "waits for openings, and nothing reports those of \(name)",
                fix: "Write apps: { \(app): { receipts: true } } and let the app report them, or unless: delivered."
            )
        case (.shared?, _):
            use.reject(
                "escalate",
                "waits for reports, and those of \(name) are of a whole request with many recipients",
                fix: "Leave \(name) out of fallback, or let the platform report: receipts in backends.\(name)."
            )
        case (.nothing?, _):
            use.reject(
                "escalate",
                "waits for reports, and nothing reports the deliveries of \(name)",
                fix: "Write apps: { \(app): { receipts: true } } and let the app report arrivals: docs/Receipts.md."
            )
        }
    }

    /// Returns a route's own retries; nil without any of its keys.
    private func ownRetry(_ use: ConfigSection) -> RetryPolicy? {
        var own = retry
        if let attempts = use.integer("max_attempts", in: 1...10000) { own.maximumAttempts = attempts }
        if let first = use.optionalSeconds("first_retry", in: 0.01...86400) { own.firstWait = first }
        if let longest = use.optionalSeconds("max_retry", in: 0.01...86400) { own.longestWait = longest }
        if use.has("max_retry") || use.has("first_retry"), own.longestWait < own.firstWait {
            use.reject("max_retry", "is shorter than first_retry", fix: "Write at least as many seconds.")
        }
        return use.has("max_attempts") || use.has("first_retry") || use.has("max_retry") ? own : nil
    }

    /// Returns the backends that a key lists; nil when it is absent or wrong.
    private func chain(_ key: String, _ whyOnce: String, _ use: ConfigSection) -> [String]? {
        guard let backends = use.strings(key) else { return nil }
        if backends.isEmpty {
            use.reject(key, "names no backend", fix: "Write at least one of: \(names.joined(separator: ", ")).")
        }
        if backends.count > Self.longestChain {
            use.reject(key, "names \(backends.count) backends", fix: "At most \(Self.longestChain).")
        }
        let areUsable = backends.map { isUsable($0, key, use) }
        for (position, name) in backends.enumerated() where backends[..<position].contains(name) {
            use.reject(key, "names \"\(name)\" twice", fix: whyOnce)
        }
        return backends.isEmpty || areUsable.contains(false) ? nil : backends
    }

    private func isUsable(_ name: String, _ key: String, _ section: ConfigSection) -> Bool {
        guard names.contains(name) else {
            section.rejectWord(key, name, names)
            return false
        }
        guard mute.contains(name) else { return true }
        section.reject(
            key,
            "\(name) reaches no recipient as it is configured",
            fix: "Leave it out of the route, or add what it sends with."
        )
        return false
    }
}
