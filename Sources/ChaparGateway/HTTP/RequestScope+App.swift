internal import ChaparCore

/// The choice of the app that a request is about.
///
/// The request itself decides first, then its API key; a gateway with one app needs neither.
struct AppChoice {
    /// The reason why no app was found.
    struct Failure: Error {
        var code: String
        var detail: String
    }

    /// The gateway as the caller sees it.
    let snapshot: GatewaySnapshot
    /// Whether the caller sees the whole gateway.
    let isWhole: Bool

    /// The apps that the caller may name.
    ///
    /// A caller of the whole gateway also reaches devices of an app without backends, such as the one from before apps
    /// were named.
    var all: [AppName] {
        Set(snapshot.apps + snapshot.configuration.apps + (isWhole ? [.default] : [])).sorted()
    }

    private func includes(_ app: AppName) -> Bool {
        snapshot.apps.contains(app) || snapshot.configuration.apps.contains(app) || isWhole && app == .default
    }

    /// Returns the app that a request names; nil when it names none.
    func app(_ name: String?) throws(Failure) -> AppName {
        let known = snapshot.apps
        if let name {
            let app = AppName(rawValue: name)
            guard includes(app) else {
                let names = Set(known + snapshot.configuration.apps).sorted().map(\.rawValue)
                let hint = didYouMean(name, names) ?? "The apps are \(names.joined(separator: ", "))."
                throw Failure(code: "unknown_app", detail: hint)
            }
            return app
        }
        guard known.count > 1 else {
            let only = known.first ?? (all.count == 1 ? all.first : nil) ?? .default
            guard includes(only) else {
                throw Failure(code: "app_missing", detail: "None of the API key's backends is configured.")
            }
            return only
        }
        let names = known.map(\.rawValue).joined(separator: ", ")
        throw Failure(code: "app_missing", detail: "Several apps share the gateway; say which: \(names).")
    }
}

extension RequestScope {
    /// The choice among the apps that the caller may name.
    var apps: AppChoice { AppChoice(snapshot: gateway, isWhole: caller.view == nil) }

    /// Returns the app of a request about devices or users: `?app=`, else its key's, else the only one.
    func app() throws(Problem) -> AppName {
        do throws(AppChoice.Failure) {
            return try apps.app(parameter("app"))
        } catch {
            var issues = RequestIssues()
            issues.add("#/app", error.code, error.detail)
            throw Problem(issues)
        }
    }

    /// Returns the key of the device that a path names.
    func device(_ step: Substring) throws(Problem) -> String { try app().key(SyncEndpoint.decoded(step)) }
}

extension NotificationDraft {
    /// Finds the app of the request, and turns devices and users into their keys.
    ///
    /// The field `app`, a backend or a route determines it.
    mutating func resolveApp(_ apps: AppChoice, _ issues: inout RequestIssues) {
        guard !isAppFaulty else { return }
        let snapshot = apps.snapshot
        let named = app ?? (snapshot.apps.count > 1 ? impliedApp(snapshot) : nil)
        do throws(AppChoice.Failure) {
            appName = try apps.app(named?.rawValue)
        } catch {
            (isChoiceFaulty, isLookedUp) = (true, true)
            if let (pointer, code, detail) = unknownChoice(snapshot) { return issues.add(pointer, code, detail) }
            let pointer = app == nil && named != nil ? backend == nil ? "#/route" : "#/backend" : "#/app"
            issues.add(pointer, error.code, error.detail)
            return
        }
        if let backend, let other = snapshot.app(ofBackend: backend), other != appName {
            (isChoiceFaulty, isLookedUp) = (true, true)
            issues.add("#/backend", "other_app", "This backend is of the app \"\(other)\".")
        }
        switch recipients.first {
        case .device, .user: recipients = recipients.map(appName.keyed)
        default: break
        }
    }

    /// Returns the mistake in the name of a backend or a route that could have determined the app; nil when the name
    /// exists.
    private func unknownChoice(_ snapshot: GatewaySnapshot) -> (pointer: String, code: String, detail: String)? {
        if let backend, snapshot.app(ofBackend: backend) == nil {
            let hint = didYouMean(backend, snapshot.backends.map(\.name)) ?? "The configuration names no such backend."
            return ("#/backend", "unknown_backend", hint)
        }
        let names = snapshot.configuration.routes.compactMap(\.name)
        if let route, !names.contains(route), route != "default" {
            return ("#/route", "unknown_route", didYouMean(route, names) ?? "The configuration names no such route.")
        }
        return nil
    }

    /// Returns the app of the backend or the route that the request names.
    private func impliedApp(_ snapshot: GatewaySnapshot) -> AppName? {
        if let backend { return snapshot.app(ofBackend: backend) }
        guard let route else { return nil }
        let apps = Set(snapshot.configuration.routes.filter { $0.name == route }.map(\.app))
        return apps.count == 1 ? apps.first : nil
    }
}
