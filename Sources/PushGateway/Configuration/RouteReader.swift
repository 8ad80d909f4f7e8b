internal import PushCore

/// Reads the section `routes`: which recipients go through which backends.
struct RouteReader {
    /// The names of the backends in the file.
    let names: [String]

    func read(_ sections: [ConfigSection]) -> [GatewayConfiguration.Route] {
        var routes: [GatewayConfiguration.Route] = []
        var taken: Set<String> = []
        for section in sections {
            let name = section.string("name")
            if let name {
                if !BackendRegistry.isName(name) {
                    section.reject("name", "is not a name", fix: "Use letters, digits, - and _, at most 64.")
                } else if !taken.insert(name).inserted {
                    section.reject(
                        "name",
                        "another route has the name \"\(name)\"",
                        fix: "Give each a name of its own."
                    )
                }
            }
            let (platform, service) = match(section)
            let plan = plan(section)
            section.finish()
            if let plan { routes.append(.init(name: name, platform: platform, service: service, plan: plan)) }
        }
        return routes
    }

    private func match(_ section: ConfigSection) -> (String?, TokenService?) {
        guard let match = section.section("match") else { return (nil, nil) }
        var platform = match.string("platform")
        let platforms = Set(TokenService.known.map(\.platform)).sorted()
        if let word = platform, !platforms.contains(word) {
            match.rejectWord("platform", word, platforms)
            platform = nil
        }
        var service: TokenService?
        if let word = match.string("service") {
            service = TokenService.known.first { $0.rawValue == word }
            if service == nil { match.rejectWord("service", word, TokenService.known.map(\.rawValue)) }
        }
        if let platform, let service, service.platform != platform {
            match.reject(
                "service",
                "\(service) tokens are never of the platform \(platform)",
                fix: "Leave one of the two out."
            )
        }
        match.finish()
        return (platform, service)
    }

    private func plan(_ section: ConfigSection) -> DeliveryPlan? {
        guard section.has("use") else {
            section.missing("use", "a backend's name or { fallback: [NAME, NAME] }")
            return nil
        }
        guard section.holdsMap("use"), let use = section.section("use") else {
            guard let name = section.string("use"), isKnown(name, "use", section) else { return nil }
            return DeliveryPlan([name])
        }
        let backends = use.strings("fallback") ?? []
        if !use.has("fallback") {
            use.missing("fallback", "a list of backends' names, the first tried first")
        } else if backends.isEmpty {
            use.reject("fallback", "names no backend", fix: "Write at least one of: \(names.joined(separator: ", ")).")
        }
        let areKnown = backends.map { isKnown($0, "fallback", use) }
        for (place, name) in backends.enumerated() where backends[..<place].contains(name) {
            use.reject("fallback", "names \"\(name)\" twice", fix: "A backend is tried once in a chain.")
        }
        var rule: DeliveryPlan.UnknownRule?
        if use.has("on_unknown") { rule = use.choice("on_unknown", default: DeliveryPlan.UnknownRule.retry) }
        use.finish()
        return backends.isEmpty || areKnown.contains(false) ? nil : DeliveryPlan(backends, onUnknown: rule)
    }

    private func isKnown(_ name: String, _ key: String, _ section: ConfigSection) -> Bool {
        if names.contains(name) { return true }
        section.rejectWord(key, name, names)
        return false
    }
}
