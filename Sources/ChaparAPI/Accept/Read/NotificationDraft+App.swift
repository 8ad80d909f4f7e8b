internal import ChaparDelivery
internal import ChaparCore

extension NotificationDraft {
    /// Finds the app of the request, and turns devices and users into their keys.
    ///
    /// The field `app`, a backend or a route determines it.
    package mutating func resolveApp(_ apps: AppChoice, _ issues: inout RequestIssues) {
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
